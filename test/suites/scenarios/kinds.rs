//! The kinds that scenarios name.

use olm_test::prelude::*;

/// Group and version, kind, plural, whether it lives in a namespace.
const KINDS: [(&str, &str, &str, bool); 23] = [
    ("v1", "ConfigMap", "configmaps", true),
    ("v1", "Namespace", "namespaces", false),
    ("v1", "PersistentVolume", "persistentvolumes", false),
    ("v1", "PersistentVolumeClaim", "persistentvolumeclaims", true),
    ("v1", "Pod", "pods", true),
    ("v1", "Secret", "secrets", true),
    ("v1", "Service", "services", true),
    ("v1", "ServiceAccount", "serviceaccounts", true),
    ("apps/v1", "Deployment", "deployments", true),
    ("apps/v1", "ReplicaSet", "replicasets", true),
    ("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", true),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", false),
    ("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", false),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "clusterrolebindings", false),
    ("rbac.authorization.k8s.io/v1", "Role", "roles", true),
    ("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings", true),
    ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", false),
    (
        "admissionregistration.k8s.io/v1",
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
        false,
    ),
    ("coordination.k8s.io/v1", "Lease", "leases", true),
    ("storage.k8s.io/v1", "StorageClass", "storageclasses", false),
    ("olm.operatorframework.io/v1", "ClusterCatalog", "clustercatalogs", false),
    ("olm.operatorframework.io/v1", "ClusterExtension", "clusterextensions", false),
    ("olm.operatorframework.io/v1", "ClusterObjectSet", "clusterobjectsets", false),
];

/// Kinds of objects that bundles of scenarios bring.
pub(crate) const OF_BUNDLES: [&str; 11] = [
    "ConfigMap",
    "Deployment",
    "NetworkPolicy",
    "Service",
    "ServiceAccount",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "ClusterObjectSet",
];

/// The resource of a kind, and whether it lives in a namespace. Kinds that a scenario's own CRD brings are written
/// `<kind>.<version>.<group>`, their plural being the kind with an s.
pub(crate) fn of_kind(kind: &str) -> Result<(ApiResource, bool)> {
    if let Some((api_version, kind, plural, namespaced)) =
        KINDS.iter().find(|(_, known, _, _)| *known == kind)
    {
        return Ok((resource(api_version, kind, plural), *namespaced));
    }
    let mut parts = kind.splitn(3, '.');
    let (Some(kind), Some(version), Some(group)) = (parts.next(), parts.next(), parts.next()) else {
        bail!("the kind {kind} is not known to the scenarios");
    };
    Ok((resource(&format!("{group}/{version}"), kind, &format!("{}s", kind.to_lowercase())), true))
}
