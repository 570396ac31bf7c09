//! The rule table: one check for each member that has one, as in crdify's pkg/validations/property.
//!
//! A rule compares a member's two values and explains in crdify's words why the change is unsafe. Members without a
//! rule are compared in `unchecked`.

use std::collections::BTreeSet;

use olm_go::{Quoted, float, json::marshal};
use serde_json::Value;

use super::{Check, difference::Difference};
use crate::schema::{ANNOTATIONS, Kind};

/// The text of a finding about two different values of a member; `None` if the change is safe.
type Rule = fn(&Difference<'_>) -> Option<String>;

/// All rules. A check has the name of its member.
static RULES: &[(Check, Rule)] = &[
    (Check::Description, |_| None),
    (Check::Type, |change| {
        Some(format!("type changed : {} -> {}", Quoted(text(change.old)), Quoted(text(change.new))))
    }),
    (Check::Default, default_changed),
    (Check::Maximum, upper),
    (Check::Minimum, lower),
    (Check::MaxLength, upper),
    (Check::MinLength, lower),
    (Check::Pattern, |change| Some(pattern_changed(change))),
    (Check::MaxItems, upper),
    (Check::MinItems, lower),
    (Check::Enum, enum_changed),
    (Check::MaxProperties, upper),
    (Check::MinProperties, lower),
    (Check::Required, required_changed),
    (Check::OneOf, one_of_changed),
    (Check::Nullable, |change| {
        let text = if change.new.is_some() { "added : false -> true" } else { "removed : true -> false" };
        Some(format!("nullable {text}"))
    }),
];

/// The check of a member, if it has one, and the text of its finding.
pub(crate) fn check(difference: &Difference<'_>) -> Option<(Check, Option<String>)> {
    let (check, rule) = RULES.iter().find(|(check, _)| check.as_str() == difference.member)?;
    Some((*check, rule(difference)))
}

fn text(value: Option<&Value>) -> &str {
    value.and_then(Value::as_str).unwrap_or_default()
}

fn default_changed(change: &Difference<'_>) -> Option<String> {
    let raw = |value: &Value| Quoted(&marshal(value)).to_string();
    Some(match (change.old, change.new) {
        (None, new) => format!("default added when there was none previously : {}", raw(new?)),
        (Some(old), None) => format!("default value removed : {}", raw(old)),
        (Some(old), Some(new)) => format!("default value changed : {} -> {}", raw(old), raw(new)),
    })
}

fn pattern_changed(change: &Difference<'_>) -> String {
    let (old, new) = (text(change.old), text(change.new));
    let how = match (old.is_empty(), new.is_empty()) {
        (true, _) => "added",
        (_, true) => "removed",
        _ => "changed",
    };
    format!("pattern {how} : {} -> {}", Quoted(old), Quoted(new))
}

fn lower(change: &Difference<'_>) -> Option<String> {
    bound(change, "minimum", "increased", |old, new| new > old)
}

fn upper(change: &Difference<'_>) -> Option<String> {
    bound(change, "maximum", "decreased", |old, new| new < old)
}

fn bound(change: &Difference<'_>, side: &str, how: &str, is_tighter: fn(f64, f64) -> bool) -> Option<String> {
    let is_float = Kind::of(change.member) == Some(Kind::Float);
    let number = |value: &Value| value.as_f64().unwrap_or_default();
    let shown = |value: &Value| if is_float { float::general(number(value)) } else { marshal(value) };
    match (change.old, change.new) {
        (_, None) => None,
        (None, Some(new)) => {
            Some(format!("{side} constraint added when there was none previously : {}", shown(new)))
        }
        (Some(old), Some(new)) => is_tighter(number(old), number(new))
            .then(|| format!("{side} {how} : {} -> {}", shown(old), shown(new))),
    }
}

/// The elements of a member's old value and those of its new one, as texts.
fn sets(change: &Difference<'_>, as_text: fn(&Value) -> String) -> (BTreeSet<String>, BTreeSet<String>) {
    let set =
        |list: Option<&Value>| list.and_then(Value::as_array).into_iter().flatten().map(as_text).collect();
    (set(change.old), set(change.new))
}

fn enum_changed(change: &Difference<'_>) -> Option<String> {
    // crdify decodes null as an empty text.
    let (old, new) = sets(change, |value| if value.is_null() { String::new() } else { marshal(value) });
    if old.is_empty() {
        return beyond(&new, &old, "enum constraint added when there was none previously : ");
    }
    beyond(&old, &new, "allowed enum values removed : ")
}

fn required_changed(change: &Difference<'_>) -> Option<String> {
    let (old, new) = sets(change, |name| name.as_str().unwrap_or_default().to_owned());
    beyond(&new, &old, "new required fields: ")
}

fn one_of_changed(change: &Difference<'_>) -> Option<String> {
    let (old, new) = sets(change, |schema| {
        let mut schema = schema.clone();
        if let Value::Object(members) = &mut schema {
            members.retain(|name, _| !ANNOTATIONS.contains(&name.as_str()));
        }
        marshal(&schema)
    });
    if old.is_empty() {
        return beyond(&new, &old, "oneOf constraint added when there was none previously: ");
    }
    beyond(&old, &new, "allowed oneOf schemas removed: ")
        .or_else(|| beyond(&new, &old, "allowed oneOf schemas added: "))
}

/// The elements that only the first set has, behind `text` and as `%v` writes them; `None` if there are none.
fn beyond(set: &BTreeSet<String>, other: &BTreeSet<String>, text: &str) -> Option<String> {
    let only: Vec<&str> = set.difference(other).map(String::as_str).collect();
    (!only.is_empty()).then(|| format!("{text}[{}]", only.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::RULES;
    use crate::schema::Kind;

    #[test]
    fn every_rule_is_named_after_a_member() {
        for (check, _) in RULES {
            assert!(Kind::of(check.as_str()).is_some(), "{check}");
        }
    }
}
