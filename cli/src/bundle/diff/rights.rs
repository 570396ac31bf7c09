//! The permissions of a bundle's ServiceAccounts, before and after.

use std::fmt::Write as _;

use olm_plan::{Account, operator_rights};
use olm_text::one_line;
use serde::Serialize;
use serde_json::Value;

/// Permissions that come and go.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Rights {
    added: Vec<Right>,
    removed: Vec<Right>,
}

/// Verbs on a resource, or a role whose rules are not part of the bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Right {
    /// Namespace and name.
    account: String,
    /// Empty for the whole cluster.
    namespace: String,
    /// `group/resource`, or the path that is no resource, or the role and where it holds.
    on: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String,
    /// None for a role.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    verbs: Vec<String>,
}

/// What accounts gain and lose.
pub(crate) fn compare(old: &[Value], new: &[Value]) -> Rights {
    let increase =
        |before, after| operator_rights(before, after).increase.into_iter().flat_map(of_account).collect();
    Rights { added: increase(old, new), removed: increase(new, old) }
}

fn of_account(increase: Account) -> Vec<Right> {
    let Account { account, rights, foreign_roles, .. } = increase;
    let unresolved = foreign_roles.into_iter().map(|role| Right {
        account: account.clone(),
        namespace: String::new(),
        on: role,
        name: String::new(),
        verbs: Vec::new(),
    });
    let rules = rights.into_iter().map(|right| {
        let on_resources = right.rule.api_groups.iter().flat_map(|group| {
            right.rule.resources.iter().map(move |resource| match group.as_str() {
                "" => resource.clone(),
                group => format!("{group}/{resource}"),
            })
        });
        let on: Vec<String> = on_resources.chain(right.rule.non_resource_urls.iter().cloned()).collect();
        Right {
            account: account.clone(),
            namespace: right.namespace,
            on: on.join(","),
            name: right.rule.resource_names.into_iter().collect::<Vec<_>>().join(","),
            verbs: right.rule.verbs.into_iter().collect(),
        }
    });
    let mut all: Vec<Right> = rules.collect();
    all.sort_by(|a, b| (&a.namespace, &a.on, &a.name).cmp(&(&b.namespace, &b.on, &b.name)));
    all.extend(unresolved);
    all
}

impl Rights {
    pub(crate) fn write(&self, text: &mut String) {
        if self.added.is_empty() && self.removed.is_empty() {
            return;
        }
        text.push_str("Rights\n");
        for (sign, rights) in [('+', &self.added), ('-', &self.removed)] {
            for Right { account, namespace, on, name, verbs } in rights {
                let place = if namespace.is_empty() { "cluster" } else { namespace };
                let name = if name.is_empty() { String::new() } else { format!(" {name:?}") };
                // Writing to a string cannot fail.
                let line = if verbs.is_empty() {
                    format!("  {sign} {account}  all of {on}")
                } else {
                    format!("  {sign} {account}  {place}  {on}{name}: {}", verbs.join(","))
                };
                let _ = writeln!(text, "{}", one_line(&line));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::compare;

    fn objects(role: &str, rules: &Value) -> Vec<Value> {
        vec![
            json!({"kind": "ClusterRole", "metadata": {"name": role}, "rules": rules}),
            json!({"kind": "ClusterRoleBinding", "metadata": {"name": role},
                "roleRef": {"kind": "ClusterRole", "name": role},
                "subjects": [{"kind": "ServiceAccount", "name": "sa", "namespace": "ns"}]}),
        ]
    }

    #[test]
    fn rights_are_compared_by_who_holds_them() {
        let old = objects(
            "a",
            &json!([{"apiGroups": [""], "resources": ["pods", "secrets"], "verbs": ["get", "list"]}]),
        );
        let same = objects(
            "b",
            &json!([
                {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]},
                {"apiGroups": [""], "resources": ["secrets", "pods"], "verbs": ["list"]},
                {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
            ]),
        );
        assert_eq!(compare(&old, &same), super::Rights::default());
        let new = objects(
            "c",
            &json!([
                {"apiGroups": ["", "apps"], "resources": ["pods"], "verbs": ["get", "list"], "resourceNames": []},
                {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["*"], "resourceNames": ["x"]},
                {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
            ]),
        );
        let mut text = String::new();
        compare(&old, &new).write(&mut text);
        assert_eq!(
            text,
            "Rights\n  + ns/sa  cluster  /metrics: get\n  + ns/sa  cluster  apps/deployments \"x\": *\n  + ns/sa  cluster  apps/pods: get,list\n  - ns/sa  cluster  secrets: get,list\n"
        );
    }

    #[test]
    fn an_aggregated_role_grants_everything() {
        let old = objects("a", &json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]));
        let mut new = objects("a", &json!([]));
        new[0]["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]});
        let mut text = String::new();
        compare(&old, &new).write(&mut text);
        assert_eq!(text, "Rights\n  + ns/sa  cluster  *: *\n  + ns/sa  cluster  */*: *\n");
    }

    #[test]
    fn accounts_of_equal_names_in_two_namespaces_are_two() {
        let old = objects("a", &json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]));
        let mut new = old.clone();
        new[1]["subjects"][0]["namespace"] = json!("other");
        let mut text = String::new();
        compare(&old, &new).write(&mut text);
        assert_eq!(text, "Rights\n  + other/sa  cluster  pods: get\n  - ns/sa  cluster  pods: get\n");
    }
}
