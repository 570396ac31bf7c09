//! The rights of a bundle's ServiceAccounts, before and after.
//!
//! Names of roles say nothing, as they are made from what is in them; rights are compared by who holds them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use olm_text::one_line;
use serde::Serialize;
use serde_json::Value;

/// Rights that come and go.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Rights {
    added: Vec<Right>,
    removed: Vec<Right>,
}

/// Verbs on a resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
struct Right {
    account: String,
    /// Empty for the whole cluster.
    namespace: String,
    /// `group/resource`, or the path that is no resource.
    on: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String,
    verbs: Vec<String>,
}

/// A right with a single verb: account, namespace, what it is on, name, verb.
type Atom = (String, String, String, String, String);

/// What accounts gain and lose.
pub(crate) fn compare(old: &[Value], new: &[Value]) -> Rights {
    let (old, new) = (atoms(old), atoms(new));
    Rights { added: grouped(new.difference(&old)), removed: grouped(old.difference(&new)) }
}

fn grouped<'a>(atoms: impl Iterator<Item = &'a Atom>) -> Vec<Right> {
    let mut rights: BTreeMap<(&String, &String, &String, &String), Vec<String>> = BTreeMap::new();
    for (account, namespace, on, name, verb) in atoms {
        rights.entry((account, namespace, on, name)).or_default().push(verb.clone());
    }
    let right = |((account, namespace, on, name), verbs): ((&String, &String, &String, &String), _)| Right {
        account: account.clone(),
        namespace: namespace.clone(),
        on: on.clone(),
        name: name.clone(),
        verbs,
    };
    rights.into_iter().map(right).collect()
}

fn atoms(objects: &[Value]) -> BTreeSet<Atom> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut atoms = BTreeSet::new();
    for binding in objects {
        if binding["kind"] != "ClusterRoleBinding" && binding["kind"] != "RoleBinding" {
            continue;
        }
        let namespace = text(&binding["metadata"]["namespace"]);
        let (kind, name) = (&binding["roleRef"]["kind"], &binding["roleRef"]["name"]);
        let named = |role: &&Value| {
            role["kind"] == *kind
                && role["metadata"]["name"] == *name
                && (kind == "ClusterRole" || text(&role["metadata"]["namespace"]) == namespace)
        };
        let subjects = binding["subjects"].as_array().into_iter().flatten();
        let accounts = subjects.filter(|s| s["kind"] == "ServiceAccount").map(|s| text(&s["name"]));
        let accounts: Vec<String> = accounts.collect();
        let Some(role) = objects.iter().find(named) else {
            // A role that is not part of the bundle.
            let on = format!("{} {}", text(kind), text(name));
            let atom = |account| (account, namespace.clone(), on.clone(), String::new(), "all of".to_owned());
            atoms.extend(accounts.into_iter().map(atom));
            continue;
        };
        for rule in role["rules"].as_array().into_iter().flatten() {
            for account in &accounts {
                of_rule(rule, account, &namespace, &mut atoms);
            }
        }
    }
    atoms
}

fn of_rule(rule: &Value, account: &str, namespace: &str, atoms: &mut BTreeSet<Atom>) {
    let list = |member: &str| -> Vec<String> {
        rule[member].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let mut targets = list("nonResourceURLs");
    for group in list("apiGroups") {
        for resource in list("resources") {
            targets.push(if group.is_empty() { resource } else { format!("{group}/{resource}") });
        }
    }
    let mut names = list("resourceNames");
    if names.is_empty() {
        names.push(String::new());
    }
    for on in &targets {
        for name in &names {
            let atom = |verb| (account.to_owned(), namespace.to_owned(), on.clone(), name.clone(), verb);
            atoms.extend(list("verbs").into_iter().map(atom));
        }
    }
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
                let line = format!("  {sign} {account}  {place}  {on}{name}: {}", verbs.join(","));
                // Writing to a string cannot fail.
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
            "Rights\n  + sa  cluster  /metrics: get\n  + sa  cluster  apps/deployments \"x\": *\n  + sa  cluster  apps/pods: get,list\n  - sa  cluster  secrets: get,list\n"
        );
    }
}
