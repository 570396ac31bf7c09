//! Powers that come with permissions, for an attacker who gets hold of a ServiceAccount, the worst first.

use std::collections::BTreeSet;

use olm_object::{Rule, text};
use serde_json::Value;

use crate::part::grants;

/// A power that is worth a second look before it is given away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Danger {
    /// Every verb on every resource.
    Everything,
    /// `escalate` or `bind`: more permissions than it has.
    Escalation,
    /// `impersonate`: acting as others.
    Impersonation,
    /// Tokens of ServiceAccounts.
    Tokens,
    /// Reading every Secret.
    Secrets,
    /// Running commands in Pods, or reaching through nodes.
    Exec,
    /// Creating Pods or what creates Pods, in every namespace.
    Workloads,
    /// Webhooks that see or change what others write, Pods included.
    Webhooks,
}

impl Danger {
    /// The meaning, in one sentence.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Everything => "may do everything, like cluster-admin",
            Self::Escalation => "may give itself more permissions than it has (escalate, bind)",
            Self::Impersonation => "may act as other users, groups or ServiceAccounts (impersonate)",
            Self::Tokens => "may create tokens of ServiceAccounts, and so act as them",
            Self::Secrets => "may read Secrets of every namespace",
            Self::Exec => "may run commands in Pods or reach into nodes (exec, attach, proxy)",
            Self::Workloads => "may run Pods in every namespace, with any ServiceAccount there",
            Self::Webhooks => "may register webhooks that see or change what others write, Pods included",
        }
    }
}

