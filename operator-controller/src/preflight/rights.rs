//! What a ServiceAccount must be allowed to do for a revision, and what of it is missing. Pure.
//!
//! Requirements and the form of the text are the original's; the rules that are held come from the API
//! server's own review of the account, groups included.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

use serde_json::Value;

/// A rule in the sense of Kubernetes' RBAC.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rule {
    pub(crate) api_groups: BTreeSet<String>,
    pub(crate) resources: BTreeSet<String>,
    pub(crate) resource_names: BTreeSet<String>,
    pub(crate) verbs: BTreeSet<String>,
    pub(crate) non_resource_urls: BTreeSet<String>,
}

/// A rule that is needed in a namespace; the empty namespace means cluster-wide.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Needed {
    pub(crate) namespace: String,
    pub(crate) rule: Rule,
}

/// An object of the revision with the resource that serves its kind.
#[derive(Debug, Clone)]
pub(crate) struct Target<'a> {
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) object: &'a Value,
}

/// The rules an account holds: cluster-wide ones, and those of single namespaces.
#[derive(Debug, Clone, Default)]
pub(crate) struct Held {
    pub(crate) cluster: Vec<Rule>,
    pub(crate) namespaces: BTreeMap<String, Vec<Rule>>,
}

fn set<I: IntoIterator<Item = S>, S: Into<String>>(items: I) -> BTreeSet<String> {
    items.into_iter().map(Into::into).collect()
}

impl Rule {
    pub(crate) fn new(group: &str, resource: &str, name: Option<&str>, verbs: &[&str]) -> Self {
        Self {
            api_groups: set([group]),
            resources: set([resource]),
            resource_names: set(name),
            verbs: set(verbs.iter().copied()),
            non_resource_urls: BTreeSet::new(),
        }
    }

    /// Reads a `rules` entry of a role or of a review.
    pub(crate) fn of(value: &Value) -> Self {
        let list = |key: &str| {
            set(value.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str))
        };
        Self {
            api_groups: list("apiGroups"),
            resources: list("resources"),
            resource_names: list("resourceNames"),
            verbs: list("verbs"),
            non_resource_urls: list("nonResourceURLs"),
        }
    }

    /// The rule split into its smallest parts: one group, resource, name and verb each.
    fn atoms(&self) -> Vec<Self> {
        let one = |text: &String| BTreeSet::from([text.clone()]);
        let names: Vec<BTreeSet<String>> = if self.resource_names.is_empty() {
            vec![BTreeSet::new()]
        } else {
            self.resource_names.iter().map(one).collect()
        };
        let mut atoms = Vec::new();
        for verb in &self.verbs {
            for url in &self.non_resource_urls {
                atoms.push(Self { non_resource_urls: one(url), verbs: one(verb), ..Self::default() });
            }
            for group in &self.api_groups {
                for resource in &self.resources {
                    for name in &names {
                        atoms.push(Self {
                            api_groups: one(group),
                            resources: one(resource),
                            resource_names: name.clone(),
                            verbs: one(verb),
                            non_resource_urls: BTreeSet::new(),
                        });
                    }
                }
            }
        }
        atoms
    }

    /// Whether this rule grants the atom `wanted`.
    fn grants(&self, wanted: &Self) -> bool {
        let has = |held: &BTreeSet<String>, wanted: &BTreeSet<String>| {
            held.contains("*") || wanted.iter().all(|w| held.contains(w))
        };
        if !has(&self.verbs, &wanted.verbs) {
            return false;
        }
        if !wanted.non_resource_urls.is_empty() {
            return wanted.non_resource_urls.iter().all(|wanted| {
                self.non_resource_urls.iter().any(|held| match held.strip_suffix('*') {
                    Some(prefix) => wanted.starts_with(prefix),
                    None => held == wanted,
                })
            });
        }
        let names = self.resource_names.is_empty()
            || (!wanted.resource_names.is_empty() && wanted.resource_names.is_subset(&self.resource_names));
        has(&self.api_groups, &wanted.api_groups)
            && resource_granted(&self.resources, &wanted.resources)
            && names
    }
}

/// `*` grants every resource, `*/status` the status of every resource.
fn resource_granted(held: &BTreeSet<String>, wanted: &BTreeSet<String>) -> bool {
    wanted.iter().all(|wanted| {
        let any = wanted.split_once('/').map(|(_, sub)| format!("*/{sub}"));
        held.contains("*") || held.contains(wanted) || any.is_some_and(|any| held.contains(&any))
    })
}

