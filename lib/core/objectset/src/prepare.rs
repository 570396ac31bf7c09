//! From rendered objects to the content of a revision, and from there to the objects that are written to the cluster.

use olm_api::names::{
    BUNDLE_VERSION, MANAGED_BY, MANAGED_BY_LABEL, OWNER_KIND_LABEL, OWNER_NAME_LABEL, PACKAGE_NAME,
    REVISION_ANNOTATION,
};
use olm_object::{ObjectKey, encode_string_data};
use serde_json::{Map, Value};
use thiserror::Error;

use crate::{deletion_policy::mark, ownership::Owner};

const LAST_APPLIED_ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Which extension and bundle rendered objects belong to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin<'a> {
    /// Name of the ClusterExtension.
    pub extension: &'a str,
    /// Package name.
    pub package: &'a str,
    /// Bundle version.
    pub version: &'a str,
}

/// Why an object cannot be part of a revision.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ObjectError {
    /// `apiVersion`, `kind` or `metadata.name` is missing.
    #[error("object {key} has no {field}: every object of a bundle needs one")]
    Missing {
        /// Kind, version and name, as far as the object has them.
        key: String,
        /// The missing field.
        field: &'static str,
    },
}

/// Prepares a rendered object for storage in a revision: owner labels, origin annotations, and metadata
/// reduced to the fields that a bundle may set.
///
/// # Errors
/// The object has no apiVersion, kind or name.
pub fn prepare(mut object: Value, origin: &Origin<'_>) -> Result<Value, ObjectError> {
    let key = ObjectKey::of(&object);
    for (field, value) in [("apiVersion", &key.version), ("kind", &key.kind), ("metadata.name", &key.name)] {
        if value.is_empty() {
            return Err(ObjectError::Missing { key: key.to_string(), field });
        }
    }
    let mut metadata = Map::new();
    metadata.insert("name".into(), key.name.clone().into());
    if !key.namespace.is_empty() {
        metadata.insert("namespace".into(), key.namespace.clone().into());
    }
    let mut labels = string_map(&object, "/metadata/labels");
    labels.insert(OWNER_KIND_LABEL.into(), "ClusterExtension".into());
    labels.insert(OWNER_NAME_LABEL.into(), origin.extension.into());
    metadata.insert("labels".into(), Value::Object(labels));
    let mut annotations = string_map(&object, "/metadata/annotations");
    annotations.remove(LAST_APPLIED_ANNOTATION);
    for (annotation, value) in [(BUNDLE_VERSION, origin.version), (PACKAGE_NAME, origin.package)] {
        if !value.is_empty() {
            annotations.insert(annotation.into(), value.into());
        }
    }
    metadata.insert("annotations".into(), Value::Object(annotations));
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
        fields.insert("metadata".into(), Value::Object(metadata));
    }
    Ok(object)
}

/// The object as a revision writes it: the stored content and the mark of the revision, which is an owner
/// reference, or an annotation where the deletion policy retains the object.
pub fn for_revision(mut object: Value, owner: &Owner, extension: Option<&str>) -> Value {
    let key = ObjectKey::of(&object);
    // Otherwise the object could not be compared with the live one, and an apply would own `stringData` where a create
    // owned `data`.
    encode_string_data(&mut object);
    leave_aggregated_rules(&key, &mut object);
    let mut labels = string_map(&object, "/metadata/labels");
    labels.insert(MANAGED_BY_LABEL.into(), MANAGED_BY.into());
    if let Some(extension) = extension {
        labels.insert(OWNER_NAME_LABEL.into(), extension.into());
    }
    let mut annotations = string_map(&object, "/metadata/annotations");
    annotations.insert(REVISION_ANNOTATION.into(), owner.revision.to_string().into());
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("labels".into(), Value::Object(labels));
        metadata.insert("annotations".into(), Value::Object(annotations));
        mark(metadata, &key, owner);
    }
    object
}

/// Removes the rules of a ClusterRole that is made of others. Kubernetes fills them in and overwrites what anybody else
/// writes there: a revision that had them would repair them without an end.
fn leave_aggregated_rules(key: &ObjectKey, object: &mut Value) {
    let is_role = key.group == "rbac.authorization.k8s.io" && key.kind == "ClusterRole";
    if is_role
        && object["aggregationRule"].is_object()
        && let Some(fields) = object.as_object_mut()
    {
        fields.remove("rules");
    }
}