/// A permission whose holder has a power: one of the verbs on one of the resources of an API group, and whether a rule
/// that is restricted to names is harmless.
type Power = (Danger, &'static str, &'static [&'static str], &'static [&'static str], bool);

const RBAC: &str = "rbac.authorization.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";
const READ: &[&str] = &["get", "list", "watch"];
const CREATE: &[&str] = &["create"];
const WRITE: &[&str] = &["create", "patch", "update"];
const SUBRESOURCES: &[&str] = &["pods/exec", "pods/attach", "nodes/proxy", "pods/proxy"];
const CONTROLLERS: &[&str] = &["deployments", "daemonsets", "statefulsets", "replicasets"];
const WEBHOOKS: &[&str] = &["mutatingwebhookconfigurations", "validatingwebhookconfigurations"];

const POWERS: [Power; 10] = [
    (Danger::Escalation, RBAC, &["roles", "clusterroles"], &["bind", "escalate"], false),
    (Danger::Impersonation, "", &["users", "groups", "serviceaccounts"], &["impersonate"], false),
    (Danger::Tokens, "", &["serviceaccounts/token"], CREATE, false),
    (Danger::Secrets, "", &["secrets"], READ, true),
    (Danger::Exec, "", SUBRESOURCES, &["create", "get"], false),
    (Danger::Exec, "", &["pods/ephemeralcontainers"], &["patch", "update"], false),
    (Danger::Workloads, "", &["pods", "replicationcontrollers"], CREATE, true),
    (Danger::Workloads, "apps", CONTROLLERS, CREATE, true),
    (Danger::Workloads, "batch", &["jobs", "cronjobs"], CREATE, true),
    (Danger::Webhooks, ADMISSION, WEBHOOKS, WRITE, false),
];

/// The powers that rules for the whole cluster contain, the worst first.
pub fn dangers(cluster_rules: &[Rule]) -> BTreeSet<Danger> {
    let everything = Rule::new("*", "*", None, &["*"]);
    if cluster_rules.iter().any(|rule| grants(rule, &everything)) {
        return BTreeSet::from([Danger::Everything]);
    }
    let is_held = |power: &&Power| cluster_rules.iter().any(|rule| holds(rule, power));
    POWERS.iter().filter(is_held).map(|(danger, ..)| *danger).collect()
}

fn holds(rule: &Rule, (_, group, resources, verbs, harmless_by_name): &Power) -> bool {
    let unrestricted = Rule { resource_names: BTreeSet::new(), ..rule.clone() };
    let rule = if *harmless_by_name { rule } else { &unrestricted };
    resources
        .iter()
        .any(|resource| verbs.iter().any(|verb| grants(rule, &Rule::new(group, resource, None, &[verb]))))
}

/// The webhook configurations among `objects` whose rules match Pods, as `<Kind> <name>`.
///
/// Permissions do not show this: they are to write a configuration, whatever its content.
pub fn webhooks_on_pods<'a>(objects: impl IntoIterator<Item = &'a Value>) -> BTreeSet<String> {
    let on_pods = |object: &&Value| {
        let webhooks = object["webhooks"].as_array().into_iter().flatten();
        webhooks.flat_map(|webhook| webhook["rules"].as_array().into_iter().flatten()).any(matches_pods)
    };
    let is_configuration = |object: &&Value| {
        text(object, "/apiVersion").starts_with("admissionregistration.k8s.io/")
            && ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"]
                .contains(&text(object, "/kind"))
    };
    let named = |object: &'a Value| format!("{} {}", text(object, "/kind"), text(object, "/metadata/name"));
    objects.into_iter().filter(is_configuration).filter(on_pods).map(named).collect()
}

/// Whether a webhook's rule matches Pods or one of their subresources, whatever the operation.
fn matches_pods(rule: &Value) -> bool {
    let any = |field: &str, matches: &dyn Fn(&str) -> bool| {
        rule[field].as_array().into_iter().flatten().filter_map(Value::as_str).any(matches)
    };
    any("apiGroups", &|group| group.is_empty() || group == "*")
        && any("apiVersions", &|version| version == "v1" || version == "*")
        && any("resources", &|resource| {
            ["*", "pods"].contains(&resource.split('/').next().unwrap_or_default())
        })
        && rule["scope"] != "Cluster"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_power_is_found_and_harmless_permissions_are_not() {
        let rbac = "rbac.authorization.k8s.io";
        for (rule, wanted) in [
            (Rule::new("*", "*", None, &["*"]), Some(Danger::Everything)),
            (Rule::new(rbac, "clusterroles", Some("a"), &["escalate"]), Some(Danger::Escalation)),
            (Rule::new(rbac, "roles", None, &["bind"]), Some(Danger::Escalation)),
            (Rule::new("", "users", None, &["impersonate"]), Some(Danger::Impersonation)),
            (Rule::new("", "serviceaccounts/token", Some("a"), &["create"]), Some(Danger::Tokens)),
            (Rule::new("", "secrets", None, &["list"]), Some(Danger::Secrets)),
            (Rule::new("", "secrets", Some("a"), &["get"]), None),
            (Rule::new("", "pods/exec", None, &["create"]), Some(Danger::Exec)),
            (Rule::new("batch", "jobs", None, &["create"]), Some(Danger::Workloads)),
            (
                Rule::new(
                    "admissionregistration.k8s.io",
                    "validatingwebhookconfigurations",
                    Some("a"),
                    &["update"],
                ),
                Some(Danger::Webhooks),
            ),
            (Rule::new("", "configmaps", None, &["*"]), None),
        ] {
            let found = dangers(std::slice::from_ref(&rule));
            assert_eq!(found, wanted.into_iter().collect(), "{rule:?}");
        }
    }

    #[test]
    fn webhooks_are_on_pods_by_their_rules() {
        let rule = |groups: &[&str], versions: &[&str], resources: &[&str], scope: &str| {
            json!({"apiGroups": groups, "apiVersions": versions, "resources": resources, "scope": scope,
                   "operations": ["CREATE"]})
        };
        let found = |kind: &str, rules: Value| {
            let api_version = "admissionregistration.k8s.io/v1";
            let webhooks = json!([{"name": "none"}, {"name": "w", "rules": rules}]);
            let object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "c"}, "webhooks": webhooks});
            webhooks_on_pods([&object]).into_iter().collect::<Vec<_>>()
        };
        let mutating = "MutatingWebhookConfiguration";
        let pods = rule(&[""], &["v1"], &["services", "pods"], "*");
        assert_eq!(found(mutating, json!([pods])), ["MutatingWebhookConfiguration c"]);
        assert_eq!(
            found("ValidatingWebhookConfiguration", json!([pods])),
            ["ValidatingWebhookConfiguration c"]
        );
        assert!(found("ConfigMap", json!([pods])).is_empty());
        for (rule, wanted) in [
            (rule(&["*"], &["*"], &["*"], "Namespaced"), true),
            (rule(&[""], &["v1"], &["*/*"], "*"), true),
            (rule(&[""], &["v1"], &["pods/exec"], "*"), true),
            (rule(&["apps", ""], &["v1"], &["pods/*"], "*"), true),
            (rule(&["apps"], &["v1"], &["pods", "*"], "*"), false),
            (rule(&[""], &["v2"], &["pods"], "*"), false),
            (rule(&[""], &["v1"], &["podtemplates", "configmaps"], "*"), false),
            (rule(&["*"], &["*"], &["*"], "Cluster"), false),
        ] {
            assert_eq!(!found(mutating, json!([rule])).is_empty(), wanted, "{rule}");
        }
        assert!(found(mutating, json!(null)).is_empty());
    }
}
