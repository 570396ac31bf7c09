//! Suites of rules beyond validity: those of OperatorHub's pipeline, and good practices.
//!
//! The rules are operator-sdk's (`operatorhub`, `good-practices`); the texts are ours, with a remedy each.

use std::fmt;

use olm_go::field::Fields;
use olm_semver::Version;
use serde::Serialize;
use serde_json::Value;

/// A suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Suite {
    /// The rules of OperatorHub's pipeline.
    Operatorhub,
    /// What makes an operator pleasant to run.
    GoodPractices,
}

/// A broken rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SuiteFinding {
    /// The suite of the rule.
    pub suite: Suite,
    /// Name of the rule.
    pub rule: &'static str,
    /// Whether the suite fails by it.
    pub is_error: bool,
    /// What is wrong, and the remedy.
    pub message: String,
}

/// A rule: its suite, its name, whether it is an error, and what is wrong.
type Rule = (Suite, &'static str, bool, fn(&Input<'_>) -> Vec<String>);

/// What rules look at.
struct Input<'v> {
    csv: &'v Value,
    spec: Fields<'v>,
    annotations: Fields<'v>,
    channels: Vec<&'v str>,
}

const CAPABILITIES: [&str; 5] =
    ["Basic Install", "Seamless Upgrades", "Full Lifecycle", "Deep Insights", "Auto Pilot"];
const CATEGORIES: [&str; 16] = [
    "AI/Machine Learning",
    "Application Runtime",
    "Big Data",
    "Cloud Provider",
    "Database",
    "Developer Tools",
    "Development Tools",
    "Drivers and plugins",
    "Integration & Delivery",
    "Logging & Tracing",
    "Modernization & Migration",
    "Monitoring",
    "Networking",
    "OpenShift Optional",
    "Security",
    "Storage",
];
const ICONS: [&str; 4] = ["image/gif", "image/jpeg", "image/png", "image/svg+xml"];
const CHANNELS: [&str; 4] = ["preview", "candidate", "fast", "stable"];

const RULES: [Rule; 13] = [
    (Suite::Operatorhub, "name", false, name),
    (Suite::Operatorhub, "description", true, description),
    (Suite::Operatorhub, "provider", true, provider),
    (Suite::Operatorhub, "maintainers", true, maintainers),
    (Suite::Operatorhub, "links", true, links),
    (Suite::Operatorhub, "icon", false, icon),
    (Suite::Operatorhub, "capabilities", true, capabilities),
    (Suite::Operatorhub, "categories", true, categories),
    (Suite::Operatorhub, "min-kube-version", false, min_kube_version),
    (Suite::GoodPractices, "resource-requests", false, resource_requests),
    (Suite::GoodPractices, "crd-descriptions", false, crd_descriptions),
    (Suite::GoodPractices, "crd-permissions", false, crd_permissions),
    (Suite::GoodPractices, "channel-names", false, channel_names),
];

impl Suite {
    /// The names of its rules.
    pub fn rules(self) -> impl Iterator<Item = &'static str> {
        RULES.iter().filter(move |(suite, ..)| *suite == self).map(|(_, name, ..)| *name)
    }

    /// The rules that a ClusterServiceVersion, published in these channels, breaks.
    pub fn check(self, csv: &Value, channels: &[&str]) -> Vec<SuiteFinding> {
        let fields = Fields::of(csv);
        let input = Input {
            csv,
            spec: fields.object("spec"),
            annotations: fields.object("metadata").object("annotations"),
            channels: channels.to_vec(),
        };
        let mut findings = Vec::new();
        for (suite, rule, is_error, broken) in RULES.into_iter().filter(|(suite, ..)| *suite == self) {
            let found = broken(&input).into_iter();
            findings.extend(found.map(|message| SuiteFinding { suite, rule, is_error, message }));
        }
        findings
    }
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Operatorhub => "operatorhub",
            Self::GoodPractices => "good-practices",
        })
    }
}

fn when(broken: bool, message: impl Into<String>) -> Vec<String> {
    broken.then(|| message.into()).into_iter().collect()
}

fn name(input: &Input<'_>) -> Vec<String> {
    let name = Fields::of(input.csv).object("metadata").text("name");
    let version = name.split_once(".v").map(|(_, version)| version.parse::<Version>());
    when(
        !matches!(version, Some(Ok(_))),
        format!("metadata.name {name:?}: name it <operator>.v<version>, such as memcached-operator.v0.0.1"),
    )
}

