//! ServiceAccounts, roles and bindings for the permissions of a ClusterServiceVersion: upstream's names, labels and hashes.

use std::collections::BTreeMap;

use olm_bundle::{Permission, PolicyRule};
use serde::Serialize;
use serde_json::{Value, json};

use super::{PlanError, hashes};

const RBAC: &str = "rbac.authorization.k8s.io";
/// Label with the hash of rules, or of a binding's role and subjects.
const HASH_LABEL: &str = "olm.permissions.hash";
/// The ServiceAccount that every namespace has.
const DEFAULT_ACCOUNT: &str = "default";

/// An object without its kind.
pub(super) struct Derived {
    pub(super) group: &'static str,
    pub(super) kind: &'static str,
    pub(super) name: String,
    pub(super) object: Value,
}

/// What belongs to one ServiceAccount.
#[derive(Default)]
struct Account {
    /// Whether it has permissions in its namespace.
    is_namespaced: bool,
    roles: Vec<Derived>,
    bindings: Vec<Derived>,
    cluster_roles: Vec<Derived>,
    cluster_bindings: Vec<Derived>,
}

/// A ClusterServiceVersion, and its namespace.
pub(super) struct Owner<'a> {
    pub(super) name: &'a str,
    pub(super) namespace: &'a str,
    pub(super) api_version: &'a str,
}

#[derive(Serialize)]
struct Named<'a> {
    name: &'a str,
    permission: &'a Permission,
}

#[derive(Serialize)]
struct NamedInNamespace<'a> {
    name: &'a str,
    namespace: &'a str,
    permission: &'a Permission,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Binding<'a> {
    role_ref: RoleRef<'a>,
    subjects: [Subject<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RoleRef<'a> {
    api_group: &'a str,
    kind: &'a str,
    name: &'a str,
}

#[derive(Serialize)]
struct Subject<'a> {
    kind: &'a str,
    name: &'a str,
    namespace: &'a str,
}

impl Owner<'_> {
    fn labels(&self, hash: &str) -> Value {
        json!({
            "olm.owner": self.name,
            "olm.owner.namespace": self.namespace,
            "olm.owner.kind": olm_bundle::CSV_KIND,
            HASH_LABEL: hash,
        })
    }

    fn references(&self) -> Value {
        json!([{
            "apiVersion": self.api_version,
            "kind": olm_bundle::CSV_KIND,
            "name": self.name,
            "uid": "",
            "controller": false,
            "blockOwnerDeletion": false,
        }])
    }

    fn service_account(&self, name: &str, is_namespaced: bool) -> Derived {
        let mut metadata = json!({"name": name, "ownerReferences": self.references()});
        if is_namespaced {
            metadata["namespace"] = self.namespace.into();
        }
        let object = json!({"metadata": metadata});
        Derived { group: "", kind: "ServiceAccount", name: name.to_owned(), object }
    }

    /// A role and its binding.
    fn pair(
        &self,
        kinds: [&'static str; 2],
        name: &str,
        permission: &Permission,
    ) -> Result<[Derived; 2], serde_json::Error> {
        let [role, binding] = kinds;
        let no_rules = Vec::<PolicyRule>::new;
        let rules = permission.rules.clone().unwrap_or_else(no_rules);
        let is_namespaced = role == "Role";
        let account = &permission.service_account_name;
        let bound = Binding {
            role_ref: RoleRef { api_group: RBAC, kind: role, name },
            subjects: [Subject { kind: "ServiceAccount", name: account, namespace: self.namespace }],
        };
        let metadata = |hash: String, has_namespace: bool| {
            let mut metadata = json!({"name": name, "labels": self.labels(&hash)});
            if has_namespace {
                metadata["namespace"] = self.namespace.into();
            }
            if is_namespaced {
                metadata["ownerReferences"] = self.references();
            }
            metadata
        };
        let role_object = json!({
            "metadata": metadata(hashes::of_json(&permission.rules)?, is_namespaced),
            "rules": if permission.rules.is_some() { json!(rules) } else { Value::Null },
        });
        // A ClusterRoleBinding has the namespace too; the API server drops it.
        let binding_object = json!({
            "metadata": metadata(hashes::of_json(&bound)?, true),
            "roleRef": bound.role_ref,
            "subjects": bound.subjects,
        });
        Ok([
            Derived { group: RBAC, kind: role, name: name.to_owned(), object: role_object },
            Derived { group: RBAC, kind: binding, name: name.to_owned(), object: binding_object },
        ])
    }
}

/// The objects for permissions: for each ServiceAccount, by name, the ServiceAccount, Roles, RoleBindings, ClusterRoles,
/// ClusterRoleBindings. Upstream's order of ServiceAccounts is random.
pub(super) fn derived(
    owner: &Owner<'_>,
    permissions: &[Permission],
    cluster_permissions: &[Permission],
) -> Result<Vec<Derived>, PlanError> {
    let mut accounts: BTreeMap<&str, Account> = BTreeMap::new();
    for permission in permissions {
        let name = permission.service_account_name.as_str();
        let account = accounts.entry(name).or_default();
        account.is_namespaced = true;
        let value = Named { name: owner.name, permission };
        let role = hashes::name(&format!("{}-{name}", owner.name), &value)?;
        let [role, binding] = owner.pair(["Role", "RoleBinding"], &role, permission)?;
        account.roles.push(role);
        account.bindings.push(binding);
    }
    for permission in cluster_permissions {
        let account = accounts.entry(&permission.service_account_name).or_default();
        let value = NamedInNamespace { name: owner.name, namespace: owner.namespace, permission };
        let role = hashes::name(owner.name, &value)?;
        let [role, binding] = owner.pair(["ClusterRole", "ClusterRoleBinding"], &role, permission)?;
        account.cluster_roles.push(role);
        account.cluster_bindings.push(binding);
    }
    let mut all = Vec::new();
    for (name, account) in accounts {
        if name != DEFAULT_ACCOUNT {
            all.push(owner.service_account(name, account.is_namespaced));
        }
        all.extend(account.roles);
        all.extend(account.bindings);
        all.extend(account.cluster_roles);
        all.extend(account.cluster_bindings);
    }
    Ok(all)
}
