//! Permissions that a ServiceAccount needs for the objects of a revision, and those of them that it does not hold.
//!
//! The permissions needed are those of operator-controller `authorization/rbac.go`; the rules that are held come from the
//! API server's own review of the ServiceAccount, groups included.

use std::collections::{BTreeMap, BTreeSet};

use olm_object::Rule;
use serde::Serialize;
use serde_json::Value;

use crate::{
    limits::ESCALATION_ENTRIES_MAX,
    part::{Comparison, grants, set},
};

/// A rule and the namespace in which it applies.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Permission {
    /// Namespace; empty for the whole cluster.
    pub namespace: String,
    /// The rule.
    #[serde(flatten)]
    pub rule: Rule,
}

/// An object of the revision with the resource that serves its kind.
#[derive(Debug, Clone)]
pub struct Target<'a> {
    /// API group; empty for the core group.
    pub group: String,
    /// Plural name of the resource.
    pub resource: String,
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// The object itself.
    pub object: &'a Value,
}

/// The rules a ServiceAccount holds: cluster-wide ones, and those of single namespaces.
#[derive(Debug, Clone, Default)]
pub struct Held {
    /// Those of the whole cluster.
    pub cluster: Vec<Rule>,
    /// Those of namespaces.
    pub namespaces: BTreeMap<String, Vec<Rule>>,
}

impl Held {
    /// The rules that hold in a namespace.
    pub(crate) fn rules(&self, namespace: &str) -> impl Iterator<Item = &Rule> {
        self.cluster.iter().chain(self.namespaces.get(namespace).into_iter().flatten())
    }

    fn grants(&self, namespace: &str, wanted: &Rule) -> bool {
        self.rules(namespace).any(|rule| grants(rule, wanted))
    }
}

/// Everything the ServiceAccount needs to manage `targets` as the revision named `revision`.
pub fn needed(targets: &[Target<'_>], revision: &str) -> Vec<Permission> {
    let mut needed = vec![Permission {
        namespace: String::new(),
        rule: Rule::new(
            "olm.operatorframework.io",
            "clusterobjectsets/finalizers",
            Some(revision),
            &["update"],
        ),
    }];
    for target in targets {
        let in_namespace = |rule| Permission { namespace: target.namespace.clone(), rule };
        let verbs = ["delete", "get", "patch", "update"];
        needed.push(in_namespace(Rule::new(&target.group, &target.resource, Some(&target.name), &verbs)));
        needed.push(in_namespace(Rule::new(&target.group, &target.resource, None, &["create"])));
    }
    needed
}

/// Everything that is needed to create `targets`, or to read and replace them.
pub fn needed_to_write(targets: &[Target<'_>]) -> Vec<Permission> {
    let of = |target: &Target<'_>, name: Option<&str>, verbs: &[&str]| Permission {
        namespace: target.namespace.clone(),
        rule: Rule::new(&target.group, &target.resource, name, verbs),
    };
    let both = |target| [of(target, Some(&target.name), &["get", "update"]), of(target, None, &["create"])];
    targets.iter().flat_map(both).collect()
}

/// The API group of roles and bindings.
pub(crate) const RBAC_GROUP: &str = "rbac.authorization.k8s.io";

/// Permissions that roles and bindings among the targets grant to others: the ServiceAccount must hold them itself, or be
/// allowed to `escalate` or `bind`. `others` has the rules of roles that are referred to but not among the targets.
///
/// Where the roles have more rules than can be compared, the permission to `escalate` or `bind` is what is needed.
pub fn escalation_rules(
    targets: &[Target<'_>],
    held: &Held,
    others: &BTreeMap<(String, String, String), Vec<Rule>>,
) -> Vec<Permission> {
    let (mut needed, mut seen, mut entries) = (Vec::new(), BTreeSet::new(), 0_usize);
    let shipped = Shipped::of(targets);
    for target in targets {
        let Some((verb, resource, name)) = escalate_or_bind(target) else { continue };
        let permission = Rule::new(RBAC_GROUP, resource, Some(&name), &[verb]);
        let is_new = seen.insert((verb, resource, target.namespace.as_str(), name.clone()));
        if !is_new || held.grants(&target.namespace, &permission) {
            continue;
        }
        let rules = if entries > ESCALATION_ENTRIES_MAX {
            Vec::new()
        } else if verb == "escalate" {
            rules_of(target.object)
        } else {
            let (resource, namespace, name) = Shipped::key(resource, &target.namespace, &name);
            let unshipped = || {
                let key = (resource.to_owned(), namespace.to_owned(), name.to_owned());
                others.get(&key).cloned().unwrap_or_default()
            };
            shipped.get((resource, namespace, name)).map_or_else(unshipped, rules_of)
        };
        entries = rules.iter().map(Rule::entries).fold(entries, usize::saturating_add);
        let rules = if entries > ESCALATION_ENTRIES_MAX { vec![permission] } else { rules };
        needed.extend(rules.into_iter().map(|rule| Permission { namespace: target.namespace.clone(), rule }));
    }
    needed
}

/// The resource, namespace and name of a role.
type RoleKey<'t> = (&'t str, &'t str, &'t str);

/// The roles among the objects of a revision.
pub(crate) struct Shipped<'t>(BTreeMap<RoleKey<'t>, &'t Value>);

impl<'t> Shipped<'t> {
    pub(crate) fn of(targets: &'t [Target<'_>]) -> Self {
        // Of equal keys the first target stays.
        let roles = targets.iter().rev().filter(|t| t.group == RBAC_GROUP);
        Self(roles.map(|t| (Self::key(&t.resource, &t.namespace, &t.name), t.object)).collect())
    }

    /// The key of a role that something in `namespace` refers to.
    pub(crate) fn key<'k>(resource: &'k str, namespace: &'k str, name: &'k str) -> RoleKey<'k> {
        (resource, if resource == "roles" { namespace } else { "" }, name)
    }

    fn get(&self, key: RoleKey<'_>) -> Option<&'t Value> {
        self.0.get(&key).copied()
    }

    /// The roles that have no rule which `is_unbounded`.
    pub(crate) fn bounded(&self, is_unbounded: fn(&Rule) -> bool) -> BTreeSet<RoleKey<'t>> {
        let bounded = self.0.iter().filter(|(_, role)| !rules_of(role).iter().any(is_unbounded));
        bounded.map(|(key, _)| *key).collect()
    }
}

