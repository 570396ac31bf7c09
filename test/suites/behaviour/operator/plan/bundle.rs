//! A small operator in versions that differ where plans look.

use olm_test::{
    bundle::{config_map, crd, deployment},
    prelude::*,
};

pub(super) const PACKAGE: &str = "plans";
/// What the Secrets of the versions hold; nobody may print it.
pub(super) const PASSWORDS: [&str; 2] = ["correct-horse-1", "battery-staple-2"];

/// What a version is like.
#[derive(Clone)]
pub(super) struct Version {
    pub(super) number: &'static str,
    pub(super) image: &'static str,
    pub(super) password: &'static str,
    /// Name of its ConfigMap.
    pub(super) map: &'static str,
    /// Properties of the spec of its custom resources.
    pub(super) properties: &'static [&'static str],
    /// Resources that the operator reads.
    pub(super) reads: &'static [&'static str],
    /// The spec of its PodDisruptionBudget, if it has one.
    pub(super) budget: Option<Value>,
}

impl Version {
    pub(super) const FIRST: Self = Self {
        number: "1.0.0",
        image: "example.com/c:v1",
        password: PASSWORDS[0],
        map: "plans-old",
        properties: &["size"],
        reads: &["configmaps"],
        budget: None,
    };
    pub(super) const SECOND: Self = Self {
        number: "1.1.0",
        image: "example.com/c:v2",
        password: PASSWORDS[1],
        map: "plans-new",
        properties: &["colour", "size"],
        reads: &["configmaps", "secrets"],
        budget: None,
    };
}

/// Writes the bundle of a version below `folder`.
pub(super) fn write(folder: &Path, version: &Version, group: &str) -> Result<()> {
    let properties: Value =
        version.properties.iter().map(|name| ((*name).to_owned(), json!({"type": "string"}))).collect();
    let mut deployment = deployment(PACKAGE, version.image);
    deployment["spec"]["template"]["spec"]["containers"][0]["resources"] =
        json!({"requests": {"cpu": "0.010", "memory": "16384Ki"}});
    // The group is the test's own, and so are the names of roles, which are made from the rules.
    let rules = json!([
        {"apiGroups": [""], "resources": version.reads, "verbs": ["get", "list"]},
        {"apiGroups": [group], "resources": ["widgets"], "verbs": ["get", "list"]},
    ]);
    let mut bundle = Bundle::new(PACKAGE, version.number)
        .operator(deployment, &rules)
        .contains(crd(group, "Widget", &properties))
        .contains(config_map(version.map, &json!({"a": "b"})))
        .contains(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "plans-login"},
            "stringData": {"password": version.password}}));
    if let Some(budget) = &version.budget {
        bundle = bundle.contains(
            json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "plans"}, "spec": budget}),
        );
    }
    bundle.write(&folder.join(version.number))
}
