//! Webhook configurations, and the Services and certificates behind them.
//!
//! As `BundleValidatingWebhookResourceGenerator`, `BundleMutatingWebhookResourceGenerator` and those of Services and
//! certificates in operator-controller's
//! internal/operator-controller/rukpak/render/registryv1/generators/generators.go.

use std::collections::{BTreeMap, BTreeSet};

use olm_bundle::{Csv, Deployment, MUTATING, VALIDATING, Webhook};
use serde_json::{Value, json};

use crate::{certificates, render::Context};

/// The ValidatingWebhookConfigurations, then the MutatingWebhookConfigurations, in the CSV's order.
pub(crate) fn configurations(csv: &Csv, context: &Context<'_>) -> Vec<Value> {
    [(VALIDATING, "ValidatingWebhookConfiguration"), (MUTATING, "MutatingWebhookConfiguration")]
        .into_iter()
        .flat_map(|(of_type, kind)| {
            csv.webhooks.iter().filter(move |webhook| webhook.is(of_type)).map(move |webhook| (webhook, kind))
        })
        .map(|(webhook, kind)| configuration(webhook, kind, context))
        .collect()
}

fn configuration(webhook: &Webhook, kind: &str, context: &Context<'_>) -> Value {
    let mut body = json!({
        "name": webhook.name(),
        "clientConfig": {"service": {
            "namespace": context.install_namespace,
            "name": certificates::service_name(&webhook.deployment_name),
            "port": webhook.port(),
        }},
        "sideEffects": webhook.side_effects,
        "admissionReviewVersions": webhook.admission_review_versions,
    });
    if let Some(path) = &webhook.path {
        body["clientConfig"]["service"]["path"] = path.as_str().into();
    }
    if !webhook.rules.is_empty() {
        body["rules"] = webhook.rules.clone().into();
    }
    let reinvocation = if webhook.is(MUTATING) { &webhook.reinvocation_policy } else { &None };
    for (field, value) in [
        ("failurePolicy", &webhook.failure_policy),
        ("matchPolicy", &webhook.match_policy),
        ("objectSelector", &webhook.object_selector),
        ("timeoutSeconds", &webhook.timeout_seconds),
        ("reinvocationPolicy", reinvocation),
    ] {
        if let Some(value) = value {
            body[field] = value.clone();
        }
    }
    if !context.watches_all() {
        body["namespaceSelector"] = json!({"matchExpressions": [{
            "key": "kubernetes.io/metadata.name",
            "operator": "In",
            "values": context.target_namespaces,
        }]});
    }
    // The namespace makes no sense for a cluster-scoped kind, but upstream writes it and servers drop it.
    let mut metadata = json!({"name": webhook.name(), "namespace": context.install_namespace});
    let injection =
        certificates::ca_annotation(context.provider, context.install_namespace, &webhook.deployment_name);
    if let Some((key, value)) = injection {
        metadata["annotations"] = json!({key: value});
    }
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": metadata,
        "webhooks": [body],
    })
}

/// The webhooks of each Deployment that serves any, in the CSV's order of Deployments.
fn serving(csv: &Csv) -> impl Iterator<Item = (&Deployment, Vec<&Webhook>)> {
    let mut by_deployment: BTreeMap<&str, Vec<&Webhook>> = BTreeMap::new();
    for webhook in &csv.webhooks {
        by_deployment.entry(&webhook.deployment_name).or_default().push(webhook);
    }
    csv.deployments.iter().filter_map(move |deployment| {
        // Names of Deployments are unique.
        by_deployment.remove(deployment.name.as_str()).map(|webhooks| (deployment, webhooks))
    })
}

/// One Service for each Deployment that serves webhooks.
pub(crate) fn services(csv: &Csv, context: &Context<'_>) -> Vec<Value> {
    serving(csv)
        .map(|(deployment, webhooks)| {
            let mut spec = json!({"ports": ports(&webhooks)});
            let selector =
                deployment.spec.pointer("/selector/matchLabels").filter(|labels| !labels.is_null());
            if let Some(selector) = selector {
                spec["selector"] = selector.clone();
            }
            let name = certificates::service_name(&deployment.name);
            let mut metadata = json!({"name": name, "namespace": context.install_namespace});
            if let Some((key, value)) = certificates::service_annotation(context.provider, &deployment.name) {
                metadata["annotations"] = json!({key: value});
            }
            json!({
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": metadata,
                "spec": spec,
                "status": {"loadBalancer": {}},
            })
        })
        .collect()
}

/// The ports of a webhook Service, each once, sorted by port and target port.
///
/// Upstream names ports by their number, so two targets behind one port share a name, which API servers
/// refuse; here later ones carry their target in the name.
fn ports(webhooks: &[&Webhook]) -> Vec<Value> {
    let mut seen = BTreeSet::new();
    let all = webhooks.iter().map(|webhook| {
        let port = webhook.port();
        (port, webhook.target_port.clone().unwrap_or_else(|| port.into()))
    });
    let mut ports: Vec<(i64, Value)> =
        all.filter(|(port, target)| seen.insert((*port, target.to_string()))).collect();
    ports.sort_by_key(|(port, target)| (*port, number(target)));
    let mut previous = None;
    ports
        .into_iter()
        .map(|(port, target)| {
            let name = match (&target, previous == Some(port)) {
                (_, false) => port.to_string(),
                (Value::String(target), true) => format!("{port}-{target}"),
                (target, true) => format!("{port}-{}", number(target)),
            };
            previous = Some(port);
            json!({"name": name, "port": port, "targetPort": target})
        })
        .collect()
}

fn number(target: &Value) -> i64 {
    match target {
        Value::Number(number) => number.as_i64().unwrap_or(0),
        Value::String(name) => name.parse().unwrap_or(0),
        _ => 0,
    }
}

/// The objects of the certificate provider for each serving Deployment, sorted by Deployment.
pub(crate) fn certificate_objects(csv: &Csv, context: &Context<'_>) -> Vec<Value> {
    let mut names: Vec<_> = serving(csv).map(|(deployment, _)| deployment.name.as_str()).collect();
    names.sort_unstable();
    names
        .into_iter()
        .flat_map(|name| certificates::objects(context.provider, context.install_namespace, name))
        .collect()
}
