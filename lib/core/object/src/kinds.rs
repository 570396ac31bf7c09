//! The kinds that bundles, their renderings and revisions hold: one table.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{ObjectKey, text};

/// The role of a kind in bundles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// A bundle may ship it, and the rendering holds it.
    Shipped,
    /// A bundle may ship it, and the rendering is made from it.
    Manifest,
    /// Renderings may hold it although bundles may not ship it.
    Generated,
    /// Only revisions made in another way hold it.
    Other,
}

use Use::{Generated, Manifest, Other, Shipped};

/// A kind and its properties.
#[derive(Debug, Clone, Copy)]
pub struct KnownKind {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Kind.
    pub kind: &'static str,
    /// Plural name of the resource that serves it.
    pub plural: &'static str,
    /// Whether its objects have a namespace.
    pub namespaced: bool,
    /// The phase of a revision in which its objects are applied; one of [`PHASES`].
    pub phase: &'static str,
    /// Its role in bundles.
    pub used: Use,
    /// Whether operators run without it: dashboards, alerts, links of a console, hints for a scaler. Workloads of the
    /// same groups (`Prometheus`, `Alertmanager`) are not optional.
    pub optional: bool,
}

impl KnownKind {
    const fn optional(self) -> Self {
        Self { optional: true, ..self }
    }
}

const fn namespaced(
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
    phase: &'static str,
    used: Use,
) -> KnownKind {
    KnownKind { group, kind, plural, namespaced: true, phase, used, optional: false }
}

const fn cluster(
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
    phase: &'static str,
    used: Use,
) -> KnownKind {
    KnownKind { namespaced: false, ..namespaced(group, kind, plural, phase, used) }
}

/// Phases of a revision in the order of their roll-out; kinds that are not in the table are of the phase `deploy`.
///
/// Names and order are those of operator-controller `applier/phase.go`.
pub const PHASES: [&str; 13] = [
    "namespaces",
    "policies",
    "identity",
    "configuration",
    "storage",
    "crds",
    "roles",
    "bindings",
    "infrastructure",
    "deploy",
    "scaling",
    "publish",
    "admission",
];

