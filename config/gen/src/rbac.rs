//! Roles and bindings of operator-controller's own account, from its table of permissions.

use operator_controller::{PERMISSIONS, Permission, Scope};
use serde_json::{Value, json};

/// The namespace of the system.
pub(crate) const NAMESPACE: &str = "olmv1-system";
/// The account of operator-controller, with or without catalogd inside.
pub(crate) const ACCOUNT: &str = "operator-controller-controller-manager";
pub(crate) const RBAC: &str = "rbac.authorization.k8s.io/v1";
const CLUSTER_ROLE: &str = "operator-controller-manager-role";
const ROLE: &str = "operator-controller-manager-role";

/// Namespace, account, roles and bindings, in the order they can be applied.
pub(crate) fn objects() -> Vec<Value> {
    vec![
        namespace(),
        json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": ACCOUNT, "namespace": NAMESPACE},
        }),
        json!({
            "apiVersion": RBAC, "kind": "ClusterRole",
            "metadata": {"name": CLUSTER_ROLE},
            "rules": rules(Scope::Cluster),
        }),
        binding("ClusterRoleBinding", "ClusterRole", CLUSTER_ROLE, None),
        json!({
            "apiVersion": RBAC, "kind": "Role",
            "metadata": {"name": ROLE, "namespace": NAMESPACE},
            "rules": rules(Scope::SystemNamespace),
        }),
        binding("RoleBinding", "Role", ROLE, Some(NAMESPACE)),
    ]
}

/// Only pods that the strictest of the Pod Security Standards admits.
fn namespace() -> Value {
    let mut labels = json!({"app.kubernetes.io/name": "olmv1"});
    for mode in ["audit", "enforce", "warn"] {
        labels[format!("pod-security.kubernetes.io/{mode}")] = json!("restricted");
        labels[format!("pod-security.kubernetes.io/{mode}-version")] = json!("latest");
    }
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}})
}

fn rules(scope: Scope) -> Vec<Value> {
    let rule = |p: &Permission| json!({"apiGroups": [p.group], "resources": p.resources, "verbs": p.verbs});
    PERMISSIONS.iter().filter(|p| p.scope == scope).map(rule).collect()
}

fn binding(kind: &str, role_kind: &str, role: &str, namespace: Option<&str>) -> Value {
    let mut metadata = json!({"name": "operator-controller-manager-rolebinding"});
    if let Some(namespace) = namespace {
        metadata["namespace"] = namespace.into();
    }
    json!({
        "apiVersion": RBAC, "kind": kind,
        "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role_kind, "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}],
    })
}
