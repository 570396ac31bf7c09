//! Which resource serves a kind, without a cluster to ask: a table for the kinds that bundles render to, and the
//! bundle's own CRDs.

use std::{
    collections::{BTreeMap, BTreeSet},
    error::Error,
    fmt,
};

use serde_json::Value;

use crate::need::Target;

/// Kinds that a rendering can hold, by API group: kind, plural, whether objects of it lie in namespaces.
const KINDS: [(&str, &str, &str, bool); 31] = [
    ("", "ConfigMap", "configmaps", true),
    ("", "Secret", "secrets", true),
    ("", "Service", "services", true),
    ("", "ServiceAccount", "serviceaccounts", true),
    ("", "Namespace", "namespaces", false),
    ("apps", "Deployment", "deployments", true),
    ("apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions", false),
    ("rbac.authorization.k8s.io", "Role", "roles", true),
    ("rbac.authorization.k8s.io", "RoleBinding", "rolebindings", true),
    ("rbac.authorization.k8s.io", "ClusterRole", "clusterroles", false),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding", "clusterrolebindings", false),
    (
        "admissionregistration.k8s.io",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        false,
    ),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", false),
    ("policy", "PodDisruptionBudget", "poddisruptionbudgets", true),
    ("networking.k8s.io", "NetworkPolicy", "networkpolicies", true),
    ("networking.k8s.io", "Ingress", "ingresses", true),
    ("scheduling.k8s.io", "PriorityClass", "priorityclasses", false),
    ("autoscaling.k8s.io", "VerticalPodAutoscaler", "verticalpodautoscalers", true),
    ("monitoring.coreos.com", "PrometheusRule", "prometheusrules", true),
    ("monitoring.coreos.com", "ServiceMonitor", "servicemonitors", true),
    ("monitoring.coreos.com", "PodMonitor", "podmonitors", true),
    ("monitoring.rhobs", "PrometheusRule", "prometheusrules", true),
    ("monitoring.rhobs", "ServiceMonitor", "servicemonitors", true),
    ("monitoring.rhobs", "PodMonitor", "podmonitors", true),
    ("console.openshift.io", "ConsoleYAMLSample", "consoleyamlsamples", false),
    ("console.openshift.io", "ConsoleQuickStart", "consolequickstarts", false),
    ("console.openshift.io", "ConsoleCLIDownload", "consoleclidownloads", false),
    ("console.openshift.io", "ConsoleLink", "consolelinks", false),
    ("console.openshift.io", "ConsolePlugin", "consoleplugins", false),
    ("cert-manager.io", "Issuer", "issuers", true),
    ("cert-manager.io", "Certificate", "certificates", true),
];

/// API group and resource of every kind that a rendering can hold beside those of the bundle's own CRDs.
pub fn known_resources() -> impl Iterator<Item = (&'static str, &'static str)> {
    KINDS.iter().map(|(group, _, resource, _)| (*group, *resource))
}

/// Kinds of which nothing says which resource serves them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownKind {
    /// API group; empty for the core group.
    pub group: String,
    /// The kind.
    pub kind: String,
}

impl fmt::Display for UnknownKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "kind {:?} of group {:?} is neither one of the bundle's own CRDs nor known without a cluster",
            self.kind, self.group
        )
    }
}

impl Error for UnknownKind {}

/// The objects of a rendering with the resources that serve them.
///
/// # Errors
/// An object is of a kind that neither the table nor a CRD among the objects knows.
pub fn targets(objects: &[Value]) -> Result<Vec<Target<'_>>, UnknownKind> {
    let brought = brought(objects);
    objects
        .iter()
        .map(|object| {
            let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            let (group, kind) =
                (text("/apiVersion").rsplit_once('/').map_or("", |(group, _)| group), text("/kind"));
            let (resource, namespaced) = brought
                .get(&(group, kind))
                .copied()
                .or_else(|| {
                    let known = KINDS.iter().find(|(g, k, ..)| *g == group && *k == kind);
                    known.map(|(_, _, plural, namespaced)| (*plural, *namespaced))
                })
                .ok_or_else(|| UnknownKind { group: group.to_owned(), kind: kind.to_owned() })?;
            Ok(Target {
                group: group.to_owned(),
                resource: resource.to_owned(),
                namespace: if namespaced { text("/metadata/namespace").to_owned() } else { String::new() },
                name: text("/metadata/name").to_owned(),
                object,
            })
        })
        .collect()
}

/// Plural and scope of the kinds that CRDs among the objects define, by group and kind.
fn brought(objects: &[Value]) -> BTreeMap<(&str, &str), (&str, bool)> {
    let crds =
        objects.iter().filter(|o| o.get("kind").and_then(Value::as_str) == Some("CustomResourceDefinition"));
    crds.filter_map(|crd| {
        let text = |pointer: &str| crd.pointer(pointer).and_then(Value::as_str);
        let kind = (text("/spec/group")?, text("/spec/names/kind")?);
        Some((kind, (text("/spec/names/plural")?, text("/spec/scope")? == "Namespaced")))
    })
    .collect()
}

/// The namespaces that `targets` lie in, sorted; cluster-scoped ones add none.
pub(crate) fn namespaces<'a>(targets: &'a [Target<'_>]) -> BTreeSet<&'a str> {
    targets.iter().map(|target| target.namespace.as_str()).filter(|namespace| !namespace.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn kinds_of_the_table_and_of_shipped_crds_are_known() {
        let objects = [
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "n"}}),
            json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "p", "namespace": "n"}}),
            json!({"apiVersion": "a.example.com/v1", "kind": "Beacon", "metadata": {"name": "b"}}),
            json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                   "metadata": {"name": "beacons.a.example.com"},
                   "spec": {"group": "a.example.com", "scope": "Cluster", "names": {"kind": "Beacon", "plural": "beacons"}}}),
        ];
        let found = targets(&objects).expect("known");
        let resources: Vec<&str> = found.iter().map(|target| target.resource.as_str()).collect();
        assert_eq!(resources, ["services", "poddisruptionbudgets", "beacons", "customresourcedefinitions"]);
        assert_eq!(namespaces(&found), BTreeSet::from(["n"]));
    }

    #[test]
    fn an_unknown_kind_is_named() {
        let objects = [json!({"apiVersion": "x.example.com/v1", "kind": "X", "metadata": {"name": "x"}})];
        let error = targets(&objects).expect_err("unknown");
        assert!(error.to_string().starts_with("kind \"X\" of group \"x.example.com\" is neither"), "{error}");
    }
}