/// The verb, resource and name of the role for writing a role, or a binding to one, whose rules the writer does not hold.
pub(crate) fn escalate_or_bind<'t>(target: &'t Target<'_>) -> Option<(&'static str, &'t str, String)> {
    match target.resource.as_str() {
        _ if target.group != RBAC_GROUP => None,
        resource @ ("roles" | "clusterroles") => Some(("escalate", resource, target.name.clone())),
        "rolebindings" | "clusterrolebindings" => {
            let (kind, name) = role_reference(target.object)?;
            Some(("bind", if kind == "Role" { "roles" } else { "clusterroles" }, name))
        }
        _ => None,
    }
}

/// The role that a binding refers to: kind and name.
pub fn role_reference(binding: &Value) -> Option<(String, String)> {
    let text = |pointer: &str| binding.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    Some((text("/roleRef/kind")?, text("/roleRef/name")?))
}

/// The rules of a role; an aggregated one counts as everything.
pub fn rules_of(role: &Value) -> Vec<Rule> {
    let aggregated = role
        .pointer("/aggregationRule/clusterRoleSelectors")
        .and_then(Value::as_array)
        .is_some_and(|selectors| !selectors.is_empty());
    if aggregated {
        // Labels of roles that may come later decide about its rules.
        let everything = Rule::new("*", "*", None, &["*"]);
        let urls = Rule { non_resource_urls: set(["*"]), verbs: set(["*"]), ..Rule::default() };
        return vec![everything, urls];
    }
    role.get("rules").and_then(Value::as_array).into_iter().flatten().map(Rule::of).collect()
}

