//! The roles that give an operator, in the namespaces that it serves, the permissions that it has in its own.
//!
//! They are made of the ClusterServiceVersion itself, not of roles with its labels: whoever may write roles in the
//! operator's namespace could otherwise have any of them given to everybody there, or to a ServiceAccount of theirs in
//! all namespaces.

use k8s_openapi::{
    api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use olm_api_classic::{
    ClusterServiceVersion, DeploymentPermissions,
    names::{COPIED_FROM_LABEL, PERMISSIONS_HASH_LABEL},
};
use serde_json::{Value, json};

use super::key;
use crate::{csv::requirements::rule_text, group::roles::owner_labels, hashes};

const RBAC_GROUP: &str = "rbac.authorization.k8s.io";

/// The name of the Role and RoleBinding of a permission.
pub fn role_name(csv: &str, permission: &DeploymentPermissions) -> String {
    let account = &permission.service_account_name;
    let text = format!("{{\"name\":{},\"permission\":{}}}\n", quoted(csv), permission_text(permission));
    hashes::named(&format!("{csv}-{account}"), text.as_bytes())
}

/// The hash of the rules of a role.
pub fn rules_hash(rules: &[PolicyRule]) -> String {
    let rules: Vec<_> = rules.iter().map(rule_text).collect();
    hashes::sha224(format!("[{}]", rules.join(",")).as_bytes())
}

fn permission_text(permission: &DeploymentPermissions) -> String {
    let rules: Vec<_> = permission.rules.iter().map(rule_text).collect();
    let account = quoted(&permission.service_account_name);
    format!("{{\"serviceAccountName\":{account},\"rules\":[{}]}}", rules.join(","))
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// The permissions of an operator in its namespace.
fn permissions(csv: &ClusterServiceVersion) -> impl Iterator<Item = &DeploymentPermissions> {
    csv.spec.install.spec.iter().flat_map(|spec| spec.permissions.iter().flatten())
}

fn metadata(csv: &ClusterServiceVersion, name: &str, rules: &[PolicyRule]) -> ObjectMeta {
    let (namespace, of) = key(csv);
    let mut labels = owner_labels("ClusterServiceVersion", namespace, of);
    labels.insert(PERMISSIONS_HASH_LABEL.to_owned(), rules_hash(rules));
    ObjectMeta { name: Some(name.to_owned()), labels: Some(labels), ..ObjectMeta::default() }
}

fn subjects(csv: &ClusterServiceVersion, permission: &DeploymentPermissions) -> Vec<Subject> {
    vec![Subject {
        kind: "ServiceAccount".to_owned(),
        name: permission.service_account_name.clone(),
        namespace: csv.metadata.namespace.clone(),
        ..Subject::default()
    }]
}

fn role_ref(kind: &str, name: &str) -> RoleRef {
    RoleRef { api_group: Some(RBAC_GROUP.to_owned()), kind: kind.to_owned(), name: name.to_owned() }
}

/// The ClusterRoles and ClusterRoleBindings of an operator of all namespaces: its permissions in its own, everywhere.
pub fn in_all_namespaces(csv: &ClusterServiceVersion) -> Vec<(ClusterRole, ClusterRoleBinding)> {
    let name = key(csv).1;
    let pair = |permission: &DeploymentPermissions| {
        let role_name = role_name(name, permission);
        let metadata = metadata(csv, &role_name, &permission.rules);
        let namespaces =
            json!({"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list", "watch"]});
        let mut rules = permission.rules.clone();
        rules.extend(serde_json::from_value::<PolicyRule>(namespaces));
        let role = ClusterRole { metadata: metadata.clone(), rules: Some(rules), aggregation_rule: None };
        let role_ref = role_ref("ClusterRole", &role_name);
        (role, ClusterRoleBinding { metadata, role_ref, subjects: Some(subjects(csv, permission)) })
    };
    permissions(csv).map(pair).collect()
}

/// The Roles and RoleBindings of an operator in a namespace that it serves beside its own.
pub fn in_namespace(csv: &ClusterServiceVersion, namespace: &str) -> Vec<(Role, RoleBinding)> {
    let (own, name) = key(csv);
    let pair = |permission: &DeploymentPermissions| {
        let role_name = role_name(name, permission);
        let mut metadata = metadata(csv, &role_name, &permission.rules);
        metadata.namespace = Some(namespace.to_owned());
        metadata.labels.get_or_insert_default().insert(COPIED_FROM_LABEL.to_owned(), own.to_owned());
        let role = Role { metadata: metadata.clone(), rules: Some(permission.rules.clone()) };
        let role_ref = role_ref("Role", &role_name);
        (role, RoleBinding { metadata, role_ref, subjects: Some(subjects(csv, permission)) })
    };
    permissions(csv).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn csv() -> ClusterServiceVersion {
        let rule = json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list", "watch", "update"],
            "resourceNames": ["cert-manager-webhook-ca"]});
        let create = json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]});
        serde_json::from_value(json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
            "metadata": {"name": "cert-manager.v1.16.0-beta.0", "namespace": "r-cert-manager"},
            "spec": {"displayName": "a", "install": {"strategy": "deployment", "spec": {"deployments": [], "permissions": [
                {"serviceAccountName": "cert-manager-webhook", "rules": [rule, create]},
            ]}}},
        }))
        .unwrap()
    }

    /// The name and the hash of a Role that upstream wrote.
    #[test]
    fn names_and_hashes_of_roles_are_upstreams() {
        let csv = csv();
        let permission = permissions(&csv).next().unwrap();
        let name = role_name("cert-manager.v1.16.0-beta.0", permission);
        assert_eq!(name, "cert-manager.v1.16.0-bet-4aaxvJ95K3sJeEtUltsLGjc5yb1BpbFgrlNoHM");
        assert_eq!(rules_hash(&permission.rules), "aM6aTNy7hTWhWEdSE9Kf7JjPVOf7cBwNWo1s3b");
    }

    #[test]
    fn permissions_hold_where_the_operator_serves_and_for_its_service_account() {
        let csv = csv();
        let (role, binding) = in_all_namespaces(&csv).pop().unwrap();
        assert_eq!(role.rules.unwrap().len(), 3, "namespaces are read, too");
        assert_eq!(binding.subjects.unwrap()[0].namespace.as_deref(), Some("r-cert-manager"));
        assert_eq!(role.metadata.name, binding.metadata.name);
        let (role, binding) = in_namespace(&csv, "served").pop().unwrap();
        assert_eq!(role.metadata.namespace.as_deref(), Some("served"));
        assert_eq!(role.metadata.labels.unwrap()["olm.copiedFrom"], "r-cert-manager");
        assert_eq!(role.rules.unwrap().len(), 2);
        assert_eq!(binding.subjects.unwrap()[0].namespace.as_deref(), Some("r-cert-manager"));
    }
}