impl Held {
    fn grants(&self, namespace: &str, atom: &Rule) -> bool {
        let local = self.namespaces.get(namespace).into_iter().flatten();
        self.cluster.iter().chain(local).any(|rule| rule.grants(atom))
    }
}

/// Everything the account needs to manage `targets` as the revision named `revision`.
pub(crate) fn needed(targets: &[Target<'_>], revision: &str) -> Vec<Needed> {
    let mut needed = vec![Needed {
        namespace: String::new(),
        rule: Rule::new(
            "olm.operatorframework.io",
            "clusterobjectsets/finalizers",
            Some(revision),
            &["update"],
        ),
    }];
    for target in targets {
        let in_namespace = |rule| Needed { namespace: target.namespace.clone(), rule };
        let verbs = ["delete", "get", "patch", "update"];
        needed.push(in_namespace(Rule::new(&target.group, &target.resource, Some(&target.name), &verbs)));
        needed.push(in_namespace(Rule::new(&target.group, &target.resource, None, &["create"])));
    }
    needed
}

const RBAC_GROUP: &str = "rbac.authorization.k8s.io";

/// Rules that the targets grant to others: the account must hold them itself, or be allowed to `escalate` or
/// `bind`. `roles` gives the rules of roles that are referred to but not among the targets.
pub(crate) fn granted(
    targets: &[Target<'_>],
    held: &Held,
    roles: &BTreeMap<(String, String, String), Vec<Rule>>,
) -> Vec<Needed> {
    let mut needed = Vec::new();
    for target in targets.iter().filter(|t| t.group == RBAC_GROUP) {
        let (verb, resource, name) = match target.resource.as_str() {
            "roles" | "clusterroles" => ("escalate", target.resource.clone(), target.name.clone()),
            "rolebindings" | "clusterrolebindings" => match role_reference(target.object) {
                Some((kind, name)) if kind == "Role" => ("bind", "roles".to_owned(), name),
                Some((_, name)) => ("bind", "clusterroles".to_owned(), name),
                None => continue,
            },
            _ => continue,
        };
        if held.grants(&target.namespace, &Rule::new(RBAC_GROUP, &resource, Some(&name), &[verb])) {
            continue;
        }
        let passed_on = if verb == "escalate" {
            rules_of(target.object)
        } else {
            referred(targets, &resource, &target.namespace, &name, roles)
        };
        needed.extend(passed_on.into_iter().map(|rule| Needed { namespace: target.namespace.clone(), rule }));
    }
    needed
}

fn referred(
    targets: &[Target<'_>],
    resource: &str,
    namespace: &str,
    name: &str,
    roles: &BTreeMap<(String, String, String), Vec<Rule>>,
) -> Vec<Rule> {
    let namespace = if resource == "roles" { namespace } else { "" };
    let shipped = targets.iter().find(|t| {
        t.group == RBAC_GROUP && t.resource == resource && t.name == name && t.namespace == namespace
    });
    match shipped {
        Some(target) => rules_of(target.object),
        None => roles
            .get(&(resource.to_owned(), namespace.to_owned(), name.to_owned()))
            .cloned()
            .unwrap_or_default(),
    }
}

/// The role that a binding refers to: kind and name.
pub(crate) fn role_reference(binding: &Value) -> Option<(String, String)> {
    let text = |pointer: &str| binding.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    Some((text("/roleRef/kind")?, text("/roleRef/name")?))
}

pub(crate) fn rules_of(role: &Value) -> Vec<Rule> {
    let aggregated = role
        .pointer("/aggregationRule/clusterRoleSelectors")
        .and_then(Value::as_array)
        .is_some_and(|selectors| !selectors.is_empty());
    if aggregated {
        // What it will hold is decided by labels of roles that may come later.
        let everything = Rule::new("*", "*", None, &["*"]);
        let urls = Rule { non_resource_urls: set(["*"]), verbs: set(["*"]), ..Rule::default() };
        return vec![everything, urls];
    }
    role.get("rules").and_then(Value::as_array).into_iter().flatten().map(Rule::of).collect()
}

/// What of `needed` is not held, verbs of the same thing joined, sorted.
pub(crate) fn missing(needed: &[Needed], held: &Held) -> Vec<Needed> {
    let mut compact: BTreeMap<(String, Rule), BTreeSet<String>> = BTreeMap::new();
    for Needed { namespace, rule } in needed {
        for atom in rule.atoms() {
            if !held.grants(namespace, &atom) {
                let verbs = atom.verbs.clone();
                let thing = Rule { verbs: BTreeSet::new(), ..atom };
                compact.entry((namespace.clone(), thing)).or_default().extend(verbs);
            }
        }
    }
    compact
        .into_iter()
        .map(|((namespace, thing), mut verbs)| {
            if verbs.contains("*") {
                verbs = set(["*"]);
            }
            Needed { namespace, rule: Rule { verbs, ..thing } }
        })
        .collect()
}

/// The text of the condition.
pub(crate) fn report(missing: &[Needed]) -> String {
    let mut lines: Vec<String> = missing.iter().map(line).collect();
    lines.sort_unstable();
    format!(
        "pre-authorization failed: service account requires the following permissions to manage cluster extension:\n{}",
        lines.join("\n")
    )
}

fn line(needed: &Needed) -> String {
    let lists = [
        ("APIGroups", &needed.rule.api_groups),
        ("Resources", &needed.rule.resources),
        ("ResourceNames", &needed.rule.resource_names),
        ("Verbs", &needed.rule.verbs),
        ("NonResourceURLs", &needed.rule.non_resource_urls),
    ];
    let mut line = format!("  Namespace:{:?}", needed.namespace);
    for (name, items) in lists.into_iter().filter(|(_, items)| !items.is_empty()) {
        let items: Vec<&str> = items.iter().map(String::as_str).collect();
        // Writing to a String cannot fail.
        let _ = write!(line, " {name}:[{}]", items.join(","));
    }
    line
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn target<'a>(group: &str, resource: &str, namespace: &str, name: &str, object: &'a Value) -> Target<'a> {
        Target {
            group: group.into(),
            resource: resource.into(),
            namespace: namespace.into(),
            name: name.into(),
            object,
        }
    }

    #[expect(clippy::needless_pass_by_value, reason = "reads better at its many calls")]
    fn rule(value: Value) -> Rule {
        Rule::of(&value)
    }

    #[test]
    fn the_report_has_the_originals_form() {
        let nothing = Value::Null;
        let targets = [
            target("apiextensions.k8s.io", "customresourcedefinitions", "", "a.example.com", &nothing),
            target("apps", "deployments", "ns", "d", &nothing),
            target("", "configmaps", "ns", "c", &nothing),
        ];
        let held = Held {
            cluster: vec![
                rule(json!({"apiGroups": ["apiextensions.k8s.io"], "resources": ["*"], "verbs": ["create"]})),
                rule(
                    json!({"apiGroups": ["olm.operatorframework.io"], "resources": ["*"], "verbs": ["update"]}),
                ),
            ],
            namespaces: BTreeMap::from([(
                "ns".to_owned(),
                vec![rule(
                    json!({"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "update", "patch", "delete"]}),
                )],
            )]),
        };
        let missing = missing(&needed(&targets, "ext-1"), &held);
        assert_eq!(
            report(&missing),
            "pre-authorization failed: service account requires the following permissions to manage cluster extension:\n\
             \x20 Namespace:\"\" APIGroups:[apiextensions.k8s.io] Resources:[customresourcedefinitions] ResourceNames:[a.example.com] Verbs:[delete,get,patch,update]\n\
             \x20 Namespace:\"ns\" APIGroups:[] Resources:[configmaps] ResourceNames:[c] Verbs:[delete,get,patch,update]\n\
             \x20 Namespace:\"ns\" APIGroups:[] Resources:[configmaps] Verbs:[create]\n\
             \x20 Namespace:\"ns\" APIGroups:[apps] Resources:[deployments] Verbs:[create]"
        );
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
        let found = missing(&granted(&targets, &held, &BTreeMap::new()), &held);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].rule.verbs, set(["list"]));

        let powers = rule(
            json!({"apiGroups": [RBAC_GROUP], "resources": ["clusterroles"], "verbs": ["escalate", "bind"]}),
        );
        let held = Held { cluster: vec![powers], ..Held::default() };
        assert!(granted(&targets, &held, &BTreeMap::new()).is_empty());
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
        let needed = granted(&targets, &Held::default(), &roles);
        assert_eq!(needed, [Needed { namespace: String::new(), rule: reviews }]);
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
