//! ServiceAccounts, roles and bindings for the CSV's permissions.
//!
//! An operator that watches the whole cluster gets its namespaced `permissions` cluster-wide, with the right
//! to read namespaces; otherwise it has them in the watched namespaces only.
//!
//! As `BundleCSVPermissionsGenerator`, `BundleCSVClusterPermissionsGenerator` and `BundleCSVServiceAccountGenerator` in
//! operator-controller's internal/operator-controller/rukpak/render/registryv1/generators/generators.go.

use std::collections::BTreeSet;

use olm_bundle::{Csv, Permission, PolicyRule};
use serde_json::{Value, json};

use crate::{
    RenderError,
    names::{deep_hash, object_name},
    render::Context,
};

/// One ServiceAccount for each that has permissions, sorted; `default` exists in every namespace anyway.
pub(crate) fn service_accounts(csv: &Csv, context: &Context<'_>) -> Vec<Value> {
    let accounts: BTreeSet<_> =
        csv.permissions.iter().chain(&csv.cluster_permissions).map(Permission::account).collect();
    accounts
        .into_iter()
        .filter(|name| *name != "default")
        .map(|name| {
            json!({
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": name, "namespace": context.install_namespace},
            })
        })
        .collect()
}

/// Roles with bindings of each target namespace, then ClusterRoles with bindings.
pub(crate) fn roles(csv: &Csv, context: &Context<'_>) -> Result<Vec<Value>, RenderError> {
    let mut objects = Vec::new();
    if !context.watches_all() {
        for namespace in context.target_namespaces {
            for permission in &csv.permissions {
                objects.extend(pair(csv, permission, Some(namespace), context)?);
            }
        }
    }
    for permission in &csv.cluster_permissions {
        objects.extend(pair(csv, permission, None, context)?);
    }
    if context.watches_all() {
        for permission in &csv.permissions {
            objects.extend(pair(csv, &promoted(permission), None, context)?);
        }
    }
    Ok(objects)
}

/// The permission as a cluster-wide one.
fn promoted(permission: &Permission) -> Permission {
    let mut permission = permission.clone();
    permission.rules.get_or_insert_default().push(PolicyRule {
        verbs: Some(["get", "list", "watch"].map(str::to_owned).to_vec()),
        api_groups: vec![String::new()],
        resources: vec!["namespaces".to_owned()],
        resource_names: Vec::new(),
        non_resource_urls: Vec::new(),
    });
    permission
}

/// A role and its binding, of a namespace or of the cluster.
fn pair(
    csv: &Csv,
    permission: &Permission,
    namespace: Option<&String>,
    context: &Context<'_>,
) -> Result<[Value; 2], RenderError> {
    let unwritable = |error: serde_json::Error| RenderError::Invalid(vec![format!("permissions: {error}")]);
    let account = permission.account();
    let hash = deep_hash(permission).map_err(unwritable)?;
    let name = object_name(&format!("{}-{account}", csv.name), &hash);
    let rules = serde_json::to_value(&permission.rules).map_err(unwritable)?;
    let (role, binding) = match namespace {
        Some(_) => ("Role", "RoleBinding"),
        None => ("ClusterRole", "ClusterRoleBinding"),
    };
    let mut metadata = json!({"name": name});
    if let Some(namespace) = namespace {
        metadata["namespace"] = namespace.as_str().into();
    }
    Ok([
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": role,
            "metadata": metadata,
            "rules": rules,
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": binding,
            "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": context.install_namespace}],
        }),
    ])
}
