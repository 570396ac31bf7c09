//! Identity and text form of a Kubernetes object held as JSON.

use std::fmt;

use serde_json::Value;

use crate::text;

/// Identity of an object in the cluster: group, version, kind, namespace and name.
///
/// The order is the one in which the objects of a phase are written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// API group; empty for the core group.
    pub group: String,
    /// API version within the group.
    pub version: String,
    /// Kind.
    pub kind: String,
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl ObjectKey {
    /// Reads the identity of `object`; fields that are absent are empty.
    pub fn of(object: &Value) -> Self {
        let api_version = text(object, "/apiVersion");
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Self {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: text(object, "/kind").to_owned(),
            namespace: text(object, "/metadata/namespace").to_owned(),
            name: text(object, "/metadata/name").to_owned(),
        }
    }

    /// `group/version`, or only the version for the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Whether the object is a CustomResourceDefinition.
    pub fn is_crd(&self) -> bool {
        self.kind == "CustomResourceDefinition" && self.group == "apiextensions.k8s.io"
    }

    /// Whether the object is a role or a binding, of the cluster or of a namespace.
    pub fn is_rbac(&self) -> bool {
        self.group == "rbac.authorization.k8s.io"
    }

    /// Whether both name the same object, whatever version it is written in.
    pub fn same_object(&self, other: &Self) -> bool {
        self.group == other.group
            && self.kind == other.kind
            && self.namespace == other.namespace
            && self.name == other.name
    }
}

impl fmt::Display for ObjectKey {
    /// `<Kind>.<group/version> <namespace>/<name>`, the form used in conditions.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{} ", self.kind, self.api_version())?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn core_and_grouped_objects_are_named() {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "n"}});
        assert_eq!(ObjectKey::of(&pod).to_string(), "Pod.v1 n/a");
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"}});
        assert_eq!(ObjectKey::of(&role).to_string(), "ClusterRole.rbac.authorization.k8s.io/v1 r");
    }

    #[test]
    fn an_object_without_api_version_has_an_empty_one() {
        assert_eq!(ObjectKey::of(&json!({"kind": "X"})).api_version(), "");
    }
}
