//! Permissions: those that the installing ServiceAccount does not have, and those that the
//! ServiceAccounts of the operator will hold.
//!
//! They are listed by the ServiceAccounts that hold them: names of roles are made from their content and identify nothing.

use std::collections::{BTreeMap, BTreeSet};

use olm_object::Rule;
use olm_rbac::{Comparison, Danger, Held, Permission, dangers, rules_of};
use serde::Serialize;
use serde_json::Value;

use crate::limits::PERMISSION_ENTRIES_MAX as ENTRIES_MAX;

/// The permissions of one ServiceAccount of the operator.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceAccountPermissions {
    /// Namespace and name.
    pub service_account: String,
    /// Permissions by roles of the bundle.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub permissions: Vec<Permission>,
    /// Roles that are not part of the bundle, with where they hold: their rules may change.
    /// Also roles that have too many rules to be listed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub foreign_roles: Vec<String>,
    /// Powers that come with its cluster-wide permissions, the worst first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dangers: Vec<String>,
}

/// The permissions of the operator's ServiceAccounts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Permissions {
    /// All that they will hold.
    pub held: Vec<ServiceAccountPermissions>,
    /// Those that the installed revision does not give them; everything on a first installation.
    pub increase: Vec<ServiceAccountPermissions>,
}

/// The permissions that the objects of a revision give to ServiceAccounts, compared with those of the installed one.
pub fn operator_permissions<'o, 'n>(
    installed: impl IntoIterator<Item = &'o Value>,
    new: impl IntoIterator<Item = &'n Value>,
) -> Permissions {
    let (old, new) = (holders(installed), holders(new));
    let none = Holder::default();
    let nothing = Held::default();
    let mut permissions = Permissions::default();
    let (mut of_held, mut of_increase) = (Comparison::default(), Comparison::default());
    for (account, holder) in &new {
        permissions.held.push(holder.beyond(account, &nothing, &none, &mut of_held));
        let before = old.get(account).unwrap_or(&none);
        let increase = holder.beyond(account, &before.held(), before, &mut of_increase);
        if !increase.permissions.is_empty() || !increase.foreign_roles.is_empty() {
            permissions.increase.push(increase);
        }
    }
    permissions
}

/// The permissions of one ServiceAccount.
#[derive(Debug, Default)]
struct Holder {
    rules: Vec<Permission>,
    foreign_roles: BTreeSet<String>,
}

impl Holder {
    fn held(&self) -> Held {
        let mut held = Held::default();
        for Permission { namespace, rule } in &self.rules {
            if namespace.is_empty() {
                held.cluster.push(rule.clone());
            } else {
                held.namespaces.entry(namespace.clone()).or_default().push(rule.clone());
            }
        }
        held
    }

    fn dangers(&self) -> BTreeSet<Danger> {
        dangers(&self.held().cluster)
    }

    /// The permissions that the ServiceAccount did not have as `before`, which is given as `held` too.
    fn beyond(
        &self,
        account: &str,
        held: &Held,
        before: &Self,
        comparison: &mut Comparison,
    ) -> ServiceAccountPermissions {
        let dangers = self.dangers();
        let mut permissions = comparison.missing(&self.rules, held);
        permissions.sort();
        ServiceAccountPermissions {
            service_account: account.to_owned(),
            permissions,
            foreign_roles: self.foreign_roles.difference(&before.foreign_roles).cloned().collect(),
            dangers: dangers.difference(&before.dangers()).map(|one| one.meaning().to_owned()).collect(),
        }
    }
}

/// The part of the cluster in which a permission holds.
pub(crate) fn place_of(namespace: &str) -> String {
    if namespace.is_empty() { "in the whole cluster".to_owned() } else { format!("in namespace {namespace}") }
}

