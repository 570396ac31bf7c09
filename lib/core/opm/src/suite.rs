//! Suites of rules beyond validity: those of OperatorHub's pipeline, and good practices.
//!
//! Rules and severities are those of operator-sdk's suites `operatorhub` and `good-practices`; `description` is asked for
//! by OperatorHub's pipeline only, so it is a warning. An API that Kubernetes removed is an error where no version that the
//! bundle is for has it, by `spec.minKubeVersion`. The texts are ours, with a remedy each.

mod removed_apis;

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
    manifests: &'v [Value],
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
    "Drivers and plugins",
    "Integration & Delivery",
    "Logging & Tracing",
    "Modernization & Migration",
    "Monitoring",
    "Networking",
    "OpenShift Optional",
    "Security",
    "Storage",
    "Streaming & Messaging",
];
const ICONS: [&str; 4] = ["image/gif", "image/jpeg", "image/png", "image/svg+xml"];
const CHANNELS: [&str; 3] = ["candidate", "fast", "stable"];

const RULES: [Rule; 19] = [
    (Suite::Operatorhub, "name", false, name),
    (Suite::Operatorhub, "version", true, version),
    (Suite::Operatorhub, "description", false, description),
    (Suite::Operatorhub, "provider", true, provider),
    (Suite::Operatorhub, "maintainers", true, maintainers),
    (Suite::Operatorhub, "links", true, links),
    (Suite::Operatorhub, "icon", true, icon),
    (Suite::Operatorhub, "icon-missing", false, icon_missing),
    (Suite::Operatorhub, "capabilities", true, capabilities),
    (Suite::Operatorhub, "categories", true, categories),
    (Suite::Operatorhub, "min-kube-version", true, min_kube_version),
    (Suite::Operatorhub, "min-kube-version-missing", false, min_kube_version_missing),
    (Suite::Operatorhub, "removed-apis", true, removed_apis::everywhere),
    (Suite::Operatorhub, "removed-apis-later", false, removed_apis::later),
    (Suite::GoodPractices, "deployments", true, deployments),
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

    /// The rules that a bundle breaks: its ClusterServiceVersion, the channels that it is published in, its manifests.
    pub fn check(self, csv: &Value, channels: &[&str], manifests: &[Value]) -> Vec<SuiteFinding> {
        let fields = Fields::of(csv);
        let input = Input {
            csv,
            spec: fields.object("spec"),
            annotations: fields.object("metadata").object("annotations"),
            channels: channels.to_vec(),
            manifests,
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

fn version(input: &Input<'_>) -> Vec<String> {
    when(
        ["", "0.0.0"].contains(&input.spec.text("version")),
        "spec.version is not set: set the version of the bundle",
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
    let incomplete = input.spec.objects("maintainers").enumerate().filter(|(_, one)| !is_complete(one));
    incomplete
        .map(|(number, _)| format!("spec.maintainers[{number}]: give both a name and a valid e-mail address"))
        .collect()
}

fn links(input: &Input<'_>) -> Vec<String> {
    let is_scheme = |text: &str| {
        text.starts_with(|first: char| first.is_ascii_alphabetic())
            && text.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    };
    let is_complete = |one: &Fields<'_>| {
        let url = one.text("url");
        let is_url = url.starts_with('/') || url.split_once(':').is_some_and(|(scheme, _)| is_scheme(scheme));
        !one.text("name").is_empty() && is_url
    };
    let all = input.spec.objects("links").enumerate();
    all.filter(|(_, one)| !is_complete(one))
        .map(|(number, _)| {
            format!("spec.links[{number}]: give both a name and a URL, such as https://example.com")
        })
        .collect()
}

fn icon_missing(input: &Input<'_>) -> Vec<String> {
    when(input.spec.objects("icon").next().is_none(), "spec.icon is empty: consoles show a placeholder")
}

fn icon(input: &Input<'_>) -> Vec<String> {
    let mut icons = input.spec.objects("icon");
    let Some(icon) = icons.next() else { return Vec::new() };
    let media_type = icon.text("mediatype");
    let mut broken =
        when(icon.text("base64data").is_empty(), "spec.icon[0].base64data is empty: add the image");
    broken.extend(when(
        !ICONS.contains(&media_type),
        format!("spec.icon[0].mediatype {media_type:?}: use one of {}", ICONS.join(", ")),
    ));
    broken.extend(when(icons.next().is_some(), "spec.icon has several elements: leave one"));
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

fn min_kube_version_missing(input: &Input<'_>) -> Vec<String> {
    when(
        input.spec.text("minKubeVersion").trim().is_empty(),
        "spec.minKubeVersion is empty: name the oldest Kubernetes version that the operator runs on",
    )
}

fn min_kube_version(input: &Input<'_>) -> Vec<String> {
    let text = input.spec.text("minKubeVersion").trim();
    let plain = text.strip_prefix('v').unwrap_or(text);
    let is_version = [plain.to_owned(), format!("{plain}.0"), format!("{plain}.0.0")]
        .iter()
        .any(|text| text.parse::<Version>().is_ok());
    when(
        !text.is_empty() && !is_version,
        format!("spec.minKubeVersion {text:?}: write a version such as 1.30.0"),
    )
}

fn deployments(input: &Input<'_>) -> Vec<String> {
    let mut all = input.spec.object("install").object("spec").objects("deployments");
    when(all.next().is_none(), "spec.install.spec.deployments is empty: add the operator's Deployment")
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
    let definitions = input.spec.object("customresourcedefinitions");
    let mut broken = Vec::new();
    for list in ["owned", "required"] {
        let bare = definitions.objects(list).filter(|crd| crd.text("description").is_empty());
        broken.extend(bare.map(|crd| {
            format!("CRD {:?}: describe it in spec.customresourcedefinitions.{list}", crd.text("name"))
        }));
    }
    broken
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
    let others =
        input.channels.iter().filter(|channel| !CHANNELS.iter().any(|name| channel.starts_with(name)));
    others
        .map(|channel| format!("channel {channel:?}: begin its name with candidate, fast or stable"))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fine() -> Value {
        json!({
            "metadata": {"name": "p.v1.0.0", "annotations": {"capabilities": "Basic Install", "categories": "Database, Streaming & Messaging"}},
            "spec": {
                "displayName": "P", "description": "Does it.", "version": "1.0.0", "provider": {"name": "us"}, "minKubeVersion": "1.25.0",
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
        all.flat_map(|suite| suite.check(csv, channels, &[])).map(|finding| finding.rule).collect()
    }

    #[test]
    fn an_object_of_an_api_that_kubernetes_removed_is_found() {
        let found = |version: &str, kind: &str, lowest: &str| -> Vec<String> {
            let mut csv = fine();
            csv["spec"]["minKubeVersion"] = json!(lowest);
            let object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "x"}});
            let findings = Suite::Operatorhub.check(&csv, &["stable"], &[object]);
            let about = findings.into_iter().filter(|one| one.rule.starts_with("removed-apis"));
            about.map(|one| format!("{} {}", one.is_error, one.message)).collect()
        };
        let budget =
            "PodDisruptionBudget \"x\": Kubernetes 1.25 and later do not have policy/v1beta1: use policy/v1";
        for (lowest, is_error) in
            [("1.25.0", true), ("v1.26", true), ("2.0.0", true), ("1.24.9", false), ("", false)]
        {
            let shown = found("policy/v1beta1", "PodDisruptionBudget", lowest);
            assert_eq!(shown, [format!("{is_error} {budget}")], "{lowest}");
        }
        for (version, kind, removed) in [
            ("policy/v1beta1", "PodSecurityPolicy", "1.25"),
            ("apiextensions.k8s.io/v1beta1", "CustomResourceDefinition", "1.22"),
            ("batch/v1beta1", "CronJob", "1.25"),
            ("rbac.authorization.k8s.io/v1beta1", "ClusterRole", "1.22"),
            ("networking.k8s.io/v1beta1", "Ingress", "1.22"),
            ("extensions/v1beta1", "Ingress", "1.22"),
            ("extensions/v1beta1", "Deployment", "1.16"),
            ("autoscaling/v2beta1", "HorizontalPodAutoscaler", "1.25"),
            ("autoscaling/v2beta2", "HorizontalPodAutoscaler", "1.26"),
        ] {
            let shown = found(version, kind, "");
            assert!(
                shown.len() == 1 && shown[0].contains(&format!("Kubernetes {removed} and later")),
                "{shown:?}"
            );
        }
        // These versions have other kinds today.
        for (version, kind) in [
            ("networking.k8s.io/v1beta1", "IPAddress"),
            ("admissionregistration.k8s.io/v1beta1", "ValidatingAdmissionPolicy"),
            ("policy/v1", "PodDisruptionBudget"),
            ("apps/v1", "Deployment"),
        ] {
            assert_eq!(found(version, kind, "1.30.0"), [""; 0], "{version} {kind}");
        }
    }

    #[test]
    fn a_good_bundle_breaks_no_rule() {
        assert_eq!(broken(&fine(), &["stable", "candidate-v2"]), Vec::<&str>::new());
    }

    #[test]
    fn what_operator_sdk_accepts_is_accepted() {
        let mut csv = fine();
        csv["spec"]["maintainers"] = json!([]);
        csv["spec"]["minKubeVersion"] = json!("v1.25");
        csv["spec"]["links"][0]["url"] = json!("mailto:us@example.com");
        assert_eq!(broken(&csv, &[]), Vec::<&str>::new());
        let severe =
            |suite: Suite| RULES.into_iter().filter(move |rule| rule.0 == suite && rule.2).map(|rule| rule.1);
        let errors: Vec<&str> = severe(Suite::Operatorhub).chain(severe(Suite::GoodPractices)).collect();
        assert_eq!(
            errors,
            [
                "version",
                "provider",
                "maintainers",
                "links",
                "icon",
                "capabilities",
                "categories",
                "min-kube-version",
                "removed-apis",
                "deployments"
            ]
        );
    }

    #[test]
    fn each_rule_is_broken_by_its_own_fault() {
        let mut seen = Vec::new();
        for (rule, pointer, value) in [
            ("name", "/metadata/name", json!("p-1.0.0")),
            ("description", "/spec/description", json!(" ")),
            ("provider", "/spec/provider", json!({})),
            ("version", "/spec/version", json!("0.0.0")),
            ("maintainers", "/spec/maintainers/0/email", json!("a.example.com")),
            ("links", "/spec/links/0/url", json!("example.com")),
            ("icon-missing", "/spec/icon", json!([])),
            ("icon", "/spec/icon/0/base64data", json!("")),
            ("icon", "/spec/icon/0/mediatype", json!("text/plain")),
            ("capabilities", "/metadata/annotations/capabilities", json!("All of them")),
            ("categories", "/metadata/annotations/categories", json!("Database,Toys")),
            ("min-kube-version-missing", "/spec/minKubeVersion", json!("")),
            ("min-kube-version", "/spec/minKubeVersion", json!("latest")),
            ("deployments", "/spec/install/spec/deployments", json!([])),
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
        assert_eq!(broken(&fine(), &["alpha", "preview", "stabler"]), ["channel-names"; 2]);
        seen.push("channel-names");
        seen.extend(["removed-apis", "removed-apis-later"]);
        for rule in Suite::Operatorhub.rules().chain(Suite::GoodPractices.rules()) {
            assert!(seen.contains(&rule), "no fault breaks {rule}");
        }
    }
}
