//! The rule table: one check for each member that has one (crdify, `pkg/validations/property`).
//!
//! A rule compares a member's two values and explains in crdify's words why the change is unsafe. Members without a
//! rule are compared in `unchecked`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Check, Finding, Reason, Scope, difference, literal};
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

/// One line of the table.
pub(crate) struct Rule {
    pub(crate) check: Check,
    /// The member it checks, which is also the name of the check.
    pub(crate) member: &'static str,
    /// Called only when the two values differ.
    pub(crate) check_change: fn(Values<'_>) -> Answer,
}

/// All rules on members of a schema.
pub(crate) static RULES: &[Rule] = &[
    rule(Check::Description, "description", |_| Ok(None)),
    rule(Check::Type, "type", type_changed),
    rule(Check::Default, "default", |values| Ok(default_changed(values))),
    rule(Check::Maximum, "maximum", |values| upper(values, "maximum", float)),
    rule(Check::Minimum, "minimum", |values| lower(values, "minimum", float)),
    rule(Check::MaxLength, "maxLength", |values| upper(values, "maxLength", integer)),
    rule(Check::MinLength, "minLength", |values| lower(values, "minLength", integer)),
    rule(Check::Pattern, "pattern", pattern_changed),
    rule(Check::MaxItems, "maxItems", |values| upper(values, "maxItems", integer)),
    rule(Check::MinItems, "minItems", |values| lower(values, "minItems", integer)),
    rule(Check::Enum, "enum", enum_changed),
    rule(Check::MaxProperties, "maxProperties", |values| upper(values, "maxProperties", integer)),
    rule(Check::MinProperties, "minProperties", |values| lower(values, "minProperties", integer)),
    rule(Check::Required, "required", required_changed),
    rule(Check::OneOf, "oneOf", one_of_changed),
    rule(Check::Nullable, "nullable", |values| Ok(nullable_changed(values))),
];

const fn rule(check: Check, member: &'static str, check_change: fn(Values<'_>) -> Answer) -> Rule {
    Rule { check, member, check_change }
}

/// The rule on a member.
pub(crate) fn on(member: &str) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.member == member)
}

/// `spec.scope` must not change.
pub(crate) fn scope(old: &Definition<'_>, new: &Definition<'_>) -> Option<Finding> {
    (old.scope != new.scope).then(|| Finding {
        scope: Scope::Crd,
        path: "spec.scope".to_owned(),
        check: Check::Scope,
        text: format!("scope changed : {} -> {}", literal::quote(old.scope), literal::quote(new.scope)),
        old: old.scope.into(),
        new: new.scope.into(),
        verdict: Reason::Incompatible.verdict(),
        reason: Reason::Incompatible,
    })
}

fn type_changed((old, new): Values<'_>) -> Answer {
    let (old, new) = (text(old, "type")?, text(new, "type")?);
    Ok(Some(format!("type changed : {} -> {}", literal::quote(old), literal::quote(new))))
}

fn default_changed(values: Values<'_>) -> Option<String> {
    let raw = |value: &Value| literal::quote(&literal::json(value));
    match values {
        (None, None) => None,
        (None, Some(new)) => Some(format!("default added when there was none previously : {}", raw(new))),
        (Some(old), None) => Some(format!("default value removed : {}", raw(old))),
        (Some(old), Some(new)) => Some(format!("default value changed : {} -> {}", raw(old), raw(new))),
    }
}

fn pattern_changed((old, new): Values<'_>) -> Answer {
    let (old, new) = (text(old, "pattern")?, text(new, "pattern")?);
    let change = match (old.is_empty(), new.is_empty()) {
        (true, _) => "added",
        (_, true) => "removed",
        _ => "changed",
    };
    Ok(Some(format!("pattern {change} : {} -> {}", literal::quote(old), literal::quote(new))))
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
    Ok((number, literal::float(number)))
}

fn integer(value: &Value, member: &str) -> Result<Limit, Misfit> {
    let number = value.as_f64().filter(|number| number.fract() == 0.0);
    let number = number.ok_or_else(|| Misfit::new(member, "an integer"))?;
    Ok((number, literal::json(value)))
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

fn enum_changed((old, new): Values<'_>) -> Answer {
    let set = |values| -> Result<BTreeSet<String>, Misfit> {
        // crdify decodes null as an empty text.
        let raw = |value: &Value| if value.is_null() { String::new() } else { literal::json(value) };
        Ok(access::list(values, "enum")?.iter().map(raw).collect())
    };
    let (old, new) = (set(old)?, set(new)?);
    if old.is_empty() {
        let text = "enum constraint added when there was none previously";
        return Ok((!new.is_empty()).then(|| format!("{text} : [{}]", joined(&new))));
    }
    let removed: BTreeSet<_> = old.difference(&new).cloned().collect();
    Ok((!removed.is_empty()).then(|| format!("allowed enum values removed : [{}]", joined(&removed))))
}

fn required_changed((old, new): Values<'_>) -> Answer {
    let set = |values| -> Result<BTreeSet<String>, Misfit> {
        let mut names = BTreeSet::new();
        for name in access::list(values, "required")? {
            names.insert(text(Some(name), "required")?.to_owned());
        }
        Ok(names)
    };
    let (old, new) = (set(old)?, set(new)?);
    let added: BTreeSet<_> = new.difference(&old).cloned().collect();
    Ok((!added.is_empty()).then(|| format!("new required fields: [{}]", joined(&added))))
}

fn one_of_changed((old, new): Values<'_>) -> Answer {
    let set = |values| -> Result<BTreeSet<String>, Misfit> {
        let members = access::list(values, "oneOf")?.iter();
        Ok(members.map(|member| literal::json(&difference::without_annotations(member))).collect())
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
        for rule in RULES {
            assert!(MEMBERS.iter().any(|member| member.name == rule.member), "{}", rule.member);
            assert_eq!(rule.check.as_str(), rule.member);
        }
    }
}
