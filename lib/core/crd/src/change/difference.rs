//! Members in which two schemas differ.
//!
//! Values are equal if they mean the same to the API: an absent member equals its type's zero value, an empty list or
//! map equals none, numbers are compared as numbers, and members that the API does not have do not count. This is
//! crdify's `equality.Semantic.DeepEqual` on decoded types.

use olm_go::json::marshal;
use serde_json::Value;

use crate::schema::{
    ANNOTATIONS, DOCS_MEMBERS, Kind, MEMBERS, Member, Members, RULE_MEMBERS, element, value,
};

/// The members whose schemas are compared at their own paths only.
const BELOW: [&str; 2] = ["items", "properties"];

/// Whether two schemas are the same in all members.
pub(crate) fn same_schema(old: &Value, new: &Value) -> bool {
    match (element(old), element(new)) {
        (Some(old), Some(new)) => old == new || differing(old, new).next().is_none(),
        _ => old == new,
    }
}

/// A member in which two schemas differ, with both values.
pub(crate) type Difference<'a> = (&'static Member, Option<&'a Value>, Option<&'a Value>);

/// The members in which two schemas differ.
pub(crate) fn differing<'a>(old: &'a Members, new: &'a Members) -> impl Iterator<Item = Difference<'a>> {
    MEMBERS.iter().filter_map(|member| difference(old, new, member))
}

fn difference<'a>(old: &'a Members, new: &'a Members, member: &'static Member) -> Option<Difference<'a>> {
    let (old, new) = (value(old, member), value(new, member));
    (!same(old, new, member.kind)).then_some((member, old, new))
}

/// The members in which two schemas differ, without those whose schemas are compared at their own paths.
pub(crate) fn differing_here<'a>(old: &'a Members, new: &'a Members) -> Vec<Difference<'a>> {
    let here = |name: &str| !BELOW.contains(&name);
    // Nearly all schemas are the same byte for byte, which needs no table.
    let same = |one: &Members, other: &Members| {
        one.iter().all(|(name, value)| !here(name) || other.get(name) == Some(value))
    };
    let names = |schema: &Members| schema.keys().filter(|name| here(name)).count();
    if names(old) == names(new) && same(old, new) {
        return Vec::new();
    }
    MEMBERS
        .iter()
        .filter(|member| here(member.name))
        .filter_map(|member| difference(old, new, member))
        .collect()
}

/// Whether two values of a member are the same.
pub(crate) fn same(old: Option<&Value>, new: Option<&Value>, kind: Kind) -> bool {
    match (old, new) {
        (None, None) => true,
        (Some(old), Some(new)) => old == new || same_value(old, new, kind),
        _ => false,
    }
}

/// Whether two values that are not the same JSON mean the same.
fn same_value(old: &Value, new: &Value, kind: Kind) -> bool {
    match kind {
        Kind::Text | Kind::TextPointer | Kind::Flag | Kind::FlagPointer | Kind::TextList => false,
        Kind::Float | Kind::Integer => old.is_number() && new.is_number() && old.as_f64() == new.as_f64(),
        Kind::Json | Kind::JsonList => marshal(old) == marshal(new),
        Kind::Schema | Kind::SchemaOrFlag => same_schema(old, new),
        Kind::SchemaList => same_list(old, new, same_schema),
        Kind::SchemaMap | Kind::Dependencies => same_map(old, new, same_schema),
        Kind::SchemaOrList => same_list(old, new, same_schema) || same_schema(old, new),
        Kind::ExternalDocs => same_members(old, new, DOCS_MEMBERS),
        Kind::ValidationRules => same_list(old, new, |old, new| same_members(old, new, RULE_MEMBERS)),
    }
}

fn same_list(old: &Value, new: &Value, same: impl Fn(&Value, &Value) -> bool) -> bool {
    match (old, new) {
        (Value::Array(old), Value::Array(new)) => {
            old.len() == new.len() && old.iter().zip(new).all(|(old, new)| same(old, new))
        }
        _ => false,
    }
}

fn same_map(old: &Value, new: &Value, same: impl Fn(&Value, &Value) -> bool) -> bool {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            old.len() == new.len()
                && old.iter().all(|(key, old)| new.get(key).is_some_and(|new| same(old, new)))
        }
        _ => false,
    }
}

fn same_members(old: &Value, new: &Value, members: &[Member]) -> bool {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            members.iter().all(|member| same(value(old, member), value(new, member), member.kind))
        }
        _ => false,
    }
}

/// A schema as the API's types hold it: without members that they do not have and without those that equal
/// absent ones.
pub(crate) fn canonical(schema: &Value) -> Value {
    let Some(members) = element(schema) else {
        return schema.clone();
    };
    let kept = MEMBERS.iter().filter_map(|member| {
        let value = value(members, member)?;
        Some((member.name.to_owned(), canonical_value(value, member.kind)))
    });
    Value::Object(kept.collect())
}

pub(crate) fn canonical_value(value: &Value, kind: Kind) -> Value {
    match (kind, value) {
        (Kind::Schema | Kind::SchemaOrFlag | Kind::SchemaOrList, Value::Object(_)) => canonical(value),
        (Kind::SchemaList | Kind::SchemaOrList, Value::Array(list)) => list.iter().map(canonical).collect(),
        (Kind::SchemaMap | Kind::Dependencies, Value::Object(map)) => {
            let schemas = map.iter().map(|(name, schema)| (name.clone(), canonical(schema)));
            Value::Object(schemas.collect())
        }
        _ => value.clone(),
    }
}

/// A schema without the members that describe and do not constrain.
pub(crate) fn without_annotations(schema: &Value) -> Value {
    let mut schema = canonical(schema);
    if let Value::Object(members) = &mut schema {
        members.retain(|name, _| !ANNOTATIONS.contains(&name.as_str()));
    }
    schema
}
