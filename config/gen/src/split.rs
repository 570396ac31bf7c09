//! A separate catalogd: ServiceAccount, permissions, Deployment and network objects.
//!
//! Its permissions have a table of their own, a subset of operator-controller's.

use operator_controller::{CATALOGD_PERMISSIONS, Scope};
use serde_json::{Value, json};

use crate::{
    network,
    pods::CATALOGD,
    rbac::{NAMESPACE, RBAC, rules},
};

const ROLE: &str = "catalogd-manager-role";
const BINDING: &str = "catalogd-manager-rolebinding";

/// Replicas where it runs on its own.
const REPLICAS: u32 = 2;

/// Everything, in the order it can be applied.
pub(crate) fn objects() -> Vec<Value> {
    let mut objects = rbac();
    objects.extend(network::catalogd_objects());
    objects.push(CATALOGD.deployment(REPLICAS));
    objects
}

fn rbac() -> Vec<Value> {
    let account = CATALOGD.deployment;
    let subject = json!([{"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}]);
    let reference = |kind: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": ROLE});
    let metadata = |name: &str| json!({"name": name, "labels": {"app.kubernetes.io/name": CATALOGD.name}});
    let namespaced = |name: &str| {
        let mut metadata = metadata(name);
        metadata["namespace"] = NAMESPACE.into();
        metadata
    };
    vec![
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": namespaced(account)}),
        json!({
            "apiVersion": RBAC, "kind": "ClusterRole", "metadata": metadata(ROLE),
            "rules": rules(CATALOGD_PERMISSIONS.iter(), Scope::Cluster),
        }),
        json!({
            "apiVersion": RBAC, "kind": "ClusterRoleBinding", "metadata": metadata(BINDING),
            "roleRef": reference("ClusterRole"), "subjects": subject,
        }),
        json!({
            "apiVersion": RBAC, "kind": "Role", "metadata": namespaced(ROLE),
            "rules": rules(CATALOGD_PERMISSIONS.iter(), Scope::SystemNamespace),
        }),
        json!({
            "apiVersion": RBAC, "kind": "RoleBinding", "metadata": namespaced(BINDING),
            "roleRef": reference("Role"), "subjects": subject,
        }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn catalogd_gets_nothing_that_is_about_extensions_or_accounts() {
        let rules = rules(CATALOGD_PERMISSIONS.iter(), Scope::Cluster);
        let resources: Vec<&str> = rules
            .iter()
            .flat_map(|rule| rule["resources"].as_array().unwrap())
            .map(|resource| resource.as_str().unwrap())
            .collect();
        assert!(resources.contains(&"clustercatalogs/status"), "{resources:?}");
        let about_others = |resource: &&&str| {
            ["clusterextensions", "clusterobjectsets", "serviceaccounts/token", "*"].contains(*resource)
        };
        assert_eq!(resources.iter().find(about_others), None);
    }
}