/// All known kinds, by group and kind.
///
/// Kinds that bundles may ship are those of operator-registry `pkg/lib/bundle/supported_resources.go`. VerticalPodAutoscalers
/// are namespaced here; upstream counts them as cluster-scoped, so that they can't be applied.
pub const KNOWN_KINDS: &[KnownKind] = &[
    namespaced("", "ConfigMap", "configmaps", "configuration", Shipped),
    cluster("", "Namespace", "namespaces", "namespaces", Generated),
    cluster("", "PersistentVolume", "persistentvolumes", "storage", Other),
    namespaced("", "PersistentVolumeClaim", "persistentvolumeclaims", "storage", Other),
    namespaced("", "Secret", "secrets", "configuration", Shipped),
    namespaced("", "Service", "services", "infrastructure", Shipped),
    namespaced("", "ServiceAccount", "serviceaccounts", "identity", Shipped),
    cluster(
        "admissionregistration.k8s.io",
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        "admission",
        Generated,
    ),
    cluster(
        "admissionregistration.k8s.io",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        "admission",
        Generated,
    ),
    cluster("apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions", "crds", Shipped),
    namespaced("apps", "Deployment", "deployments", "deploy", Generated),
    namespaced("autoscaling.k8s.io", "VerticalPodAutoscaler", "verticalpodautoscalers", "scaling", Shipped)
        .optional(),
    namespaced("cert-manager.io", "Certificate", "certificates", "infrastructure", Generated),
    namespaced("cert-manager.io", "Issuer", "issuers", "infrastructure", Generated),
    cluster("console.openshift.io", "ConsoleCLIDownload", "consoleclidownloads", "publish", Shipped)
        .optional(),
    cluster("console.openshift.io", "ConsoleExternalLogLink", "consoleexternalloglinks", "deploy", Other)
        .optional(),
    cluster("console.openshift.io", "ConsoleLink", "consolelinks", "publish", Shipped).optional(),
    cluster("console.openshift.io", "ConsoleNotification", "consolenotifications", "deploy", Other)
        .optional(),
    cluster("console.openshift.io", "ConsolePlugin", "consoleplugins", "publish", Shipped).optional(),
    cluster("console.openshift.io", "ConsoleQuickStart", "consolequickstarts", "publish", Shipped).optional(),
    cluster("console.openshift.io", "ConsoleSample", "consolesamples", "deploy", Other).optional(),
    cluster("console.openshift.io", "ConsoleYAMLSample", "consoleyamlsamples", "publish", Shipped).optional(),
    namespaced("grafana.integreatly.org", "GrafanaDashboard", "grafanadashboards", "deploy", Other)
        .optional(),
    namespaced("grafana.integreatly.org", "GrafanaDatasource", "grafanadatasources", "deploy", Other)
        .optional(),
    namespaced("grafana.integreatly.org", "GrafanaFolder", "grafanafolders", "deploy", Other).optional(),
    namespaced("monitoring.coreos.com", "AlertmanagerConfig", "alertmanagerconfigs", "deploy", Other)
        .optional(),
    namespaced("monitoring.coreos.com", "PodMonitor", "podmonitors", "publish", Shipped).optional(),
    namespaced("monitoring.coreos.com", "Probe", "probes", "deploy", Other).optional(),
    namespaced("monitoring.coreos.com", "PrometheusRule", "prometheusrules", "publish", Shipped).optional(),
    namespaced("monitoring.coreos.com", "ScrapeConfig", "scrapeconfigs", "deploy", Other).optional(),
    namespaced("monitoring.coreos.com", "ServiceMonitor", "servicemonitors", "publish", Shipped).optional(),
    namespaced("monitoring.rhobs", "AlertmanagerConfig", "alertmanagerconfigs", "deploy", Other).optional(),
    namespaced("monitoring.rhobs", "PodMonitor", "podmonitors", "deploy", Shipped).optional(),
    namespaced("monitoring.rhobs", "Probe", "probes", "deploy", Other).optional(),
    namespaced("monitoring.rhobs", "PrometheusRule", "prometheusrules", "deploy", Shipped).optional(),
    namespaced("monitoring.rhobs", "ScrapeConfig", "scrapeconfigs", "deploy", Other).optional(),
    namespaced("monitoring.rhobs", "ServiceMonitor", "servicemonitors", "deploy", Shipped).optional(),
    namespaced("networking.k8s.io", "Ingress", "ingresses", "publish", Generated),
    namespaced("networking.k8s.io", "NetworkPolicy", "networkpolicies", "policies", Shipped),
    namespaced("operators.coreos.com", "ClusterServiceVersion", "clusterserviceversions", "deploy", Manifest),
    namespaced("policy", "PodDisruptionBudget", "poddisruptionbudgets", "policies", Shipped),
    cluster("rbac.authorization.k8s.io", "ClusterRole", "clusterroles", "roles", Shipped),
    cluster("rbac.authorization.k8s.io", "ClusterRoleBinding", "clusterrolebindings", "bindings", Shipped),
    namespaced("rbac.authorization.k8s.io", "Role", "roles", "roles", Shipped),
    namespaced("rbac.authorization.k8s.io", "RoleBinding", "rolebindings", "bindings", Shipped),
    namespaced("route.openshift.io", "Route", "routes", "publish", Other),
    cluster("scheduling.k8s.io", "PriorityClass", "priorityclasses", "policies", Shipped),
    cluster("storage.k8s.io", "StorageClass", "storageclasses", "storage", Other),
];

/// Packages of catalogs, or platforms, that provide the kinds of an API group, as far as it is common knowledge.
const PROVIDERS: &[(&str, &str)] = &[
    ("acme.cert-manager.io", "cert-manager"),
    ("autoscaling.k8s.io", "the Vertical Pod Autoscaler"),
    ("cert-manager.io", "cert-manager"),
    ("config.openshift.io", "OpenShift"),
    ("console.openshift.io", "OpenShift"),
    ("gateway.networking.k8s.io", "the Gateway API"),
    ("grafana.integreatly.org", "grafana-operator"),
    ("k8s.cni.cncf.io", "Multus"),
    ("kafka.strimzi.io", "strimzi-kafka-operator"),
    ("monitoring.coreos.com", "the Prometheus operator (package prometheus)"),
    ("monitoring.rhobs", "observability-operator"),
    ("networking.istio.io", "Istio"),
    ("operators.coreos.com", "OLM Classic"),
    ("route.openshift.io", "OpenShift"),
    ("security.openshift.io", "OpenShift"),
    ("serving.knative.dev", "knative-operator"),
    ("snapshot.storage.k8s.io", "the CSI snapshot controller"),
    ("tekton.dev", "tektoncd-operator"),
];

