//! Changes of members that have no check (crdify's `unhandled`): refused, because no rule says that they are safe.

use olm_go::json::marshal;
use olm_text::{cut, one_line};
use serde_json::{Map, Value};

use super::{
    Policy, Reason,
    difference::{Difference, canonical_value},
    safe_changes,
};
use crate::{
    limits::{FIELDS_SHOWN_MAX, VALUE_CHARS_MAX},
    schema::Misfit,
};

/// The differences by the reason of their verdict, in the order of the first of each.
pub(crate) fn by_reason<'a>(
    differences: &[Difference<'a>],
    policy: Policy,
) -> Result<Vec<(Reason, Vec<Difference<'a>>)>, Misfit> {
    let mut groups: Vec<(Reason, Vec<Difference<'a>>)> = Vec::new();
    for difference in differences {
        let reason = match policy {
            Policy::Upstream => Reason::NotUnderstood,
            Policy::Ours => safe_changes::reason(difference)?.unwrap_or(Reason::NotUnderstood),
        };
        match groups.iter_mut().find(|(other, _)| *other == reason) {
            Some((_, group)) => group.push(*difference),
            None => groups.push((reason, vec![*difference])),
        }
    }
    Ok(groups)
}

/// The members that differ, as an object for each side.
pub(crate) fn values(differences: &[Difference<'_>]) -> (Value, Value) {
    let (mut old_side, mut new_side) = (Map::new(), Map::new());
    for (member, old, new) in differences {
        for (side, value) in [(&mut old_side, old), (&mut new_side, new)] {
            side.extend(value.map(|value| (member.name.to_owned(), canonical_value(value, member.kind))));
        }
    }
    (old_side.into(), new_side.into())
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