fn holders<'a>(objects: impl IntoIterator<Item = &'a Value>) -> BTreeMap<String, Holder> {
    let objects: Vec<&Value> = objects.into_iter().collect();
    let text = |value: &'a Value| value.as_str().unwrap_or_default();
    let is_role = |role: &&&Value| role["kind"] == "Role" || role["kind"] == "ClusterRole";
    let place = |object: &'a Value| text(&object["metadata"]["namespace"]);
    let key = |kind, namespace, name| (kind, if kind == "Role" { namespace } else { "" }, name);
    // Of equal keys the first object stays.
    let shipped: BTreeMap<_, &Value> = (objects.iter().rev().filter(is_role))
        .map(|role| (key(text(&role["kind"]), place(role), text(&role["metadata"]["name"])), *role))
        .collect();
    let mut holders: BTreeMap<String, Holder> = BTreeMap::new();
    let (mut seen, mut entries) = (BTreeSet::new(), 0_usize);
    for binding in &objects {
        if binding["kind"] != "ClusterRoleBinding" && binding["kind"] != "RoleBinding" {
            continue;
        }
        let namespace = place(binding);
        let (kind, name) = (text(&binding["roleRef"]["kind"]), text(&binding["roleRef"]["name"]));
        let role = shipped.get(&key(kind, namespace, name));
        let subjects = binding["subjects"].as_array().into_iter().flatten();
        for subject in subjects.filter(|subject| subject["kind"] == "ServiceAccount") {
            let of = Some(text(&subject["namespace"])).filter(|of| !of.is_empty()).unwrap_or(namespace);
            let account = format!("{of}/{}", text(&subject["name"]));
            if !seen.insert((account.clone(), kind, namespace, name)) {
                continue;
            }
            let holder = holders.entry(account).or_default();
            let rules = role.filter(|_| entries <= ENTRIES_MAX).map(|role| rules_of(role));
            entries = rules.iter().flatten().map(Rule::entries).fold(entries, usize::saturating_add);
            let place = place_of(namespace);
            match (role, rules) {
                (_, Some(rules)) if entries <= ENTRIES_MAX => {
                    let namespace = || namespace.to_owned();
                    holder
                        .rules
                        .extend(rules.into_iter().map(|rule| Permission { namespace: namespace(), rule }));
                }
                (Some(_), _) => {
                    holder
                        .foreign_roles
                        .insert(format!("{kind} {name} {place}, with too many rules to be listed"));
                }
                (None, _) => {
                    holder.foreign_roles.insert(format!("{kind} {name} {place}"));
                }
            }
        }
    }
    holders
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn objects(role: &str, rules: &Value) -> Vec<Value> {
        vec![
            json!({"kind": "ClusterRole", "metadata": {"name": role}, "rules": rules}),
            json!({"kind": "ClusterRoleBinding", "metadata": {"name": role},
                "roleRef": {"kind": "ClusterRole", "name": role},
                "subjects": [{"kind": "ServiceAccount", "name": "sa", "namespace": "ns"}]}),
        ]
    }

    #[test]
    fn only_what_goes_beyond_the_installed_permissions_is_an_increase() {
        let old = objects("a", &json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["*"]}]));
        let same =
            objects("b", &json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]));
        assert!(operator_permissions(&old, &same).increase.is_empty(), "a wildcard held it already");
        let more = objects(
            "c",
            &json!([
                {"apiGroups": [""], "resources": ["pods", "secrets"], "verbs": ["get"]},
                {"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]},
            ]),
        );
        let permissions = operator_permissions(&old, &more);
        assert_eq!(permissions.held.len(), 1);
        let [increase] = permissions.increase.as_slice() else { panic!("{permissions:?}") };
        assert_eq!(increase.service_account, "ns/sa");
        let [one] = increase.permissions.as_slice() else { panic!("{increase:?}") };
        assert_eq!(one.rule.resources, ["secrets".to_owned()].into());
        assert_eq!(one.rule.verbs, ["get".to_owned(), "list".to_owned()].into());
        assert_eq!(increase.dangers, ["may read Secrets of every namespace"]);
        assert_eq!(operator_permissions(&[], &more).increase.len(), 1, "all of it, the first time");
    }

    #[test]
    fn roles_of_others_are_named() {
        let binding = json!({"kind": "RoleBinding", "metadata": {"name": "b", "namespace": "kube-system"},
            "roleRef": {"kind": "Role", "name": "reader"},
            "subjects": [{"kind": "ServiceAccount", "name": "sa", "namespace": "ns"}, {"kind": "User", "name": "u"}]});
        let permissions = operator_permissions(&[], [&binding]);
        assert_eq!(permissions.increase[0].foreign_roles, ["Role reader in namespace kube-system"]);
        assert!(operator_permissions([&binding], [&binding]).increase.is_empty());
    }

    #[test]
    fn what_all_service_accounts_get_has_a_limit() {
        let verbs: Vec<String> = (0..ENTRIES_MAX / 3).map(|i| i.to_string()).collect();
        let mut all = objects("a", &json!([{"apiGroups": [""], "resources": ["pods"], "verbs": verbs}]));
        let subject =
            |i: usize| json!({"kind": "ServiceAccount", "name": format!("sa{i}"), "namespace": "ns"});
        all[1]["subjects"] = (0..5).map(subject).collect();
        let permissions = operator_permissions(&[], &all);
        let listed: Vec<bool> =
            permissions.held.iter().map(|account| account.foreign_roles.is_empty()).collect();
        assert_eq!(listed, [true, true, false, false, false]);
        assert!(permissions.held[4].foreign_roles[0].ends_with("with too many rules to be listed"));
    }
}
