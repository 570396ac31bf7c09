//! Operator objects: what belongs to an installed package, found by a label.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement, ObjectMeta};
use olm_api_classic::{
    Components, DatedCondition, OperatorStatus, RichReference,
    names::{GROUP, OWNER_LABEL, OWNER_NAMESPACE_LABEL},
};
use serde_json::{Value, json};

/// Longest name part of a label key.
const LABEL_BYTES_MAX: usize = 63;
/// Most components that a status lists: any object may have the label.
const REFS_MAX: usize = 500;
/// Most conditions of a component that are shown, and the length of their messages in bytes.
const CONDITIONS_MAX: usize = 16;
const MESSAGE_BYTES_MAX: usize = 1024;

/// The name of the Operator of a package that is installed in a namespace.
pub fn operator_name(package: &str, namespace: &str) -> String {
    format!("{package}.{namespace}")
}

/// The label of everything that belongs to an Operator. Long names are cut.
pub fn label(operator: &str) -> String {
    let end = operator.floor_char_boundary(LABEL_BYTES_MAX);
    format!("{GROUP}/{}", operator[..end].trim_end_matches(['.', '_', '-']))
}

/// The label keys of Operators among the labels of an object.
pub fn labels_of(meta: &ObjectMeta) -> impl Iterator<Item = &String> {
    let is_component = |key: &&String| key.strip_prefix(GROUP).is_some_and(|rest| rest.starts_with('/'));
    meta.labels.iter().flat_map(|labels| labels.keys()).filter(is_component)
}

/// Whether an object belongs to a ClusterServiceVersion, by its owner references or its labels.
pub fn is_of(meta: &ObjectMeta, namespace: &str, name: &str, uid: &str) -> bool {
    let is = |key: &str, value: &str| {
        meta.labels.as_ref().and_then(|labels| labels.get(key)).is_some_and(|found| found == value)
    };
    let is_owned = meta.owner_references.iter().flatten().any(|owner| !uid.is_empty() && owner.uid == uid);
    is_owned || (is(OWNER_LABEL, name) && is(OWNER_NAMESPACE_LABEL, namespace))
}

/// A component, with the conditions of its status. A ClusterServiceVersion has its phase as condition.
pub fn reference(api_version: &str, kind: &str, object: &Value) -> RichReference {
    let text = |name: &str| object["metadata"][name].as_str().map(str::to_owned);
    let status = &object["status"];
    let conditions = if kind == "ClusterServiceVersion" {
        phase(status).into_iter().collect()
    } else {
        let all = status["conditions"].as_array().into_iter().flatten();
        all.filter_map(|one| serde_json::from_value(one.clone()).ok())
            .take(CONDITIONS_MAX)
            .map(short)
            .collect()
    };
    RichReference {
        api_version: Some(api_version.to_owned()),
        kind: Some(kind.to_owned()),
        name: text("name"),
        namespace: text("namespace"),
        conditions,
        ..RichReference::default()
    }
}

fn phase(status: &Value) -> Option<DatedCondition> {
    let phase = status["phase"].as_str().filter(|phase| !phase.is_empty())?;
    let condition = json!({
        "type": phase, "status": "True", "reason": status["reason"], "message": status["message"],
        "lastUpdateTime": status["lastUpdateTime"], "lastTransitionTime": status["lastTransitionTime"],
    });
    serde_json::from_value(condition).ok().map(short)
}

fn short(mut condition: DatedCondition) -> DatedCondition {
    if let Some(message) = &mut condition.message {
        message.truncate(message.floor_char_boundary(MESSAGE_BYTES_MAX));
    }
    condition
}

/// The status of an Operator with these components.
pub fn status(operator: &str, mut refs: Vec<RichReference>) -> OperatorStatus {
    refs.sort_by(|one, other| {
        let key = |of: &RichReference| {
            (of.kind.clone(), of.api_version.clone(), of.namespace.clone(), of.name.clone())
        };
        key(one).cmp(&key(other))
    });
    refs.truncate(REFS_MAX);
    let exists =
        LabelSelectorRequirement { key: label(operator), operator: "Exists".to_owned(), values: None };
    let selector = LabelSelector { match_expressions: Some(vec![exists]), match_labels: None };
    OperatorStatus { components: Some(Components { label_selector: Some(selector), refs }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_label_is_the_name_cut_where_a_label_ends() {
        assert_eq!(label(&operator_name("lamp", "ops")), "operators.coreos.com/lamp.ops");
        let long = format!("{}.-ops", "a".repeat(61));
        assert_eq!(label(&long), format!("operators.coreos.com/{}", "a".repeat(61)));
        assert_eq!(label(&"ä".repeat(40)).len(), "operators.coreos.com/".len() + 62);
    }

    #[test]
    fn objects_belong_to_an_operator_by_reference_or_by_labels() {
        let meta = |value: Value| -> ObjectMeta { serde_json::from_value(value).unwrap() };
        let owned =
            meta(json!({"ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "a", "uid": "u"}]}));
        let labelled = meta(json!({"labels": {"olm.owner": "a", "olm.owner.namespace": "ops"}}));
        assert!(is_of(&owned, "ops", "a", "u") && is_of(&labelled, "ops", "a", "u"));
        assert!(!is_of(&owned, "ops", "a", "v") && !is_of(&labelled, "other", "a", "u"));
        assert!(!is_of(&meta(json!({})), "ops", "a", ""));
        let both = meta(
            json!({"labels": {"operators.coreos.com/a.b": "", "operators.coreos.community": "", "c": ""}}),
        );
        assert_eq!(labels_of(&both).collect::<Vec<_>>(), ["operators.coreos.com/a.b"]);
    }

    #[test]
    fn components_are_sorted_with_their_conditions() {
        let csv = json!({
            "metadata": {"name": "a.v1", "namespace": "ops"},
            "status": {"phase": "Succeeded", "reason": "InstallSucceeded", "message": "m",
                "lastUpdateTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"},
        });
        let role = json!({"metadata": {"name": "r"}});
        let crd = json!({"metadata": {"name": "c"}, "status": {"conditions": [
            {"type": "Established", "status": "True", "message": "x".repeat(2000)}, {"status": "no type"},
        ]}});
        let refs = vec![
            reference("rbac.authorization.k8s.io/v1", "ClusterRole", &role),
            reference("operators.coreos.com/v1alpha1", "ClusterServiceVersion", &csv),
            reference("apiextensions.k8s.io/v1", "CustomResourceDefinition", &crd),
        ];
        let components = status("a.ops", refs).components.unwrap();
        let found = json!(components);
        assert_eq!(
            found["labelSelector"],
            json!({"matchExpressions": [{"key": "operators.coreos.com/a.ops", "operator": "Exists"}]})
        );
        let kinds: Vec<_> = components.refs.iter().map(|one| one.kind.clone().unwrap()).collect();
        assert_eq!(kinds, ["ClusterRole", "ClusterServiceVersion", "CustomResourceDefinition"]);
        let of_csv = json!([{
            "type": "Succeeded", "status": "True", "reason": "InstallSucceeded", "message": "m",
            "lastUpdateTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]);
        assert_eq!(found["refs"][1]["conditions"], of_csv);
        assert_eq!(components.refs[2].conditions.len(), 1);
        assert_eq!(components.refs[2].conditions[0].message.as_ref().unwrap().len(), MESSAGE_BYTES_MAX);
        let many = vec![reference("v1", "ConfigMap", &role); REFS_MAX + 1];
        assert_eq!(status("a.ops", many).components.unwrap().refs.len(), REFS_MAX);
    }
}
