//! The CSV's Deployments, with annotations, webhook certificates and the user's configuration.
//!
//! As `BundleCSVDeploymentGenerator` in operator-controller's
//! internal/operator-controller/rukpak/render/registryv1/generators/generators.go. As there, init containers that mount a volume which certificates replace are left alone, so that
//! API servers refuse such a Deployment.

use std::collections::BTreeSet;

use olm_bundle::{Csv, Deployment};
use olm_object::text;
use serde_json::{Map, Value, json};

use crate::{
    CertificateProvider, RenderError, VolumeOrder, certificates, deployment_config,
    fields::{each, list},
    limits::POD_ANNOTATIONS_BYTES_MAX,
    render::Context,
};

/// The Deployments in the CSV's order.
///
/// # Errors
/// The CSV's annotations, which every pod gets, are too large for so many Deployments.
pub(crate) fn generate(
    csv: &Csv,
    context: &Context<'_>,
    configuration: Option<&Map<String, Value>>,
) -> Result<Vec<Value>, RenderError> {
    let bytes = |value: &Value| value.as_str().map_or(0, str::len);
    let annotations: usize = csv.annotations.iter().map(|(key, value)| key.len() + bytes(value)).sum();
    if annotations.saturating_mul(csv.deployments.len()) > POD_ANNOTATIONS_BYTES_MAX {
        let what = "bytes of annotations in the pods of all Deployments";
        return Err(RenderError::TooLarge { what, limit: POD_ANNOTATIONS_BYTES_MAX });
    }
    let serving: BTreeSet<&str> =
        csv.webhooks.iter().map(|webhook| webhook.deployment_name.as_str()).collect();
    let objects = csv
        .deployments
        .iter()
        .map(|deployment| {
            let mut object = object(deployment, csv, context);
            let serves = serving.contains(deployment.name.as_str());
            if serves && context.provider != CertificateProvider::None {
                mount_certificates(
                    &mut object,
                    &certificates::certificate_name(&deployment.name),
                    VolumeOrder::WebhookFirst,
                );
            }
            if let Some(configuration) = configuration {
                deployment_config::apply(&mut object, configuration);
            }
            object
        })
        .collect();
    Ok(objects)
}

fn object(deployment: &Deployment, csv: &Csv, context: &Context<'_>) -> Value {
    let mut metadata = json!({"name": deployment.name, "namespace": context.install_namespace});
    if !deployment.label.is_empty() {
        metadata["labels"] = deployment.label.clone().into();
    }
    let mut spec = deployment.spec.clone();
    if let Some(spec) = spec.as_object_mut() {
        spec.insert("revisionHistoryLimit".to_owned(), 1.into());
    }
    if let Some(template) = spec.pointer_mut("/template/metadata").and_then(Value::as_object_mut) {
        let mut annotations = csv.annotations.clone();
        if let Some(Value::Object(own)) = template.remove("annotations") {
            annotations.extend(own);
        }
        annotations.insert("olm.targetNamespaces".to_owned(), context.target_namespaces.join(",").into());
        annotations.insert("olm.operatorNamespace".to_owned(), context.install_namespace.into());
        template.insert("annotations".to_owned(), annotations.into());
    }
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": spec,
        "status": {},
    })
}

/// The pod spec of a Deployment.
pub(crate) fn pod(deployment: &mut Value) -> Option<&mut Map<String, Value>> {
    deployment.pointer_mut("/spec/template/spec").and_then(Value::as_object_mut)
}

/// Mounts the Secret with a certificate into all containers, in place of what is mounted there.
pub fn mount_certificates(deployment: &mut Value, secret: &str, order: VolumeOrder) {
    let Some(pod) = pod(deployment) else { return };
    let mut replaced: Vec<String> = certificates::VOLUMES.iter().map(|volume| volume.0.to_owned()).collect();
    for container in each(pod, "containers") {
        for mount in container.get("volumeMounts").and_then(Value::as_array).into_iter().flatten() {
            if certificates::VOLUMES.iter().any(|volume| volume.1 == text(mount, "/mountPath")) {
                replaced.push(text(mount, "/name").to_owned());
            }
        }
    }
    let is_replaced = |item: &Value| replaced.iter().any(|name| name == text(item, "/name"));
    if let Some(volumes) = list(pod, "volumes") {
        volumes.retain(|volume| !is_replaced(volume));
        volumes.extend(order.volumes().iter().map(|(name, _, certificate, key)| {
            json!({"name": name, "secret": {"secretName": secret, "items": [
                {"key": "tls.crt", "path": certificate},
                {"key": "tls.key", "path": key},
            ]}})
        }));
    }
    for container in each(pod, "containers") {
        if let Some(mounts) = list(container, "volumeMounts") {
            mounts.retain(|mount| !is_replaced(mount));
            let mount =
                |(name, path, ..): &(&str, &str, &str, &str)| json!({"name": name, "mountPath": path});
            mounts.extend(order.volumes().iter().map(mount));
        }
    }
}
