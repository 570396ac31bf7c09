//! Objects of one identity in one rendering.
//!
//! Upstream lets them through to fail while applying. Here identical ones are merged; of a ServiceAccount or
//! Service the shipped one is taken, as OLM v0 does, with the annotations its generated twin needs; all
//! others are findings.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use olm_object::ObjectKey;
use serde_json::Value;

use crate::{RenderError, fields::map_at};

/// Key of an object without its version: versions of one group name the same object.
fn identity(object: &Value) -> ObjectKey {
    ObjectKey { version: String::new(), ..ObjectKey::of(object) }
}

/// Leaves one object of each identity. `shipped` are the places of the objects the bundle ships.
///
/// # Errors
/// [`RenderError::Invalid`] with every identity that has different objects.
pub(crate) fn resolve(mut objects: Vec<Value>, shipped: &Range<usize>) -> Result<Vec<Value>, RenderError> {
    let mut places: BTreeMap<ObjectKey, Vec<usize>> = BTreeMap::new();
    for (place, object) in objects.iter().enumerate() {
        places.entry(identity(object)).or_default().push(place);
    }
    let mut dropped = BTreeSet::new();
    let mut findings = Vec::new();
    for (ObjectKey { group, kind, namespace, name, .. }, places) in
        places.into_iter().filter(|(_, places)| places.len() > 1)
    {
        let prefers_shipped = group.is_empty() && matches!(kind.as_str(), "ServiceAccount" | "Service");
        let kept = places.iter().copied().find(|place| prefers_shipped && shipped.contains(place));
        let Some(kept) = kept.or_else(|| places.first().copied()) else { continue };
        for place in places.into_iter().filter(|place| *place != kept) {
            let twin = objects.get_mut(place).map(Value::take).unwrap_or_default();
            dropped.insert(place);
            let generated = !shipped.contains(&place);
            let Some(object) = objects.get_mut(kept) else { continue };
            if *object == twin {
                continue;
            }
            if prefers_shipped && generated && shipped.contains(&kept) {
                // The certificate provider reads annotations of the Service.
                if let Some(Value::Object(wanted)) = twin.pointer("/metadata/annotations")
                    && let Some(annotations) = map_at(object, &["metadata", "annotations"])
                {
                    annotations.extend(wanted.clone());
                }
                continue;
            }
            let of =
                if namespace.is_empty() { String::new() } else { format!(" in namespace \"{namespace}\"") };
            findings.push(format!(
                "bundle contains different objects of kind \"{kind}\" with name \"{name}\"{of}"
            ));
        }
    }
    if !findings.is_empty() {
        findings.dedup();
        return Err(RenderError::Invalid(findings));
    }
    let mut place = 0;
    objects.retain(|_| {
        place += 1;
        !dropped.contains(&(place - 1))
    });
    Ok(objects)
}
