//! Roles and bindings of operator-controller's own account, from its table of permissions.

use operator_controller::{PERMISSIONS, Permission, Scope};
use serde_json::{Value, json};

/// The namespace of the system.
pub(crate) const NAMESPACE: &str = "olmv1-system";
const ACCOUNT: &str = "operator-controller-controller-manager";
const RBAC: &str = "rbac.authorization.k8s.io/v1";
const CLUSTER_ROLE: &str = "operator-controller-manager-role";
const ROLE: &str = "operator-controller-manager-role";

/// Namespace, account, roles and bindings, in the order they can be applied.
pub(crate) fn objects() -> Vec<Value> {
    vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
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
