//! The rule table: one check for each member that has one (crdify, `pkg/validations/property`).
//!
//! A rule compares a member's two values and explains in crdify's words why the change is unsafe. Members without a
//! rule are compared in `unchecked`.

use std::collections::BTreeSet;

use olm_go::{Quoted, float, json::marshal};
use serde_json::Value;

use super::{Check, Finding, difference};
use crate::{
    definition::Definition,
    schema::{
        Misfit,
        access::{self, text},
    },
};

/// Two values of a member, each absent or set.
pub(crate) type Values<'a> = (Option<&'a Value>, Option<&'a Value>);

/// The text of a finding; `None` if the change is safe.
type Answer = Result<Option<String>, Misfit>;

/// A check and its rule, which is called with two different values of the member, and with its name.
pub(crate) type Rule = (Check, fn(Values<'_>, &str) -> Answer);

/// All rules. A check has the name of its member.
pub(crate) static RULES: &[Rule] = &[
    (Check::Description, |_, _| Ok(None)),
    (Check::Type, type_changed),
    (Check::Default, |values, _| Ok(default_changed(values))),
    (Check::Maximum, |values, member| upper(values, member, float)),
    (Check::Minimum, |values, member| lower(values, member, float)),
    (Check::MaxLength, |values, member| upper(values, member, integer)),
    (Check::MinLength, |values, member| lower(values, member, integer)),
    (Check::Pattern, pattern_changed),
    (Check::MaxItems, |values, member| upper(values, member, integer)),
    (Check::MinItems, |values, member| lower(values, member, integer)),
    (Check::Enum, enum_changed),
    (Check::MaxProperties, |values, member| upper(values, member, integer)),
    (Check::MinProperties, |values, member| lower(values, member, integer)),
    (Check::Required, required_changed),
    (Check::OneOf, one_of_changed),
    (Check::Nullable, |values, _| Ok(nullable_changed(values))),
];

/// The check of a member, if it has one, and the text of its finding.
pub(crate) fn check(member: &str, values: Values<'_>) -> Result<Option<(Check, Option<String>)>, Misfit> {
    match RULES.iter().find(|(check, _)| check.as_str() == member) {
        Some((check, rule)) => Ok(Some((*check, rule(values, member)?))),
        None => Ok(None),
    }
}

/// `spec.scope` must not change.
pub(crate) fn scope(old: &Definition<'_>, new: &Definition<'_>) -> Option<Finding> {
    let text = || format!("scope changed : {} -> {}", Quoted(old.scope), Quoted(new.scope));
    (old.scope != new.scope)
        .then(|| Finding::on_crd(Check::Scope, "spec.scope", (old.scope.into(), new.scope.into()), text()))
}

fn type_changed((old, new): Values<'_>, member: &str) -> Answer {
    let (old, new) = (text(old, member)?, text(new, member)?);
    Ok(Some(format!("type changed : {} -> {}", Quoted(old), Quoted(new))))
}

fn default_changed(values: Values<'_>) -> Option<String> {
    let raw = |value: &Value| Quoted(&marshal(value)).to_string();
    match values {
        (None, None) => None,
        (None, Some(new)) => Some(format!("default added when there was none previously : {}", raw(new))),
        (Some(old), None) => Some(format!("default value removed : {}", raw(old))),
        (Some(old), Some(new)) => Some(format!("default value changed : {} -> {}", raw(old), raw(new))),
    }
}

fn pattern_changed((old, new): Values<'_>, member: &str) -> Answer {
    let (old, new) = (text(old, member)?, text(new, member)?);
    let change = match (old.is_empty(), new.is_empty()) {
        (true, _) => "added",
        (_, true) => "removed",
        _ => "changed",
    };
    Ok(Some(format!("pattern {change} : {} -> {}", Quoted(old), Quoted(new))))
}

fn nullable_changed(values: Values<'_>) -> Option<String> {
    match values {
        (None, Some(_)) => Some("nullable added : false -> true".to_owned()),
        (Some(_), None) => Some("nullable removed : true -> false".to_owned()),
        _ => None,
    }
}

/// A limit's value: for comparing, and as it is printed.
type Limit = (f64, String);

fn float(value: &Value, member: &str) -> Result<Limit, Misfit> {
    let number = value.as_f64().ok_or_else(|| Misfit::new(member, "a number"))?;
    Ok((number, float::general(number)))
}

fn integer(value: &Value, member: &str) -> Result<Limit, Misfit> {
    let number = value.as_f64().filter(|number| number.fract() == 0.0);
    let number = number.ok_or_else(|| Misfit::new(member, "an integer"))?;
    Ok((number, marshal(value)))
}

fn lower((old, new): Values<'_>, member: &str, read: fn(&Value, &str) -> Result<Limit, Misfit>) -> Answer {
    let Some(new) = new else { return Ok(None) };
    let (new, new_text) = read(new, member)?;
    let Some(old) = old else {
        return Ok(Some(format!("minimum constraint added when there was none previously : {new_text}")));
    };
    let (old, old_text) = read(old, member)?;
    Ok((new > old).then(|| format!("minimum increased : {old_text} -> {new_text}")))
}

fn upper((old, new): Values<'_>, member: &str, read: fn(&Value, &str) -> Result<Limit, Misfit>) -> Answer {
    let Some(new) = new else { return Ok(None) };
    let (new, new_text) = read(new, member)?;
    let Some(old) = old else {
        return Ok(Some(format!("maximum constraint added when there was none previously : {new_text}")));
    };
    let (old, old_text) = read(old, member)?;
    Ok((new < old).then(|| format!("maximum decreased : {old_text} -> {new_text}")))
}

fn enum_changed((old, new): Values<'_>, member: &str) -> Answer {
    let set = |values| -> Result<BTreeSet<String>, Misfit> {
        // crdify decodes null as an empty text.
        let raw = |value: &Value| if value.is_null() { String::new() } else { marshal(value) };
        Ok(access::list(values, member)?.iter().map(raw).collect())
    };
    let (old, new) = (set(old)?, set(new)?);
    if old.is_empty() {
        let text = "enum constraint added when there was none previously";
        return Ok((!new.is_empty()).then(|| format!("{text} : [{}]", joined(&new))));
    }
    let removed: BTreeSet<_> = old.difference(&new).cloned().collect();
    Ok((!removed.is_empty()).then(|| format!("allowed enum values removed : [{}]", joined(&removed))))
}

fn required_changed((old, new): Values<'_>, member: &str) -> Answer {
    let set = |values| -> Result<BTreeSet<String>, Misfit> {
        Ok(access::texts(values, member)?.into_iter().map(str::to_owned).collect())
    };
    let (old, new) = (set(old)?, set(new)?);
    let added: BTreeSet<_> = new.difference(&old).cloned().collect();
    Ok((!added.is_empty()).then(|| format!("new required fields: [{}]", joined(&added))))
}

fn one_of_changed((old, new): Values<'_>, member: &str) -> Answer {
    let set = |values| -> Result<BTreeSet<String>, Misfit> {
        let members = access::list(values, member)?.iter();
        Ok(members.map(|member| marshal(&difference::without_annotations(member))).collect())
    };
    let (old, new) = (set(old)?, set(new)?);
    if old.is_empty() {
        let text = "oneOf constraint added when there was none previously";
        return Ok((!new.is_empty()).then(|| format!("{text}: [{}]", joined(&new))));
    }
    let removed: BTreeSet<_> = old.difference(&new).cloned().collect();
    if !removed.is_empty() {
        return Ok(Some(format!("allowed oneOf schemas removed: [{}]", joined(&removed))));
    }
    let added: BTreeSet<_> = new.difference(&old).cloned().collect();
    Ok((!added.is_empty()).then(|| format!("allowed oneOf schemas added: [{}]", joined(&added))))
}

/// A list as `%v` writes it, without the brackets.
fn joined(texts: &BTreeSet<String>) -> String {
    texts.iter().map(String::as_str).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::RULES;
    use crate::schema::MEMBERS;

    #[test]
    fn every_rule_is_named_after_a_member() {
        for (check, _) in RULES {
            assert!(MEMBERS.iter().any(|member| member.name == check.as_str()), "{check}");
        }
    }
}
