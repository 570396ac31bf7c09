//! Safe changes of members that have no check, for which crdify gives false alarms.
//!
//! crdify refuses every change of a member that has no check. Two kinds are known to be safe: a default of the API made
//! explicit, and changes of schemas below a member that are compared at their own paths anyway. A new or a removed
//! schema is never among them, as nothing compares it.

use serde_json::Value;

use super::{
    Reason,
    difference::{self, Difference},
    rules,
};
use crate::schema::{ANNOTATIONS, Kind, Member, Members, Misfit};

/// Members with the value that the API gives them when they are absent.
static API_DEFAULTS: &[(&str, &str)] = &[("x-kubernetes-map-type", "granular")];

/// The reason why a change of a member without a check is safe, if it is.
pub(crate) fn reason(difference: &Difference<'_>) -> Result<Option<Reason>, Misfit> {
    let (member, old, new) = *difference;
    if is_api_default(member, old) && is_api_default(member, new) {
        return Ok(Some(Reason::ExplicitDefault));
    }
    let (Some(old), Some(new)) = (old, new) else {
        return Ok(None);
    };
    let is_safe = match member.name {
        "additionalProperties" => old.is_object() && new.is_object(),
        "patternProperties" => same_names(old, new),
        "allOf" | "anyOf" => nowhere_tighter_list(old, new)?,
        // Loosening below a negation tightens the whole.
        "not" => same_but_for_annotations(old, new),
        _ => false,
    };
    Ok(is_safe.then_some(Reason::ComparedBelow))
}

fn is_api_default(member: &Member, value: Option<&Value>) -> bool {
    API_DEFAULTS
        .iter()
        .any(|(name, default)| *name == member.name && value.is_none_or(|value| value == default))
}

fn same_names(old: &Value, new: &Value) -> bool {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            old.len() == new.len() && old.keys().all(|name| new.contains_key(name))
        }
        _ => false,
    }
}

fn nowhere_tighter_list(old: &Value, new: &Value) -> Result<bool, Misfit> {
    let (Value::Array(old), Value::Array(new)) = (old, new) else {
        return Ok(false);
    };
    if old.len() != new.len() {
        return Ok(false);
    }
    for (old, new) in old.iter().zip(new) {
        if !nowhere_tighter(old, new)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether all values that satisfy the old schema satisfy the new one, as far as rules can decide.
///
/// The comparison at the schemas' own paths is not enough here: it ignores new properties, which are new constraints
/// where the schema is one of several on the same value.
fn nowhere_tighter(old: &Value, new: &Value) -> Result<bool, Misfit> {
    let (Value::Object(old), Value::Object(new)) = (old, new) else {
        return Ok(false);
    };
    nowhere_tighter_schema(old, new)
}

fn nowhere_tighter_schema(old: &Members, new: &Members) -> Result<bool, Misfit> {
    for (member, old, new) in difference::differing(old, new) {
        if ANNOTATIONS.contains(&member.name) {
            continue;
        }
        let is_safe = match (rules::check(member.name, (old, new))?, old, new) {
            (Some((_, text)), ..) => text.is_none(),
            (None, Some(old), Some(new)) => match member.kind {
                Kind::SchemaList if member.name != "oneOf" => nowhere_tighter_list(old, new)?,
                Kind::SchemaMap => nowhere_tighter_map(old, new)?,
                Kind::SchemaOrList if old.is_array() => nowhere_tighter_list(old, new)?,
                Kind::SchemaOrFlag | Kind::SchemaOrList => nowhere_tighter(old, new)?,
                Kind::Schema => same_but_for_annotations(old, new),
                _ => false,
            },
            _ => false,
        };
        if !is_safe {
            return Ok(false);
        }
    }
    Ok(true)
}

fn nowhere_tighter_map(old: &Value, new: &Value) -> Result<bool, Misfit> {
    if !same_names(old, new) {
        return Ok(false);
    }
    let (Value::Object(old), Value::Object(new)) = (old, new) else {
        return Ok(false);
    };
    for (name, old) in old {
        let Some(new) = new.get(name) else {
            return Ok(false);
        };
        if !nowhere_tighter(old, new)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether two schemas differ in nothing that constrains, all the way down.
fn same_but_for_annotations(old: &Value, new: &Value) -> bool {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            difference::differing(old, new).all(|(member, old, new)| {
                if ANNOTATIONS.contains(&member.name) {
                    return true;
                }
                let (Some(old), Some(new)) = (old, new) else {
                    return false;
                };
                match member.kind {
                    Kind::Schema | Kind::SchemaOrFlag => same_but_for_annotations(old, new),
                    Kind::SchemaList | Kind::SchemaOrList => same_but_for_annotations_list(old, new),
                    Kind::SchemaMap => same_but_for_annotations_map(old, new),
                    _ => false,
                }
            })
        }
        _ => old == new,
    }
}

fn same_but_for_annotations_list(old: &Value, new: &Value) -> bool {
    match (old, new) {
        (Value::Array(old), Value::Array(new)) => {
            old.len() == new.len() && old.iter().zip(new).all(|(old, new)| same_but_for_annotations(old, new))
        }
        _ => same_but_for_annotations(old, new),
    }
}

fn same_but_for_annotations_map(old: &Value, new: &Value) -> bool {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            old.len() == new.len()
                && old
                    .iter()
                    .all(|(name, old)| new.get(name).is_some_and(|new| same_but_for_annotations(old, new)))
        }
        _ => false,
    }
}
