//! The manifests that give a ServiceAccount exactly the permissions an extension needs.

use std::collections::{BTreeMap, BTreeSet};

use olm_object::Rule;
use serde_json::{Value, json};

use crate::{
    compact::compact,
    dangers::{Danger, dangers},
    required::{Held, Permission, RBAC_GROUP, Shipped, Target, escalate_or_bind, escalation_rules, needed},
    targets::{known_resources, namespaces},
};

/// The namespace for rules that hold in the whole cluster.
const CLUSTER: &str = "";
/// A rule for every name of revisions: the rule needed is about names that future revisions will have. The
/// subresource exists for this permission only; holding it changes no object.
const REVISIONS: (&str, &str) = ("olm.operatorframework.io", "clusterobjectsets/finalizers");

/// How the permissions that the operator's own roles grant are given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Style {
    /// The ServiceAccount holds each of them itself.
    #[default]
    Exact,
    /// The ServiceAccount may `escalate` and `bind` the roles of the bundle: fewer rules, but an attacker with its
    /// token can write anything into these roles.
    Escalate,
}

/// Permissions for one ServiceAccount, by namespace; the empty one is the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    account_namespace: String,
    account: String,
    rules: BTreeMap<String, Vec<Rule>>,
}

impl Grant {
    /// The permissions that the ServiceAccount `account` in `account_namespace` needs to install, upgrade to and remove each
    /// of `bundles`, given as the objects they render to.
    pub fn new(account_namespace: &str, account: &str, bundles: &[Vec<Target<'_>>], style: Style) -> Self {
        let mut all = Vec::new();
        for targets in bundles {
            all.extend(needed(targets, "").into_iter().filter(|needed| !is_revision(&needed.rule)));
            all.extend(escalations(targets, style));
            all.extend(targets.iter().filter(|target| is_watched_as_account(target)).map(watch));
        }
        let (group, resource) = REVISIONS;
        let revisions = Rule::new(group, resource, None, &["update"]);
        all.push(Permission { namespace: CLUSTER.to_owned(), rule: revisions });
        let places: BTreeSet<&str> = bundles.iter().flat_map(|targets| namespaces(targets)).collect();
        Self::in_places(account_namespace, account, all, places)
    }

    /// These permissions, whatever they are for.
    pub fn of(account_namespace: &str, account: &str, permissions: Vec<Permission>) -> Self {
        let places: BTreeSet<String> = permissions.iter().map(|one| one.namespace.clone()).collect();
        Self::in_places(account_namespace, account, permissions, places.iter().map(String::as_str).collect())
    }

    fn in_places(
        account_namespace: &str,
        account: &str,
        all: Vec<Permission>,
        mut places: BTreeSet<&str>,
    ) -> Self {
        places.insert(CLUSTER);
        let mut by_place: BTreeMap<String, Vec<Rule>> = BTreeMap::new();
        for Permission { namespace, rule } in all {
            by_place.entry(namespace).or_default().push(rule);
        }
        let mut of = |place: &str| by_place.remove(place).unwrap_or_default();
        let cluster = compact(of(CLUSTER), &[]);
        let mut rules: BTreeMap<String, Vec<Rule>> = places
            .into_iter()
            .filter(|place| *place != CLUSTER)
            .map(|place| (place.to_owned(), compact(of(place), &cluster)))
            .filter(|(_, rules)| !rules.is_empty())
            .collect();
        rules.insert(CLUSTER.to_owned(), cluster);
        Self { account_namespace: account_namespace.to_owned(), account: account.to_owned(), rules }
    }

    /// The rules, by namespace; those of the whole cluster are under the empty name.
    pub fn rules(&self) -> impl Iterator<Item = (&str, &[Rule])> {
        self.rules.iter().map(|(namespace, rules)| (namespace.as_str(), rules.as_slice()))
    }

    /// The powers that come with the rules for the whole cluster, the worst first.
    pub fn dangers(&self) -> BTreeSet<Danger> {
        self.rules.get(CLUSTER).map(|rules| dangers(rules)).unwrap_or_default()
    }

    /// The ServiceAccount, roles and bindings, in the order in which they are to be created.
    pub fn manifests(&self) -> Vec<Value> {
        let mut manifests = vec![json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": self.account, "namespace": self.account_namespace},
        })];
        for (namespace, rules) in &self.rules {
            let kind = if namespace.is_empty() { "ClusterRole" } else { "Role" };
            let name = Self::role_name(&self.account_namespace, &self.account, namespace);
            let rules: Vec<Value> = rules.iter().map(|rule| json!(rule)).collect();
            manifests.push(role(kind, namespace, &name, &rules));
            let subject = json!({
                "kind": "ServiceAccount", "name": self.account, "namespace": self.account_namespace,
            });
            manifests.push(binding(kind, namespace, &name, &subject));
        }
        manifests
    }

    /// The Role and binding that let the controller, whose ServiceAccount is named, create tokens for this one, on
    /// clusters where it may not create them for every ServiceAccount.
    pub fn token_manifests(&self, controller_namespace: &str, controller: &str) -> Vec<Value> {
        let name = format!("{}-token", self.account);
        let rule = Rule::new("", "serviceaccounts/token", Some(&self.account), &["create"]);
        let subject =
            json!({"kind": "ServiceAccount", "name": controller, "namespace": controller_namespace});
        vec![
            role("Role", &self.account_namespace, &name, &[json!(rule)]),
            binding("Role", &self.account_namespace, &name, &subject),
        ]
    }

    /// The name of the role in a namespace, or of the one for the whole cluster. Names of cluster roles are one namespace
    /// for all accounts.
    pub fn role_name(account_namespace: &str, account: &str, namespace: &str) -> String {
        if namespace == account_namespace {
            account.to_owned()
        } else {
            format!("{account_namespace}-{account}")
        }
    }
}