fn string_map(object: &Value, pointer: &str) -> Map<String, Value> {
    object.pointer(pointer).and_then(Value::as_object).cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::deletion_policy::DeletionPolicy;

    const ORIGIN: Origin<'_> = Origin { extension: "ext", package: "pkg", version: "1.0.0" };

    #[test]
    fn rules_that_kubernetes_aggregates_are_not_the_revisions() {
        let owner = Owner {
            api_version: String::new(),
            kind: String::new(),
            name: "ext-1".to_owned(),
            uid: "u".to_owned(),
            revision: 1,
            policy: DeletionPolicy::Delete,
        };
        let role = |kind: &str, group: &str, more: Value| {
            let mut role = json!({
                "apiVersion": format!("{group}/v1"), "kind": kind, "metadata": {"name": "r"}, "rules": [],
            });
            role.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            for_revision(role, &owner, None)["rules"].is_array()
        };
        let (rbac, aggregated) = ("rbac.authorization.k8s.io", json!({"aggregationRule": {}}));
        assert!(!role("ClusterRole", rbac, aggregated.clone()));
        assert!(role("ClusterRole", rbac, json!({})));
        assert!(role("ClusterRole", "example.com", aggregated.clone()));
        assert!(role("Role", rbac, aggregated));
    }

    #[test]
    fn metadata_is_reduced_and_marked() {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "status": {"x": 1}, "data": {"a": "b"},
            "metadata": {
                "name": "c", "namespace": "n", "uid": "u", "creationTimestamp": null,
                "labels": {"olm.operatorframework.io/owner-name": "stolen", "app": "x"},
                "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "keep": "me"},
            },
        });
        let prepared = prepare(object, &ORIGIN).unwrap();
        assert_eq!(
            prepared,
            json!({
                "apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"},
                "metadata": {
                    "name": "c", "namespace": "n",
                    "labels": {
                        "app": "x",
                        "olm.operatorframework.io/owner-kind": "ClusterExtension",
                        "olm.operatorframework.io/owner-name": "ext",
                    },
                    "annotations": {
                        "keep": "me",
                        "olm.operatorframework.io/bundle-version": "1.0.0",
                        "olm.operatorframework.io/package-name": "pkg",
                    },
                },
            })
        );
    }

    #[test]
    fn an_object_without_api_version_is_refused() {
        let error = prepare(json!({"kind": "Secret", "metadata": {"name": "s"}}), &ORIGIN).unwrap_err();
        assert_eq!(
            error.to_string(),
            "object Secret. s has no apiVersion: every object of a bundle needs one"
        );
    }

    #[test]
    fn a_revision_marks_what_it_writes() {
        let stored = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}});
        let owner = Owner {
            api_version: "olm.operatorframework.io/v1".into(),
            kind: "ClusterObjectSet".into(),
            name: "ext-3".into(),
            uid: "u".into(),
            revision: 3,
            policy: DeletionPolicy::Delete,
        };
        let object = for_revision(stored.clone(), &owner, Some("ext"));
        assert_eq!(
            object.pointer("/metadata/annotations/olm.operatorframework.io~1revision"),
            Some(&json!("3"))
        );
        assert_eq!(object.pointer("/metadata/ownerReferences/0/controller"), Some(&json!(true)));
        assert_eq!(
            object.pointer("/metadata/labels/app.kubernetes.io~1managed-by"),
            Some(&json!(MANAGED_BY))
        );
        let kept = for_revision(stored, &Owner { policy: DeletionPolicy::Orphan, ..owner }, Some("ext"));
        assert_eq!(
            kept.pointer("/metadata/annotations/olm.operatorframework.io~1owner-uid"),
            Some(&json!("u"))
        );
        assert_eq!(kept.pointer("/metadata/ownerReferences"), None);
    }

    #[test]
    fn plain_data_of_a_secret_is_written_as_the_server_keeps_it() {
        let owner = Owner {
            api_version: "v1".into(),
            kind: "ClusterObjectSet".into(),
            name: "ext-1".into(),
            uid: "u".into(),
            revision: 1,
            policy: DeletionPolicy::Delete,
        };
        let secret = |fields: Value| {
            let mut stored = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}});
            stored.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            let written = for_revision(stored, &owner, None);
            (written["data"].clone(), written.get("stringData").cloned())
        };
        let both = json!({"data": {"a": "MQ==", "b": "Mg=="}, "stringData": {"b": "3"}});
        assert_eq!(secret(both), (json!({"a": "MQ==", "b": "Mw=="}), None));
        assert_eq!(secret(json!({"stringData": {"a": ""}})), (json!({"a": ""}), None));
        assert_eq!(secret(json!({"type": "x"})), (Value::Null, None));
    }
}
