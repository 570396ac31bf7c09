//! Conversion webhooks: which CustomResourceDefinitions an operator may have converted, and what is written into them.
//!
//! A conversion holds for all objects of a kind in the whole cluster, and is written with the permissions of this program.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use olm_api_classic::{
    ClusterServiceVersion, WebhookDescription, WebhookType, names::ALONGSIDE_ANNOTATION_PREFIX,
};
use olm_render::service_name;
use serde_json::{Value, json};

use super::{install::key, texts};

/// The install mode of operators that may convert.
const ALL_NAMESPACES: &str = "AllNamespaces";

/// The CustomResourceDefinitions that a webhook converts; none if it does something else.
pub fn crds(webhook: &WebhookDescription) -> &[String] {
    let crds = webhook.conversion_crds.as_deref().unwrap_or_default();
    if webhook.type_ == WebhookType::ConversionWebhook { crds } else { &[] }
}

/// The CustomResourceDefinitions that an operator converts.
pub fn all_crds(csv: &ClusterServiceVersion) -> impl Iterator<Item = &String> {
    csv.spec.webhookdefinitions.iter().flatten().flat_map(crds)
}

/// Whether an operator may have a webhook convert what its description names.
///
/// # Errors
/// The message.
pub fn check(csv: &ClusterServiceVersion, webhook: &WebhookDescription) -> Result<(), String> {
    let modes = csv.spec.install_modes.iter().flatten();
    if modes.clone().any(|mode| mode.supported != (mode.type_ == ALL_NAMESPACES)) {
        return Err(texts::message::CONVERSION_MODES.to_owned());
    }
    if crds(webhook).is_empty() {
        return Err(texts::message::CONVERSION_NOTHING.to_owned());
    }
    let owned = csv.spec.customresourcedefinitions.iter().flat_map(|crds| &crds.owned);
    match crds(webhook).iter().find(|name| !owned.clone().any(|crd| crd.name == **name)) {
        Some(name) => Err(texts::conversion_foreign(key(csv).1, name)),
        None => Ok(()),
    }
}

/// Whether an operator may have a CustomResourceDefinition converted as the cluster has it. One that something else converts
/// is left alone, unless it came with an operator of the namespace: bundles bring placeholders.
///
/// # Errors
/// The message.
pub fn check_crd(csv: &ClusterServiceVersion, crd: &CustomResourceDefinition) -> Result<(), String> {
    if crd.spec.preserve_unknown_fields == Some(true) {
        return Err(texts::message::CONVERSION_UNKNOWN_FIELDS.to_owned());
    }
    let namespace = key(csv).0;
    let came_with = crd.metadata.annotations.iter().flatten().any(|(name, value)| {
        name.starts_with(ALONGSIDE_ANNOTATION_PREFIX)
            && value.split_once('/').is_some_and(|(place, _)| place == namespace)
    });
    let converter = client_config(crd).map(|config| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let service = &config["service"];
        (text(&service["namespace"]), text(&service["name"]))
    });
    match converter {
        Some((place, service)) if place != namespace && !came_with => {
            let name = crd.metadata.name.as_deref().unwrap_or_default();
            Err(texts::conversion_taken(name, &place, &service))
        }
        _ => Ok(()),
    }
}

fn client_config(crd: &CustomResourceDefinition) -> Option<Value> {
    let config = crd.spec.conversion.as_ref()?.webhook.as_ref()?.client_config.as_ref()?;
    Some(json!(config))
}

/// `spec.conversion` of the CustomResourceDefinitions of a webhook. None while its server has no authority (in base64).
pub fn wanted(
    csv: &ClusterServiceVersion,
    webhook: &WebhookDescription,
    bundle: Option<&String>,
) -> Option<Value> {
    let service = json!({
        "namespace": key(csv).0, "name": service_name(webhook.deployment_name.as_deref()?),
        "path": webhook.webhook_path.as_deref().unwrap_or("/"), "port": webhook.container_port,
    });
    Some(json!({"strategy": "Webhook", "webhook": {
        "clientConfig": {"service": service, "caBundle": bundle?},
        "conversionReviewVersions": webhook.admission_review_versions,
    }}))
}

/// Whether a CustomResourceDefinition is converted by a Service of the operator.
pub fn is_converted_by(csv: &ClusterServiceVersion, crd: &CustomResourceDefinition) -> bool {
    let Some(config) = client_config(crd) else { return false };
    let conversions = csv.spec.webhookdefinitions.iter().flatten();
    conversions
        .filter(|webhook| webhook.type_ == WebhookType::ConversionWebhook)
        .filter_map(|webhook| webhook.deployment_name.as_deref())
        .any(|deployment| {
            config["service"]["namespace"] == key(csv).0
                && config["service"]["name"] == service_name(deployment).as_str()
        })
}