fn description(input: &Input<'_>) -> Vec<String> {
    ["displayName", "description"]
        .into_iter()
        .filter(|field| input.spec.text(field).trim().is_empty())
        .map(|field| format!("spec.{field} is empty: people find the operator by it"))
        .collect()
}

fn provider(input: &Input<'_>) -> Vec<String> {
    let is_empty = input.spec.object("provider").text("name").is_empty();
    when(is_empty, "spec.provider.name is empty: name who provides the operator")
}

fn maintainers(input: &Input<'_>) -> Vec<String> {
    let is_complete = |one: &Fields<'_>| {
        let address = one.text("email").split_once('@');
        !one.text("name").is_empty()
            && address.is_some_and(|(user, host)| !user.is_empty() && !host.is_empty() && !host.contains('@'))
    };
    let all: Vec<_> = input.spec.objects("maintainers").enumerate().collect();
    let mut broken =
        when(all.is_empty(), "spec.maintainers is empty: name at least one, with an e-mail address");
    let incomplete = all.into_iter().filter(|(_, one)| !is_complete(one));
    broken.extend(incomplete.map(|(number, _)| {
        format!("spec.maintainers[{number}]: give both a name and a valid e-mail address")
    }));
    broken
}

fn links(input: &Input<'_>) -> Vec<String> {
    let is_complete = |one: &Fields<'_>| {
        let url = one.text("url");
        let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
        !one.text("name").is_empty() && rest.is_some_and(|rest| !rest.is_empty())
    };
    let all = input.spec.objects("links").enumerate();
    all.filter(|(_, one)| !is_complete(one))
        .map(|(number, _)| format!("spec.links[{number}]: give both a name and an http or https URL"))
        .collect()
}

fn icon(input: &Input<'_>) -> Vec<String> {
    let Some(icon) = input.spec.objects("icon").next() else {
        return vec!["spec.icon is empty: consoles show a placeholder".to_owned()];
    };
    let media_type = icon.text("mediatype");
    let mut broken =
        when(icon.text("base64data").is_empty(), "spec.icon[0].base64data is empty: add the image");
    broken.extend(when(
        !ICONS.contains(&media_type),
        format!("spec.icon[0].mediatype {media_type:?}: use one of {}", ICONS.join(", ")),
    ));
    broken
}

fn capabilities(input: &Input<'_>) -> Vec<String> {
    let level = input.annotations.text("capabilities");
    when(
        !level.is_empty() && !CAPABILITIES.contains(&level),
        format!("annotation capabilities {level:?}: use one of {}", CAPABILITIES.join(", ")),
    )
}

fn categories(input: &Input<'_>) -> Vec<String> {
    let all = input.annotations.text("categories").split(',').map(str::trim);
    all.filter(|category| !category.is_empty() && !CATEGORIES.contains(category))
        .map(|category| format!("annotation categories {category:?}: use one of {}", CATEGORIES.join(", ")))
        .collect()
}

fn min_kube_version(input: &Input<'_>) -> Vec<String> {
    when(
        input.spec.text("minKubeVersion").is_empty(),
        "spec.minKubeVersion is empty: name the oldest Kubernetes version that the operator runs on",
    )
}

fn resource_requests(input: &Input<'_>) -> Vec<String> {
    let mut broken = Vec::new();
    for deployment in input.spec.object("install").object("spec").objects("deployments") {
        let pod = deployment.object("spec").object("template").object("spec");
        for container in pod.objects("containers") {
            let requests = container.object("resources").object("requests");
            if requests.raw("cpu").is_none() || requests.raw("memory").is_none() {
                broken.push(format!(
                    "Deployment {:?}, container {:?}: set resources.requests of cpu and memory",
                    deployment.text("name"),
                    container.text("name")
                ));
            }
        }
    }
    broken
}

fn crd_descriptions(input: &Input<'_>) -> Vec<String> {
    let owned = input.spec.object("customresourcedefinitions").objects("owned");
    owned
        .filter(|crd| crd.text("description").is_empty())
        .map(|crd| format!("CRD {:?}: describe it in spec.customresourcedefinitions.owned", crd.text("name")))
        .collect()
}

