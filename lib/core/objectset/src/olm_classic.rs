//! Objects that OLM Classic manages, recognised by its labels, owner references and annotations.

use olm_object::text;
use serde_json::Value;

use crate::ownership::owner_references;

const OWNER_LABEL: &str = "olm.owner";
const OWNER_KIND_LABEL: &str = "olm.owner.kind";
const OWNER_NAMESPACE_LABEL: &str = "olm.owner.namespace";
/// API group of OLM Classic, and prefix of the label `<group>/<package>.<namespace>` on everything of an operator.
const GROUP: &str = "operators.coreos.com";
/// Prefix of the annotation of CRDs whose value is `<namespace>/<ClusterServiceVersion>`.
const INSTALLED_ALONGSIDE: &str = "operatorframework.io/installed-alongside-";

/// The object of OLM Classic that manages `live`, as `<Kind> <namespace>/<name>`; `None` if there is none.
///
/// The clearest mark counts: owner labels, an owner reference, the note of a CRD, at last the label that every
/// component of an operator carries (of which only package and namespace can be read).
pub fn classic_manager(live: &Value) -> Option<String> {
    let entries = |pointer: &str| live.pointer(pointer).and_then(Value::as_object).into_iter().flatten();
    let labels = |name: &str| {
        let value = entries("/metadata/labels").find(|(key, _)| *key == name).and_then(|(_, v)| v.as_str());
        value.filter(|value| !value.is_empty())
    };
    let own_namespace = text(live, "/metadata/namespace");
    if let Some(name) = labels(OWNER_LABEL) {
        let kind = labels(OWNER_KIND_LABEL).unwrap_or("ClusterServiceVersion");
        let namespace = labels(OWNER_NAMESPACE_LABEL).unwrap_or(own_namespace);
        return Some(format!("{kind} {namespace}/{name}"));
    }
    let of_classic = |reference: &&Value| {
        text(reference, "/apiVersion").split_once('/').is_some_and(|(group, _)| group == GROUP)
    };
    if let Some(reference) = owner_references(live).find(of_classic) {
        return Some(format!("{} {own_namespace}/{}", text(reference, "/kind"), text(reference, "/name")));
    }
    let alongside = entries("/metadata/annotations").find(|(key, _)| key.starts_with(INSTALLED_ALONGSIDE));
    if let Some(place) = alongside.and_then(|(_, place)| place.as_str()) {
        return Some(format!("ClusterServiceVersion {place}"));
    }
    let component = entries("/metadata/labels").find_map(|(key, _)| {
        let (prefix, of) = key.split_once('/')?;
        if prefix == GROUP { of.rsplit_once('.') } else { None }
    });
    component.map(|(package, namespace)| format!("Subscription {namespace}/{package}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_manager_is_read_from_each_mark() {
        let csv = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "name": "op.v1"});
        let rows = [
            (json!({"labels": {"a": "b"}, "annotations": {"c": "d"}}), None),
            (
                json!({"labels": {"olm.owner": "op.v1", "olm.owner.kind": "ClusterServiceVersion", "olm.owner.namespace": "ops", "operators.coreos.com/op.ops": ""}}),
                Some("ClusterServiceVersion ops/op.v1"),
            ),
            (
                json!({"labels": {"olm.owner": "sub", "olm.owner.kind": "Subscription", "olm.owner.namespace": "ops"}}),
                Some("Subscription ops/sub"),
            ),
            (
                json!({"namespace": "ops", "ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "x"}, csv]}),
                Some("ClusterServiceVersion ops/op.v1"),
            ),
            (
                json!({"annotations": {"operatorframework.io/installed-alongside-1a2b": "ops/op.v1"}, "labels": {"operators.coreos.com/op.ops": ""}}),
                Some("ClusterServiceVersion ops/op.v1"),
            ),
            (json!({"labels": {"operators.coreos.com/my.op.ops": ""}}), Some("Subscription ops/my.op")),
        ];
        for (metadata, wanted) in rows {
            assert_eq!(classic_manager(&json!({"metadata": metadata})).as_deref(), wanted, "{metadata}");
        }
    }
}
