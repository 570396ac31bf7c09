//! Services, NetworkPolicies and disruption budgets.

use serde_json::{Value, json};

use crate::{
    pods::{CATALOGD, OPERATOR_CONTROLLER, Program},
    rbac::NAMESPACE,
};

/// The network objects of operator-controller, which are needed in every variant.
pub(crate) fn objects() -> Vec<Value> {
    vec![
        service("catalogd-service", &OPERATOR_CONTROLLER, &CATALOGD),
        metrics_service(),
        deny_all(),
        network_policy(&OPERATOR_CONTROLLER, &[OPERATOR_CONTROLLER.catalogs_port]),
        disruption_budget(&OPERATOR_CONTROLLER),
    ]
}

/// The network objects of a separate catalogd, in addition to its Service.
pub(crate) fn catalogd_objects() -> Vec<Value> {
    vec![network_policy(&CATALOGD, &[CATALOGD.catalogs_port]), disruption_budget(&CATALOGD)]
}

/// Catalogs. The port of the pods goes by name, so that only the selector says who serves them.
fn service(name: &str, served_by: &Program, named_after: &Program) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": name, "namespace": NAMESPACE,
            "labels": {"app.kubernetes.io/name": named_after.name},
        },
        "spec": {
            "selector": {"app.kubernetes.io/name": served_by.name},
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": "catalogs"}],
        },
    })
}

fn metrics_service() -> Value {
    let Program { name, metrics_port, .. } = OPERATOR_CONTROLLER;
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": "operator-controller-service", "namespace": NAMESPACE,
            "labels": {"app.kubernetes.io/name": name},
        },
        "spec": {
            "selector": {"app.kubernetes.io/name": name},
            "ports": [
                {"name": "metrics", "port": metrics_port, "protocol": "TCP", "targetPort": metrics_port},
            ],
        },
    })
}

fn deny_all() -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": {
            "name": "default-deny-all-traffic", "namespace": NAMESPACE,
            "labels": {"app.kubernetes.io/name": "olmv1"},
        },
        "spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]},
    })
}

/// In: what is served. Out: everything, because registries may be anywhere, and so may be the API server and DNS.
fn network_policy(program: &Program, served: &[u16]) -> Value {
    let ports: Vec<Value> = served
        .iter()
        .chain([&program.metrics_port])
        .map(|port| json!({"port": port, "protocol": "TCP"}))
        .collect();
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": {
            "name": program.deployment, "namespace": NAMESPACE,
            "labels": {"app.kubernetes.io/name": program.name},
        },
        "spec": {
            "podSelector": {"matchLabels": program.selector()},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"ports": ports}],
            "egress": [{}],
        },
    })
}

/// One pod may be away, also when there is only one: a node can always be drained. Upstream's budget of that name has
/// a `minAvailable`, which must be removed: the API server rejects both together.
fn disruption_budget(program: &Program) -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {
            "name": program.deployment, "namespace": NAMESPACE,
            "labels": {"app.kubernetes.io/name": program.name},
        },
        "spec": {
            "maxUnavailable": 1,
            "minAvailable": null,
            "selector": {"matchLabels": program.selector()},
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    })
}
