//! Members in which two schemas differ.
//!
//! Schemas are in the API's form, in which equal JSON means the same: this is crdify's `equality.Semantic.DeepEqual` on
//! decoded types.

use serde_json::Value;

use crate::schema::Kind;

/// A member of two schemas.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Difference<'a> {
    pub(crate) member: &'a str,
    pub(crate) old: Option<&'a Value>,
    pub(crate) new: Option<&'a Value>,
}

/// The members in which two schemas differ.
pub(crate) fn differing<'a>(old: &'a Value, new: &'a Value) -> impl Iterator<Item = Difference<'a>> {
    differing_in(old, new, |_| true)
}

/// The members in which two schemas differ, without those whose schemas are compared at their own paths only.
pub(crate) fn differing_here<'a>(old: &'a Value, new: &'a Value) -> impl Iterator<Item = Difference<'a>> {
    differing_in(old, new, |member| !matches!(member, "items" | "properties"))
}

fn differing_in<'a>(
    old: &'a Value,
    new: &'a Value,
    is_compared: fn(&str) -> bool,
) -> impl Iterator<Item = Difference<'a>> {
    let names = |schema: &'a Value| schema.as_object().into_iter().flat_map(|members| members.keys());
    let added = names(new).filter(|name| old.get(name.as_str()).is_none());
    names(old)
        .chain(added)
        .filter(move |name| is_compared(name))
        .map(|name| Difference { member: name, old: old.get(name), new: new.get(name) })
        .filter(|difference| difference.old != difference.new)
}

/// Whether two values of a member of this type have the same schemas, by number or name, and `holds` for each pair.
pub(crate) fn holds_for_each_pair(
    kind: Kind,
    old: &Value,
    new: &Value,
    holds: fn(&Value, &Value) -> bool,
) -> bool {
    match (old, new) {
        (Value::Array(old), Value::Array(new)) => {
            old.len() == new.len() && old.iter().zip(new).all(|(old, new)| holds(old, new))
        }
        (Value::Object(old), Value::Object(new)) if kind == Kind::SchemaMap => {
            old.len() == new.len()
                && old.iter().all(|(name, old)| new.get(name).is_some_and(|new| holds(old, new)))
        }
        (Value::Object(_), Value::Object(_)) => holds(old, new),
        _ => false,
    }
}
