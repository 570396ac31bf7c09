//! Kinds that a bundle's objects need and the cluster does not serve, before a revision is made.

use std::{borrow::Cow, collections::BTreeSet};

use kube::ResourceExt;
use olm_api::names::LEFT_OUT_ANNOTATION;
use olm_dependencies::{Requirement, requirements};
use olm_fbc::{PROPERTY_GVK_REQUIRED, Property};
use olm_object::{ObjectKey, defined_kinds};
use olm_objectset::{Phase, UnknownKinds, unserved_kind_report};
use serde_json::json;

use crate::{
    cluster_extension::{
        Context, annotations,
        decide::dependencies::{bundles, remedies},
        observe::{Observed, revisions::Revisions},
        plan::Draft,
        report::Cause,
    },
    facts::kinds::survey,
};

/// Objects named in a condition; the rest are counted.
const NAMED_MAX: usize = 10;

/// The objects that can be checked now: without those that are left out until the cluster serves their kinds.
///
/// # Errors
/// Kinds are missing without which it cannot continue; it is tried again when they arrive.
pub(crate) async fn of_served_kinds<'p>(
    cx: &Context,
    observed: &Observed<'_>,
    Draft { phases, dependencies, .. }: &'p Draft,
) -> Result<Cow<'p, [Phase]>, Cause> {
    let extension = observed.extension;
    let objects = || phases.iter().flat_map(|phase| &phase.objects);
    let keys: Vec<ObjectKey> = objects().map(ObjectKey::of).collect();
    // What is created first may bring them.
    let policy = match dependencies {
        Some(_) => UnknownKinds::default(),
        None => annotations::unknown_kinds(extension),
    };
    let found = survey(&cx.discovery, keys.iter(), || defined_kinds(objects()), policy).await;
    // Without these the revision waits, if anything is to be waited for.
    if !found.blocking.is_empty() || !found.silent.is_empty() {
        observed.wanted.add(found.interests());
    }
    if !found.blocking.is_empty() {
        let explanation = providers(cx, observed, &found.blocking).await;
        let text = format!("creating new Revision: {}", unserved(&found.blocking));
        return Err(Cause { explanation, ..Cause::transient(text) });
    }
    if found.left_out.is_empty() {
        return Ok(Cow::Borrowed(phases));
    }
    let mut phases = phases.clone();
    for phase in &mut phases {
        phase.objects.retain(|object| !found.left_out.contains(&ObjectKey::of(object)));
    }
    Ok(Cow::Owned(phases))
}

/// Which bundles of the catalogs would bring the kinds.
async fn providers(cx: &Context, observed: &Observed<'_>, unserved: &BTreeSet<ObjectKey>) -> Option<String> {
    let mut wanted: Vec<Property> = Vec::new();
    for key in unserved {
        let value = json!({"group": key.group, "version": key.version, "kind": key.kind});
        let property = Property { kind: PROPERTY_GVK_REQUIRED.to_owned(), value };
        if !wanted.contains(&property) {
            wanted.push(property);
        }
    }
    let wanted: Vec<Requirement> = requirements(&wanted).ok()?;
    let installed = bundles(cx, &observed.extension.name_any(), Revisions::installed);
    Some(remedies(cx, observed.wanted, &wanted, &installed).await)
}

/// One line for each kind, with its first object.
fn unserved(keys: &BTreeSet<ObjectKey>) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut kinds: Vec<(&str, &str, &str)> = Vec::new();
    for key in keys {
        let kind = (key.group.as_str(), key.version.as_str(), key.kind.as_str());
        if !kinds.contains(&kind) {
            kinds.push(kind);
            lines.push(format!("Object {key}: {}", unserved_kind_report(key)));
        }
    }
    let more = lines.len().saturating_sub(NAMED_MAX);
    lines.truncate(NAMED_MAX);
    if more > 0 {
        lines.push(format!("and {more} more kinds"));
    }
    lines.join("\n")
}

/// Sentences for `Ready` about what the revisions leave out.
pub(crate) fn notes(revisions: &Revisions) -> Vec<String> {
    let latest = revisions.latest_active().and_then(|revision| revision.annotation(LEFT_OUT_ANNOTATION));
    let Some(left_out) = latest.and_then(|text| serde_json::from_str::<Vec<String>>(text).ok()) else {
        return Vec::new();
    };
    let more = left_out.len().saturating_sub(NAMED_MAX);
    let mut named = left_out;
    named.truncate(NAMED_MAX);
    if more > 0 {
        named.push(format!("and {more} more"));
    }
    vec![format!(
        "Left out because the cluster does not serve their kinds, and applied once it does: {}.",
        named.join(", ")
    )]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_named_once() {
        let key = |kind: &str, name: &str| {
            ObjectKey::of(
                &json!({"apiVersion": "cert-manager.io/v1", "kind": kind, "metadata": {"name": name, "namespace": "n"}}),
            )
        };
        let keys = [key("Certificate", "a"), key("Certificate", "b"), key("Issuer", "a")];
        assert_eq!(
            unserved(&keys.into()),
            "Object Certificate.cert-manager.io/v1 n/a: no matches for kind \"Certificate\" in version \"cert-manager.io/v1\": it comes with cert-manager\n\
             Object Issuer.cert-manager.io/v1 n/a: no matches for kind \"Issuer\" in version \"cert-manager.io/v1\": it comes with cert-manager"
        );
    }
}