/// The properties of a kind, if it is in the table.
pub fn known_kind(group: &str, kind: &str) -> Option<&'static KnownKind> {
    KNOWN_KINDS.iter().find(|known| known.group == group && known.kind == kind)
}

/// The package or platform that provides the kinds of an API group, if it is known.
pub fn provider(group: &str) -> Option<&'static str> {
    PROVIDERS.iter().find(|(known, _)| *known == group).map(|(_, provider)| *provider)
}

/// The resource that a CustomResourceDefinition defines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefinedKind {
    /// Plural name.
    pub plural: String,
    /// Whether its objects have a namespace.
    pub namespaced: bool,
}

/// The kinds that CustomResourceDefinitions among `objects` define, by group and kind.
pub fn defined_kinds<'a>(
    objects: impl IntoIterator<Item = &'a Value>,
) -> BTreeMap<(String, String), DefinedKind> {
    let crds = objects.into_iter().filter(|object| ObjectKey::of(object).is_crd());
    crds.map(|crd| {
        let kind = (text(crd, "/spec/group").to_owned(), text(crd, "/spec/names/kind").to_owned());
        let plural = text(crd, "/spec/names/plural").to_owned();
        (kind, DefinedKind { plural, namespaced: text(crd, "/spec/scope") == "Namespaced" })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_tables_are_in_order_without_duplicates_and_phases_exist() {
        assert!(KNOWN_KINDS.is_sorted_by(|a, b| (a.group, a.kind) < (b.group, b.kind)));
        assert!(PROVIDERS.is_sorted_by(|a, b| a.0 < b.0));
        assert!(KNOWN_KINDS.iter().all(|known| PHASES.contains(&known.phase)));
        assert!(PHASES.contains(&"deploy"));
    }

    #[test]
    fn plurals_are_made_from_kinds() {
        for known in KNOWN_KINDS {
            let lower = known.kind.to_lowercase();
            let plural = match lower.strip_suffix('y') {
                Some(stem) => format!("{stem}ies"),
                None if lower.ends_with('s') => format!("{lower}es"),
                None => format!("{lower}s"),
            };
            assert_eq!(known.plural, plural);
        }
    }

    #[test]
    fn kinds_are_found_by_group_and_kind() {
        assert!(known_kind("rbac.authorization.k8s.io", "Role").is_some_and(|known| known.namespaced));
        assert!(known_kind("example.com", "Role").is_none());
        assert!(known_kind("monitoring.rhobs", "Probe").is_some_and(|known| known.optional));
        assert!(known_kind("monitoring.coreos.com", "Prometheus").is_none());
        assert_eq!(provider("cert-manager.io"), Some("cert-manager"));
        assert_eq!(provider("example.com"), None);
    }

    #[test]
    fn crds_define_kinds_whatever_their_version() {
        let crd = |api_version: &str| {
            json!({"apiVersion": api_version, "kind": "CustomResourceDefinition", "spec": {
                "group": "a.example.com", "scope": "Cluster", "names": {"kind": "Beacon", "plural": "beacons"}}})
        };
        let wanted = DefinedKind { plural: "beacons".to_owned(), namespaced: false };
        let kind = ("a.example.com".to_owned(), "Beacon".to_owned());
        for version in ["apiextensions.k8s.io/v1", "apiextensions.k8s.io/v1beta1"] {
            assert_eq!(defined_kinds([&crd(version)]), BTreeMap::from([(kind.clone(), wanted.clone())]));
        }
        assert!(defined_kinds([&crd("example.com/v1")]).is_empty());
    }
}
