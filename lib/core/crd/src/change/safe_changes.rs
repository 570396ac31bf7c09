//! Safe changes of members that have no check, for which crdify gives false alarms.
//!
//! crdify refuses every change of a member that has no check. Two kinds are known to be safe: a default of the API made
//! explicit, and changes of schemas below a member that are compared at their own paths anyway. A new or a removed
//! schema is never among them, as nothing compares it.

use serde_json::Value;

use super::{
    Reason,
    difference::{Difference, differing, holds_for_each_pair},
    rules,
};
use crate::schema::{ANNOTATIONS, Kind};

/// Members with the value that the API gives them when they are absent.
static API_DEFAULTS: &[(&str, &str)] = &[("x-kubernetes-map-type", "granular")];

/// The reason why a change of a member without a check is safe, if it is.
pub(crate) fn reason(difference: &Difference<'_>) -> Option<Reason> {
    let Difference { member, old, new } = *difference;
    let is_default = |value: Option<&Value>, default: &str| value.is_none_or(|value| value == default);
    if API_DEFAULTS
        .iter()
        .any(|(name, default)| *name == member && is_default(old, default) && is_default(new, default))
    {
        return Some(Reason::ExplicitDefault);
    }
    let (kind, old, new) = (Kind::of(member)?, old?, new?);
    let is_safe = match member {
        "additionalProperties" => old.is_object() && new.is_object(),
        "patternProperties" => holds_for_each_pair(kind, old, new, |_, _| true),
        "allOf" | "anyOf" => holds_for_each_pair(kind, old, new, is_nowhere_tighter),
        // Loosening below a negation tightens the whole.
        "not" => differ_in_annotations_only(old, new),
        _ => false,
    };
    is_safe.then_some(Reason::ComparedBelow)
}

/// Whether all values that satisfy the old schema satisfy the new one, as far as rules can decide.
///
/// The comparison at the schemas' own paths is not enough here: it ignores new properties, which are new constraints
/// where the schema is one of several on the same value.
fn is_nowhere_tighter(old: &Value, new: &Value) -> bool {
    differing(old, new).all(|difference| {
        match (rules::check(&difference), Kind::of(difference.member), difference.old, difference.new) {
            _ if ANNOTATIONS.contains(&difference.member) => true,
            (Some((_, text)), ..) => text.is_none(),
            (None, Some(Kind::Schema), Some(old), Some(new)) => differ_in_annotations_only(old, new),
            (
                None,
                Some(kind @ (Kind::SchemaList | Kind::SchemaMap | Kind::SchemaOrFlag | Kind::SchemaOrList)),
                Some(old),
                Some(new),
            ) => holds_for_each_pair(kind, old, new, is_nowhere_tighter),
            _ => false,
        }
    })
}

/// Whether two schemas differ in nothing that constrains, all the way down.
fn differ_in_annotations_only(old: &Value, new: &Value) -> bool {
    differing(old, new).all(|Difference { member, old, new }| match (Kind::of(member), old, new) {
        _ if ANNOTATIONS.contains(&member) => true,
        (Some(kind), Some(old), Some(new)) if kind.has_schemas() && kind != Kind::Dependencies => {
            holds_for_each_pair(kind, old, new, differ_in_annotations_only)
        }
        _ => false,
    })
}