/// `spec.conversion` without a webhook: versions differ in their name only. A merge patch.
pub fn none() -> Value {
    json!({"strategy": "None", "webhook": null})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn csv(modes: &Value, crds: &Value) -> ClusterServiceVersion {
        serde_json::from_value(json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
            "metadata": {"name": "a.v1", "namespace": "ops"},
            "spec": {
                "displayName": "a", "install": {"strategy": "deployment"}, "installModes": modes,
                "customresourcedefinitions": {"owned": [{"name": "xs.st.io", "version": "v1", "kind": "X"}]},
                "webhookdefinitions": [{
                    "type": "ConversionWebhook", "generateName": "c.st.io", "deploymentName": "op.server",
                    "sideEffects": "None", "admissionReviewVersions": ["v1"], "conversionCRDs": crds,
                }],
            },
        }))
        .unwrap()
    }

    fn mode(name: &str, supported: bool) -> Value {
        json!({"type": name, "supported": supported})
    }

    fn crd(conversion: &Value, annotations: &Value, preserve: bool) -> CustomResourceDefinition {
        serde_json::from_value(json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "xs.st.io", "annotations": annotations},
            "spec": {
                "group": "st.io", "scope": "Cluster", "names": {"plural": "xs", "kind": "X"}, "versions": [],
                "preserveUnknownFields": preserve, "conversion": conversion,
            },
        }))
        .unwrap()
    }

    fn by(namespace: &str, name: &str) -> Value {
        json!({"strategy": "Webhook", "webhook": {
            "clientConfig": {"service": {"namespace": namespace, "name": name}}, "conversionReviewVersions": ["v1"],
        }})
    }

    #[test]
    fn only_operators_of_all_namespaces_convert_what_they_own() {
        let all = json!([mode("AllNamespaces", true), mode("OwnNamespace", false)]);
        let of = |modes: &Value, crds: &Value| {
            let csv = csv(modes, crds);
            check(&csv, &csv.spec.webhookdefinitions.as_ref().unwrap()[0])
        };
        let owned = json!(["xs.st.io"]);
        assert_eq!(of(&all, &owned), Ok(()));
        let modes = texts::message::CONVERSION_MODES;
        assert_eq!(
            of(&json!([mode("AllNamespaces", true), mode("OwnNamespace", true)]), &owned),
            Err(modes.into())
        );
        assert_eq!(of(&json!([mode("AllNamespaces", false)]), &owned), Err(modes.into()));
        for nothing in [json!([]), Value::Null] {
            assert_eq!(of(&all, &nothing), Err(texts::message::CONVERSION_NOTHING.into()));
        }
        let foreign = of(&all, &json!(["xs.st.io", "ys.st.io"]));
        assert_eq!(foreign, Err("csv a.v1 does not own CRD ys.st.io".to_owned()));
    }

    #[test]
    fn what_others_convert_is_left_alone() {
        let csv = csv(&json!([]), &json!(["xs.st.io"]));
        let none = json!({"strategy": "None"});
        assert_eq!(check_crd(&csv, &crd(&none, &json!({}), false)), Ok(()));
        assert!(check_crd(&csv, &crd(&none, &json!({}), true)).unwrap_err().starts_with("crd.Spec.Preserve"));
        assert_eq!(check_crd(&csv, &crd(&by("ops", "other"), &json!({}), false)), Ok(()));
        let taken = check_crd(&csv, &crd(&by("system", "webhook-service"), &json!({}), false)).unwrap_err();
        assert!(taken.contains("system/webhook-service"), "{taken}");
        let url = json!({"strategy": "Webhook", "webhook": {"clientConfig": {"url": "https://x"}, "conversionReviewVersions": ["v1"]}});
        assert!(check_crd(&csv, &crd(&url, &json!({}), false)).is_err());
        let came = json!({"operatorframework.io/installed-alongside-1": "ops/a.v0"});
        assert_eq!(check_crd(&csv, &crd(&by("system", "webhook-service"), &came, false)), Ok(()));
        let elsewhere = json!({"operatorframework.io/installed-alongside-1": "ops2/a.v0"});
        assert!(check_crd(&csv, &crd(&by("system", "webhook-service"), &elsewhere, false)).is_err());
    }

    #[test]
    fn the_conversion_leads_to_the_service_of_the_deployment() {
        let csv = csv(&json!([]), &json!(["xs.st.io"]));
        let webhook = &csv.spec.webhookdefinitions.as_ref().unwrap()[0];
        assert_eq!(wanted(&csv, webhook, None), None);
        let conversion = wanted(&csv, webhook, Some(&"Q0E=".to_owned())).unwrap();
        let service = json!({"namespace": "ops", "name": "op-server-service", "path": "/", "port": 443});
        assert_eq!(conversion["webhook"]["clientConfig"], json!({"service": service, "caBundle": "Q0E="}));
        assert!(is_converted_by(&csv, &crd(&conversion, &json!({}), false)));
        assert!(!is_converted_by(&csv, &crd(&by("ops", "other"), &json!({}), false)));
        assert!(!is_converted_by(&csv, &crd(&json!({"strategy": "None"}), &json!({}), false)));
    }
}
