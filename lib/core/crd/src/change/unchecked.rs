//! Changes of members that have no check (crdify's `unhandled`): refused, because no rule says that they are safe.

use std::collections::BTreeMap;

use olm_go::json::marshal;
use olm_text::{cut, one_line};
use serde_json::{Map, Value};

use super::{Policy, Reason, difference::Difference, safe_changes};
use crate::limits::{FIELDS_SHOWN_MAX, VALUE_CHARS_MAX};

/// The differences by the reason of their verdict.
pub(crate) fn by_reason<'a>(
    differences: &[Difference<'a>],
    policy: Policy,
) -> BTreeMap<Reason, Vec<Difference<'a>>> {
    let mut groups: BTreeMap<Reason, Vec<Difference<'a>>> = BTreeMap::new();
    for difference in differences {
        let safe = if policy == Policy::Ours { safe_changes::reason(difference) } else { None };
        groups.entry(safe.unwrap_or(Reason::NotUnderstood)).or_default().push(*difference);
    }
    groups
}

/// The members that differ, as an object for each side.
pub(crate) fn values(differences: &[Difference<'_>]) -> (Value, Value) {
    let side = |value: fn(&Difference<'_>) -> Option<Value>| -> Map<String, Value> {
        differences.iter().filter_map(|d| Some((d.member.to_owned(), value(d)?))).collect()
    };
    (side(|d| d.old.cloned()).into(), side(|d| d.new.cloned()).into())
}

/// Names the fields that changed, each with its value before and after.
pub(crate) fn text(old: &Value, new: &Value) -> String {
    let mut fields = Vec::new();
    add_changed_fields("", Some(old), Some(new), &mut fields);
    let hidden = fields.len().saturating_sub(FIELDS_SHOWN_MAX);
    fields.truncate(FIELDS_SHOWN_MAX);
    if hidden > 0 {
        fields.push(format!("{hidden} more"));
    }
    format!("unhandled changes found ({})", one_line(&fields.join("; ")))
}

fn add_changed_fields(path: &str, old: Option<&Value>, new: Option<&Value>, fields: &mut Vec<String>) {
    match (old, new) {
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            let added = new.keys().filter(|name| !old.contains_key(*name));
            for name in old.keys().chain(added) {
                let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                add_changed_fields(&below, old.get(name), new.get(name), fields);
            }
        }
        (Some(Value::Array(old)), Some(Value::Array(new))) if old.len() == new.len() => {
            for (index, (old, new)) in old.iter().zip(new).enumerate() {
                add_changed_fields(&format!("{path}[{index}]"), Some(old), Some(new), fields);
            }
        }
        (old, new) => {
            let [old, new] = [old, new].map(|value| value.map_or_else(|| "none".to_owned(), marshal));
            if old == new {
                return;
            }
            let [path, old, new] = [path, &old, &new].map(|text| cut(text, VALUE_CHARS_MAX));
            fields.push(match fields.len() {
                // The others are only counted.
                FIELDS_SHOWN_MAX.. => String::new(),
                _ if old == new => format!("{path} changed"),
                _ => format!("{path} {old} -> {new}"),
            });
        }
    }
}
