//! The resource that serves each kind, without a cluster to ask: by the table of kinds, and by the bundle's own CRDs.

use std::collections::BTreeSet;

use olm_object::{KNOWN_KINDS, ObjectKey, Use, defined_kinds, known_kind};
use serde_json::Value;
use thiserror::Error;

use crate::required::Target;

/// API group and resource of every kind that a rendering can hold beside those of the bundle's own CRDs.
pub fn known_resources() -> impl Iterator<Item = (&'static str, &'static str)> {
    let rendered = KNOWN_KINDS.iter().filter(|known| matches!(known.used, Use::Shipped | Use::Generated));
    rendered.map(|known| (known.group, known.plural))
}

/// A kind whose resource is not known.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "kind {kind:?} of group {group:?} is neither one of the bundle's own CRDs nor known without a cluster"
)]
pub struct UnknownKind {
    /// API group; empty for the core group.
    pub group: String,
    /// The kind.
    pub kind: String,
}

/// The objects of a rendering with the resources that serve them.
///
/// # Errors
/// An object is of a kind that neither the table nor a CRD among the objects knows.
pub fn targets(objects: &[Value]) -> Result<Vec<Target<'_>>, UnknownKind> {
    let defined = defined_kinds(objects);
    let target = |object| {
        let ObjectKey { group, kind, namespace, name, .. } = ObjectKey::of(object);
        let kind = (group, kind);
        let resource = match (defined.get(&kind), known_kind(&kind.0, &kind.1)) {
            (Some(defined), _) => Some((defined.plural.as_str(), defined.namespaced)),
            (None, known) => known.map(|known| (known.plural, known.namespaced)),
        };
        let (group, kind) = kind;
        let Some((resource, namespaced)) = resource else { return Err(UnknownKind { group, kind }) };
        let namespace = if namespaced { namespace } else { String::new() };
        Ok(Target { group, resource: resource.to_owned(), namespace, name, object })
    };
    objects.iter().map(target).collect()
}

/// The namespaces that `targets` lie in, sorted; cluster-scoped ones add none.
pub(crate) fn namespaces<'a>(targets: &'a [Target<'_>]) -> BTreeSet<&'a str> {
    targets.iter().map(|target| target.namespace.as_str()).filter(|namespace| !namespace.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn kinds_of_the_table_and_of_shipped_crds_are_known() {
        let objects = [
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "n"}}),
            json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "p", "namespace": "n"}}),
            json!({"apiVersion": "a.example.com/v1", "kind": "Beacon", "metadata": {"name": "b"}}),
            json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                   "metadata": {"name": "beacons.a.example.com"},
                   "spec": {"group": "a.example.com", "scope": "Cluster", "names": {"kind": "Beacon", "plural": "beacons"}}}),
        ];
        let found = targets(&objects).expect("known");
        let resources: Vec<&str> = found.iter().map(|target| target.resource.as_str()).collect();
        assert_eq!(resources, ["services", "poddisruptionbudgets", "beacons", "customresourcedefinitions"]);
        assert_eq!(namespaces(&found), BTreeSet::from(["n"]));
    }

    #[test]
    fn an_unknown_kind_is_named() {
        let objects = [json!({"apiVersion": "x.example.com/v1", "kind": "X", "metadata": {"name": "x"}})];
        let error = targets(&objects).expect_err("unknown");
        assert!(error.to_string().starts_with("kind \"X\" of group \"x.example.com\" is neither"), "{error}");
    }
}