fn crd_permissions(input: &Input<'_>) -> Vec<String> {
    let install = input.spec.object("install").object("spec");
    let mut rules = install.objects("clusterPermissions").flat_map(|permission| permission.objects("rules"));
    let has = |list: &[Value], wanted: &[&str]| {
        list.iter().filter_map(Value::as_str).any(|one| wanted.contains(&one))
    };
    let creates = rules.any(|rule| {
        has(rule.list("apiGroups"), &["apiextensions.k8s.io", "*"])
            && has(rule.list("resources"), &["customresourcedefinitions", "*"])
            && has(rule.list("verbs"), &["create", "*"])
    });
    when(
        creates,
        "the operator may create CustomResourceDefinitions: ship them in the bundle, so that upgrades are checked",
    )
}

fn channel_names(input: &Input<'_>) -> Vec<String> {
    let follows = |channel: &str| {
        CHANNELS.iter().any(|name| {
            channel.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with("-v"))
        })
    };
    let others = input.channels.iter().filter(|channel| !follows(channel));
    others
        .map(|channel| {
            format!("channel {channel:?}: name it preview, candidate, fast or stable, or such as stable-v2")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fine() -> Value {
        json!({
            "metadata": {"name": "p.v1.0.0", "annotations": {"capabilities": "Basic Install", "categories": "Database, Security"}},
            "spec": {
                "displayName": "P", "description": "Does it.", "provider": {"name": "us"}, "minKubeVersion": "1.25.0",
                "maintainers": [{"name": "a", "email": "a@example.com"}],
                "links": [{"name": "home", "url": "https://example.com"}],
                "icon": [{"base64data": "eA==", "mediatype": "image/png"}],
                "customresourcedefinitions": {"owned": [{"name": "a.b.c", "description": "An A."}]},
                "install": {"spec": {
                    "deployments": [{"name": "d", "spec": {"template": {"spec": {"containers": [
                        {"name": "c", "resources": {"requests": {"cpu": "1", "memory": "1Mi"}}}]}}}}],
                    "clusterPermissions": [{"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]}]}],
                }},
            },
        })
    }

    fn broken(csv: &Value, channels: &[&str]) -> Vec<&'static str> {
        let all = [Suite::Operatorhub, Suite::GoodPractices].into_iter();
        all.flat_map(|suite| suite.check(csv, channels)).map(|finding| finding.rule).collect()
    }

    #[test]
    fn a_good_bundle_breaks_no_rule() {
        assert_eq!(broken(&fine(), &["stable", "candidate-v2"]), Vec::<&str>::new());
    }

    #[test]
    fn each_rule_is_broken_by_its_own_fault() {
        let mut seen = Vec::new();
        for (rule, pointer, value) in [
            ("name", "/metadata/name", json!("p-1.0.0")),
            ("description", "/spec/description", json!(" ")),
            ("provider", "/spec/provider", json!({})),
            ("maintainers", "/spec/maintainers", json!([])),
            ("maintainers", "/spec/maintainers/0/email", json!("a.example.com")),
            ("links", "/spec/links/0/url", json!("example.com")),
            ("icon", "/spec/icon", json!([])),
            ("icon", "/spec/icon/0/mediatype", json!("text/plain")),
            ("capabilities", "/metadata/annotations/capabilities", json!("All of them")),
            ("categories", "/metadata/annotations/categories", json!("Database,Toys")),
            ("min-kube-version", "/spec/minKubeVersion", json!("")),
            (
                "resource-requests",
                "/spec/install/spec/deployments/0/spec/template/spec/containers/0/resources/requests",
                json!({"cpu": "1"}),
            ),
            ("crd-descriptions", "/spec/customresourcedefinitions/owned/0/description", json!("")),
            (
                "crd-permissions",
                "/spec/install/spec/clusterPermissions/0/rules/0",
                json!({
                "apiGroups": ["apiextensions.k8s.io"], "resources": ["*"], "verbs": ["create"]}),
            ),
        ] {
            let mut csv = fine();
            *csv.pointer_mut(pointer).unwrap() = value;
            assert_eq!(broken(&csv, &["stable"]), [rule], "{pointer}");
            seen.push(rule);
        }
        assert_eq!(broken(&fine(), &["alpha", "stabler"]), ["channel-names"; 2]);
        seen.push("channel-names");
        for rule in Suite::Operatorhub.rules().chain(Suite::GoodPractices.rules()) {
            assert!(seen.contains(&rule), "no fault breaks {rule}");
        }
    }
}