/// Whether the controller watches an object with the permissions of its ServiceAccount: it has none of its own for Secrets
/// and for kinds that it does not know.
fn is_watched_as_account(target: &Target<'_>) -> bool {
    let resource = (target.group.as_str(), target.resource.as_str());
    resource == ("", "secrets") || !known_resources().any(|known| known == resource)
}

/// Lets the ServiceAccount watch one object. Without it the object is read every 30 seconds instead.
fn watch(target: &Target<'_>) -> Permission {
    let rule = Rule::new(&target.group, &target.resource, Some(&target.name), &["list", "watch"]);
    Permission { namespace: target.namespace.clone(), rule }
}

fn is_revision(rule: &Rule) -> bool {
    rule.resources.contains(REVISIONS.1)
}

fn role(kind: &str, namespace: &str, name: &str, rules: &[Value]) -> Value {
    json!({
        "apiVersion": format!("{RBAC_GROUP}/v1"), "kind": kind,
        "metadata": metadata(namespace, name), "rules": rules,
    })
}

fn binding(role_kind: &str, namespace: &str, name: &str, subject: &Value) -> Value {
    json!({
        "apiVersion": format!("{RBAC_GROUP}/v1"), "kind": format!("{role_kind}Binding"),
        "metadata": metadata(namespace, name),
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": role_kind, "name": name},
        "subjects": [subject],
    })
}

fn metadata(namespace: &str, name: &str) -> Value {
    if namespace.is_empty() { json!({"name": name}) } else { json!({"name": name, "namespace": namespace}) }
}

