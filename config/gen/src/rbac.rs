//! Roles and bindings of operator-controller's own ServiceAccount, from its table of permissions.

use operator_controller::{PERMISSIONS, Permission, Scope};
use serde_json::{Value, json};

/// The namespace of the system.
pub(crate) const NAMESPACE: &str = "olmv1-system";
/// The ServiceAccount of operator-controller, with or without catalogd inside.
pub(crate) const ACCOUNT: &str = "operator-controller-controller-manager";
pub(crate) const RBAC: &str = "rbac.authorization.k8s.io/v1";
const CLUSTER_ROLE: &str = "operator-controller-manager-role";
const ROLE: &str = "operator-controller-manager-role";

/// Permissions that only the unrestricted controller has: to act as any ServiceAccount of the cluster, and to list Pods,
/// whose specs may carry credentials, and Events. The restricted one lists them as the ServiceAccount of the extension.
const UNRESTRICTED: [&[&str]; 2] = [&["serviceaccounts/token"], &["events", "pods"]];

/// For which accounts the controller may make tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Accounts {
    /// For all, which is almost equivalent to cluster-admin.
    All,
    /// For those whose owners grant it, each with a Role in the ServiceAccount's namespace.
    Granted,
}

/// Namespace, ServiceAccount, roles and bindings, in the order they can be applied.
pub(crate) fn objects() -> Vec<Value> {
    vec![
        namespace(),
        json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": ACCOUNT, "namespace": NAMESPACE},
        }),
        cluster_role(Accounts::All),
        binding("ClusterRoleBinding", "ClusterRole", CLUSTER_ROLE, None),
        json!({
            "apiVersion": RBAC, "kind": "Role",
            "metadata": {"name": ROLE, "namespace": NAMESPACE},
            "rules": rules(held(Accounts::All), Scope::SystemNamespace),
        }),
        binding("RoleBinding", "Role", ROLE, Some(NAMESPACE)),
    ]
}

/// The permissions in the whole cluster.
pub(crate) fn cluster_role(accounts: Accounts) -> Value {
    json!({
        "apiVersion": RBAC, "kind": "ClusterRole",
        "metadata": {"name": CLUSTER_ROLE},
        "rules": rules(held(accounts), Scope::Cluster),
    })
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

/// The permissions of a scope as the rules of a role.
pub(crate) fn rules<'p>(permissions: impl Iterator<Item = &'p Permission>, scope: Scope) -> Vec<Value> {
    let rule = |p: &Permission| {
        let mut rule = json!({"apiGroups": [p.group], "resources": p.resources, "verbs": p.verbs});
        if !p.names.is_empty() {
            rule["resourceNames"] = json!(p.names);
        }
        rule
    };
    permissions.filter(|p| p.scope == scope).map(rule).collect()
}

/// The permissions of operator-controller.
fn held(accounts: Accounts) -> impl Iterator<Item = &'static Permission> {
    let is_held = move |p: &&Permission| {
        accounts == Accounts::All || !UNRESTRICTED.iter().any(|one| p.resources == *one)
    };
    PERMISSIONS.iter().filter(is_held)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restricted_is_all_but_the_right_to_act_as_any_account() {
        let rules_of = |accounts| cluster_role(accounts)["rules"].as_array().cloned().unwrap();
        let (all, restricted) = (rules_of(Accounts::All), rules_of(Accounts::Granted));
        let gone: Vec<&Value> = all.iter().filter(|rule| !restricted.contains(rule)).collect();
        let token = json!({"apiGroups": [""], "resources": ["serviceaccounts/token"], "verbs": ["create"]});
        let pods = json!({"apiGroups": [""], "resources": ["events", "pods"], "verbs": ["list"]});
        assert_eq!(gone, [&token, &pods]);
        assert_eq!(all.len(), restricted.len() + 2);
    }
}
