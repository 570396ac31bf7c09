//! Kinds that a cluster does not serve: which of them an operator can do without, and who would bring the others.
//!
//! Optional kinds only observe or decorate what an operator runs: dashboards, alerts, links of a console, hints
//! for a scaler. Without them the operator does its work. Everything else is needed.

use std::collections::BTreeSet;

use olm_api::names::UNKNOWN_KINDS_ANNOTATION;
use serde_json::Value;

use crate::object::{ObjectKey, text};

/// The optional kinds by API group. Workloads of the same groups (`Prometheus`, `Alertmanager`) are not optional.
const OPTIONAL: &[(&str, &[&str])] = &[
    ("autoscaling.k8s.io", &["VerticalPodAutoscaler"]),
    (
        "console.openshift.io",
        &[
            "ConsoleCLIDownload",
            "ConsoleExternalLogLink",
            "ConsoleLink",
            "ConsoleNotification",
            "ConsolePlugin",
            "ConsoleQuickStart",
            "ConsoleSample",
            "ConsoleYAMLSample",
        ],
    ),
    ("grafana.integreatly.org", &["GrafanaDashboard", "GrafanaDatasource", "GrafanaFolder"]),
    ("monitoring.coreos.com", MONITORS),
    ("monitoring.rhobs", MONITORS),
];

/// What tells a monitoring system what to watch.
const MONITORS: &[&str] =
    &["AlertmanagerConfig", "PodMonitor", "Probe", "PrometheusRule", "ScrapeConfig", "ServiceMonitor"];

/// Who brings the kinds of an API group, as far as it is common knowledge: packages of catalogs, or platforms.
const BROUGHT_BY: &[(&str, &str)] = &[
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

/// What is to happen with objects of optional kinds that the cluster does not serve.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UnknownKinds {
    /// They are left out until their kind arrives.
    #[default]
    LeaveOut,
    /// They stop the roll-out.
    Block,
}

impl UnknownKinds {
    /// What the value of [`UNKNOWN_KINDS_ANNOTATION`] asks for.
    pub fn asked(annotation: Option<&str>) -> Self {
        if annotation == Some("Block") { Self::Block } else { Self::LeaveOut }
    }
}

/// What the lack of an object's kind means for its roll-out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lack {
    /// A CustomResourceDefinition of the same revision brings the kind: it is waited for.
    Awaited,
    /// The object is left out until the kind arrives.
    LeftOut,
    /// The roll-out cannot go on.
    Blocks,
}

/// Whether operators can do without objects of this kind.
pub fn is_optional(group: &str, kind: &str) -> bool {
    OPTIONAL.iter().any(|(known, kinds)| *known == group && kinds.contains(&kind))
}

/// Group and kind of everything that CustomResourceDefinitions among `objects` define.
pub fn defined_kinds<'a>(objects: impl Iterator<Item = &'a Value>) -> BTreeSet<(String, String)> {
    let crds = objects.filter(|object| text(object, "/kind") == "CustomResourceDefinition");
    crds.map(|crd| (text(crd, "/spec/group").to_owned(), text(crd, "/spec/names/kind").to_owned())).collect()
}

/// What it means that the cluster does not serve the kind of `object`, in a revision that itself `defines` kinds.
pub fn lack(object: &ObjectKey, defines: &BTreeSet<(String, String)>, policy: UnknownKinds) -> Lack {
    if defines.contains(&(object.group.clone(), object.kind.clone())) {
        Lack::Awaited
    } else if policy == UnknownKinds::LeaveOut && is_optional(&object.group, &object.kind) {
        Lack::LeftOut
    } else {
        Lack::Blocks
    }
}

/// The sentence about a kind that is not served and needed.
pub fn lack_text(object: &ObjectKey) -> String {
    let mut told = format!("no matches for kind {:?} in version {:?}", object.kind, object.api_version());
    if let Some((_, by)) = BROUGHT_BY.iter().find(|(group, _)| *group == object.group) {
        told.push_str(": it comes with ");
        told.push_str(by);
    }
    if is_optional(&object.group, &object.kind) {
        told.push_str(" and would be left out but for the annotation ");
        told.push_str(UNKNOWN_KINDS_ANNOTATION);
    }
    told
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn key(api_version: &str, kind: &str) -> ObjectKey {
        ObjectKey::of(
            &json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x", "namespace": "n"}}),
        )
    }

    #[test]
    fn unknown_kinds_are_awaited_left_out_or_block() {
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "spec": {"group": "monitoring.coreos.com", "names": {"kind": "PodMonitor"}},
        });
        let defines = defined_kinds([&crd].into_iter());
        let rows = [
            ("monitoring.coreos.com/v1", "ServiceMonitor", Lack::LeftOut, Lack::Blocks),
            ("monitoring.coreos.com/v1", "PodMonitor", Lack::Awaited, Lack::Awaited),
            ("monitoring.coreos.com/v1", "Prometheus", Lack::Blocks, Lack::Blocks),
            ("console.openshift.io/v1", "ConsoleYAMLSample", Lack::LeftOut, Lack::Blocks),
            ("autoscaling.k8s.io/v1", "VerticalPodAutoscaler", Lack::LeftOut, Lack::Blocks),
            ("cert-manager.io/v1", "Certificate", Lack::Blocks, Lack::Blocks),
            ("example.com/v1", "ServiceMonitor", Lack::Blocks, Lack::Blocks),
        ];
        for (version, kind, by_default, when_asked) in rows {
            let key = key(version, kind);
            assert_eq!(lack(&key, &defines, UnknownKinds::asked(None)), by_default, "{key}");
            assert_eq!(lack(&key, &defines, UnknownKinds::asked(Some("Block"))), when_asked, "{key}");
        }
    }

    #[test]
    fn who_brings_a_kind_is_named_where_it_is_known() {
        assert_eq!(
            lack_text(&key("cert-manager.io/v1", "Issuer")),
            "no matches for kind \"Issuer\" in version \"cert-manager.io/v1\": it comes with cert-manager"
        );
        assert_eq!(
            lack_text(&key("example.com/v1", "Thing")),
            "no matches for kind \"Thing\" in version \"example.com/v1\""
        );
        assert_eq!(
            lack_text(&key("monitoring.rhobs/v1", "Probe")),
            "no matches for kind \"Probe\" in version \"monitoring.rhobs/v1\": it comes with observability-operator \
             and would be left out but for the annotation extensions.olm.operatorframework.io/unknown-kinds"
        );
    }

    #[test]
    fn the_tables_are_in_order_and_without_duplicates() {
        assert!(OPTIONAL.is_sorted_by(|a, b| a.0 < b.0));
        assert!(BROUGHT_BY.is_sorted_by(|a, b| a.0 < b.0));
        assert!(OPTIONAL.iter().all(|(_, kinds)| kinds.is_sorted_by(|a, b| a < b)));
    }
}