/// The part of `needed` that is not held; see [`Comparison::missing`].
pub fn missing(needed: &[Permission], held: &Held) -> Vec<Permission> {
    Comparison::default().missing(needed, held)
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;

    pub(crate) fn target<'a>(
        group: &str,
        resource: &str,
        namespace: &str,
        name: &str,
        object: &'a Value,
    ) -> Target<'a> {
        Target {
            group: group.into(),
            resource: resource.into(),
            namespace: namespace.into(),
            name: name.into(),
            object,
        }
    }

    #[expect(clippy::needless_pass_by_value, reason = "reads better at its many calls")]
    pub(crate) fn rule(value: Value) -> Rule {
        Rule::of(&value)
    }

    #[test]
    fn the_rules_of_shipped_roles_must_be_held_unless_escalate_is() {
        let role = json!({"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]});
        let binding = json!({"roleRef": {"kind": "ClusterRole", "name": "r"}});
        let targets = [
            target(RBAC_GROUP, "clusterroles", "", "r", &role),
            target(RBAC_GROUP, "clusterrolebindings", "", "b", &binding),
        ];
        let pods = rule(json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}));
        let held = Held { cluster: vec![pods], ..Held::default() };
        let found = missing(&escalation_rules(&targets, &held, &BTreeMap::new()), &held);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].rule.verbs, set(["list"]));

        let powers = rule(
            json!({"apiGroups": [RBAC_GROUP], "resources": ["clusterroles"], "verbs": ["escalate", "bind"]}),
        );
        let held = Held { cluster: vec![powers], ..Held::default() };
        assert!(escalation_rules(&targets, &held, &BTreeMap::new()).is_empty());
    }

    #[test]
    fn a_binding_needs_the_rules_of_the_role_it_refers_to() {
        let binding = json!({"roleRef": {"kind": "ClusterRole", "name": "system:auth-delegator"}});
        let targets = [target(RBAC_GROUP, "clusterrolebindings", "", "b", &binding)];
        let reviews = rule(
            json!({"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]}),
        );
        let roles = BTreeMap::from([(
            ("clusterroles".to_owned(), String::new(), "system:auth-delegator".to_owned()),
            vec![reviews.clone()],
        )]);
        let needed = escalation_rules(&targets, &Held::default(), &roles);
        assert_eq!(needed, [Permission { namespace: String::new(), rule: reviews }]);
    }

    /// Four lists of thousands of entries stand for more combinations than any memory holds.
    #[test]
    fn a_rule_of_long_lists_is_compared_without_its_combinations() {
        let list = |kind: &str| (0..5_000).map(|i| format!("{kind}{i}")).collect::<Vec<_>>();
        let [groups, resources, names, verbs] = ["g", "r", "n", "v"].map(list);
        let rules =
            json!([{"apiGroups": groups, "resources": resources, "resourceNames": names, "verbs": verbs}]);
        let role = json!({"rules": rules});
        let targets = [target(RBAC_GROUP, "clusterroles", "", "r", &role)];
        let some =
            json!({"apiGroups": ["g1", "g2"], "resources": ["*"], "resourceNames": ["n1"], "verbs": ["*"]});
        let held = Held { cluster: vec![rule(some)], ..Held::default() };
        let needed = escalation_rules(&targets, &held, &BTreeMap::new());
        let found = missing(&needed, &held);
        assert_eq!(found.len(), 2, "the groups, and the names of the two groups");
        assert!(found.iter().all(|found| !found.rule.is_about_one()));
        let all = Held { cluster: vec![rule(json!(rules[0]))], ..Held::default() };
        assert_eq!(missing(&needed, &all), []);
        assert_eq!(crate::compact::compact([rule(json!(rules[0]))], &[]), [rule(json!(rules[0]))]);
    }

    #[test]
    fn roles_of_too_many_rules_need_the_permission_to_escalate() {
        let verbs: Vec<String> = (0..ESCALATION_ENTRIES_MAX).map(|i| i.to_string()).collect();
        let role = json!({"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": verbs}]});
        let small = json!({"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]});
        let targets = [
            target(RBAC_GROUP, "clusterroles", "", "small", &small),
            target(RBAC_GROUP, "clusterroles", "", "large", &role),
        ];
        let needed = escalation_rules(&targets, &Held::default(), &BTreeMap::new());
        let rules: Vec<Rule> = needed.into_iter().map(|needed| needed.rule).collect();
        let escalate = Rule::new(RBAC_GROUP, "clusterroles", Some("large"), &["escalate"]);
        assert_eq!(rules, [Rule::new("", "pods", None, &["get"]), escalate]);
    }

    #[test]
    fn rules_of_a_namespace_do_not_count_elsewhere_and_names_restrict() {
        let all = rule(json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}));
        let held = Held { cluster: vec![], namespaces: BTreeMap::from([("a".to_owned(), vec![all])]) };
        let wanted = Rule::new("", "pods", None, &["get"]);
        assert!(held.grants("a", &wanted));
        assert!(!held.grants("b", &wanted));
        assert!(!held.grants("", &wanted));
        let named = Held { cluster: vec![Rule::new("", "pods", Some("x"), &["get"])], ..Held::default() };
        assert!(named.grants("a", &Rule::new("", "pods", Some("x"), &["get"])));
        assert!(!named.grants("a", &wanted), "a rule for one name grants nothing about all");
    }

    #[test]
    fn wildcards_in_sub_resources_and_urls_are_understood() {
        let held = Held {
            cluster: vec![
                rule(json!({"apiGroups": [""], "resources": ["*/status"], "verbs": ["update"]})),
                rule(json!({"nonResourceURLs": ["/metrics*"], "verbs": ["get"]})),
            ],
            ..Held::default()
        };
        assert!(held.grants("", &Rule::new("", "pods/status", None, &["update"])));
        assert!(!held.grants("", &Rule::new("", "pods", None, &["update"])));
        let url = |url: &str| Rule { non_resource_urls: set([url]), verbs: set(["get"]), ..Rule::default() };
        assert!(held.grants("", &url("/metrics/x")));
        assert!(!held.grants("", &url("/healthz")));
    }
}