/// Permissions to create the bundle's roles and bindings.
fn escalations(targets: &[Target<'_>], style: Style) -> Vec<Permission> {
    let mut permissions = match style {
        Style::Exact => escalation_rules(targets, &Held::default(), &BTreeMap::new()),
        Style::Escalate => Vec::new(),
    };
    permissions.retain(|needed| !grants_everything(&needed.rule));
    let shipped = Shipped::of(targets);
    let bounded: BTreeSet<_> = shipped.bounded(grants_everything);
    for target in targets {
        let Some((verb, resource, name)) = escalate_or_bind(target) else { continue };
        // Rules of a role that the bundle does not ship are not known here, and those of an aggregated role come from
        // labels of roles that may come later: none can be granted beforehand.
        let is_bounded = bounded.contains(&Shipped::key(resource, &target.namespace, &name));
        if style == Style::Escalate || !is_bounded {
            let rule = Rule::new(RBAC_GROUP, resource, Some(&name), &[verb]);
            permissions.push(Permission { namespace: target.namespace.clone(), rule });
        }
    }
    permissions
}

/// `*` on everything: as good as being cluster-admin.
fn grants_everything(rule: &Rule) -> bool {
    let all = |list: &BTreeSet<String>| list.contains("*");
    all(&rule.verbs) && ((all(&rule.api_groups) && all(&rule.resources)) || all(&rule.non_resource_urls))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{missing, part::grants, targets};

    fn bundle() -> Vec<Value> {
        let rbac = "rbac.authorization.k8s.io/v1";
        vec![
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "op", "namespace": "n"}}),
            json!({"apiVersion": rbac, "kind": "ClusterRole", "metadata": {"name": "r"},
                   "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list"]},
                             {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]}),
            json!({"apiVersion": rbac, "kind": "ClusterRoleBinding", "metadata": {"name": "r"},
                   "roleRef": {"kind": "ClusterRole", "name": "r"}}),
            json!({"apiVersion": rbac, "kind": "RoleBinding", "metadata": {"name": "auth", "namespace": "kube-system"},
                   "roleRef": {"kind": "Role", "name": "extension-apiserver-authentication-reader"}}),
        ]
    }

    fn held(grant: &Grant) -> Held {
        let mut held = Held::default();
        for (namespace, rules) in grant.rules() {
            match namespace {
                CLUSTER => held.cluster = rules.to_vec(),
                namespace => drop(held.namespaces.insert(namespace.to_owned(), rules.to_vec())),
            }
        }
        held
    }

    #[test]
    fn what_is_granted_is_what_the_preflight_asks_for() {
        let objects = bundle();
        let targets = targets(&objects).expect("known");
        for style in [Style::Exact, Style::Escalate] {
            let held = held(&Grant::new("n", "installer", std::slice::from_ref(&targets), style));
            let mut wanted = needed(&targets, "ext-7");
            wanted.extend(escalation_rules(&targets, &held, &BTreeMap::new()));
            assert_eq!(missing(&wanted, &held), [], "{style:?}");
        }
    }

    #[test]
    fn taking_any_rule_away_leaves_something_missing() {
        let objects = bundle();
        let targets = targets(&objects).expect("known");
        let grant = Grant::new("n", "installer", std::slice::from_ref(&targets), Style::Exact);
        let foreign = BTreeMap::from([(
            (
                "roles".to_owned(),
                "kube-system".to_owned(),
                "extension-apiserver-authentication-reader".to_owned(),
            ),
            vec![Rule::new("", "configmaps", Some("extension-apiserver-authentication"), &["get"])],
        )]);
        for (namespace, rules) in grant.rules() {
            for (index, rule) in rules.iter().enumerate() {
                let mut less = grant.clone();
                less.rules.get_mut(namespace).expect("there").remove(index);
                let held = held(&less);
                let mut wanted = needed(&targets, "ext-7");
                wanted.extend(escalation_rules(&targets, &held, &foreign));
                assert_ne!(missing(&wanted, &held), [], "without {rule:?} in {namespace:?}");
            }
        }
    }

    #[test]
    fn an_aggregated_role_is_escalated_by_name_and_not_held() {
        let objects = [json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": "sum"}, "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}})];
        let grant = Grant::new("n", "i", &[targets(&objects).expect("known")], Style::Exact);
        let (_, rules) = grant.rules().next().expect("the cluster's");
        assert!(!rules.iter().any(grants_everything));
        assert!(
            rules.iter().any(|rule| rule.verbs.contains("escalate") && rule.resource_names.contains("sum"))
        );
    }

    #[test]
    fn secrets_and_custom_resources_are_watched_with_the_accounts_permissions() {
        let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "beacons.a.example.com"},
            "spec": {"group": "a.example.com", "scope": "Namespaced", "names": {"kind": "Beacon", "plural": "beacons"}}});
        let objects = [
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "n"}}),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "n"}}),
            json!({"apiVersion": "a.example.com/v1", "kind": "Beacon", "metadata": {"name": "b", "namespace": "n"}}),
            crd,
        ];
        let grant = Grant::new("n", "installer", &[targets(&objects).expect("known")], Style::Exact);
        let watched: BTreeSet<(&String, &String)> = grant
            .rules()
            .flat_map(|(_, rules)| rules)
            .filter(|rule| rule.verbs.contains("watch") && rule.verbs.contains("list"))
            .filter_map(|rule| rule.resources.first().zip(rule.resource_names.first()))
            .collect();
        let wanted = [("beacons", "b"), ("secrets", "s")].map(|(r, n)| (r.to_owned(), n.to_owned()));
        assert!(watched.into_iter().eq(wanted.iter().map(|(r, n)| (r, n))));
    }

    #[test]
    fn a_role_of_the_same_name_in_another_namespace_is_another_role() {
        let rbac = "rbac.authorization.k8s.io/v1";
        let objects = [
            json!({"apiVersion": rbac, "kind": "Role", "metadata": {"name": "r", "namespace": "n"},
                   "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}),
            json!({"apiVersion": rbac, "kind": "RoleBinding", "metadata": {"name": "b", "namespace": "other"},
                   "roleRef": {"kind": "Role", "name": "r"}}),
        ];
        let grant = Grant::new("n", "i", &[targets(&objects).expect("known")], Style::Exact);
        let (_, rules) = grant.rules().find(|(namespace, _)| *namespace == "other").expect("the binding's");
        assert!(rules.iter().any(|rule| grants(rule, &Rule::new(RBAC_GROUP, "roles", Some("r"), &["bind"]))));
    }

    #[test]
    fn manifests_are_an_account_roles_and_bindings() {
        let objects = bundle();
        let grant = Grant::new("n", "installer", &[targets(&objects).expect("known")], Style::Exact);
        let names: Vec<String> = grant
            .manifests()
            .iter()
            .map(|m| {
                let place = m["metadata"]["namespace"].as_str().unwrap_or_default();
                format!(
                    "{} {place}/{}",
                    m["kind"].as_str().expect("text"),
                    m["metadata"]["name"].as_str().expect("text")
                )
            })
            .collect();
        let wanted = [
            "ServiceAccount n/installer",
            "ClusterRole /n-installer",
            "ClusterRoleBinding /n-installer",
            "Role kube-system/n-installer",
            "RoleBinding kube-system/n-installer",
            "Role n/installer",
            "RoleBinding n/installer",
        ];
        assert_eq!(names, wanted);
    }
}
