//! Which `caBundle` belongs into which object.

use std::collections::BTreeMap;

use olm_api::names::WEBHOOK_CERTIFICATES_FIELD_MANAGER;
use olm_object::text;
use serde_json::{Value, json};

/// Where a CRD names the Service of its conversion.
const OF_CRD: &str = "/spec/conversion/webhook/clientConfig";

/// The bundles, base64, by namespace and name of the Service that they are for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CaBundles(BTreeMap<(String, String), String>);

/// Where an object names a Service: a webhook, or the conversion of a CRD.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    webhook: Option<String>,
    service: (String, String),
}

/// What one object is to be given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Injection(Vec<(Place, String)>);

impl CaBundles {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn insert(&mut self, namespace: &str, service: &str, bundle: String) {
        self.0.insert((namespace.to_owned(), service.to_owned()), bundle);
    }

    /// What belongs into `desired`; `None` if it refers to no Service that has a bundle, or brings its own.
    pub(crate) fn injection(&self, desired: &Value) -> Option<Injection> {
        let wanted: Vec<_> = places(desired)
            .into_iter()
            .filter_map(|place| self.0.get(&place.service).cloned().map(|bundle| (place, bundle)))
            .collect();
        (!wanted.is_empty()).then_some(Injection(wanted))
    }
}

impl Injection {
    /// The object with its bundles, for its creation.
    pub(crate) fn fill(&self, object: &Value) -> Value {
        let mut filled = object.clone();
        for (place, bundle) in &self.0 {
            let pointer = pointer(&filled, place);
            let config = pointer.and_then(|pointer| filled.pointer_mut(&pointer)?.as_object_mut());
            if let Some(config) = config {
                config.insert("caBundle".to_owned(), bundle.as_str().into());
            }
        }
        filled
    }

    /// What is applied under the field manager of webhook certificates.
    pub(crate) fn patch(&self, object: &Value) -> Value {
        let mut patch = json!({
            "apiVersion": object["apiVersion"],
            "kind": object["kind"],
            "metadata": {"name": object["metadata"]["name"]},
        });
        let mut webhooks = Vec::new();
        for (place, bundle) in &self.0 {
            let config = json!({"caBundle": bundle});
            match &place.webhook {
                Some(name) => webhooks.push(json!({"name": name, "clientConfig": config})),
                None => patch["spec"] = json!({"conversion": {"webhook": {"clientConfig": config}}}),
            }
        }
        if !webhooks.is_empty() {
            patch["webhooks"] = webhooks.into();
        }
        patch
    }

    /// Whether the live object has the places that are to be filled.
    pub(crate) fn fits(&self, live: &Value) -> bool {
        self.0.iter().all(|(place, _)| config(live, place).is_some())
    }

    /// Whether the live object has the bundles, kept by their own field manager.
    pub(crate) fn is_kept(&self, live: &Value) -> bool {
        self.is_trusted(live) && is_applied(live)
    }

    /// Whether the live object has the bundles.
    pub(crate) fn is_trusted(&self, live: &Value) -> bool {
        self.0.iter().all(|(place, bundle)| {
            config(live, place).and_then(|config| config.get("caBundle")).and_then(Value::as_str)
                == Some(bundle)
        })
    }
}

/// Whether our field manager has applied a bundle.
fn is_applied(live: &Value) -> bool {
    let managers = live.pointer("/metadata/managedFields").and_then(Value::as_array);
    managers.into_iter().flatten().any(|entry| {
        entry["manager"] == WEBHOOK_CERTIFICATES_FIELD_MANAGER
            && entry["operation"] == "Apply"
            && entry["fieldsV1"].to_string().contains("\"f:caBundle\"")
    })
}

/// Whether the object names a Service of a webhook and brings no bundle for it.
pub(crate) fn needs_ca_bundle(object: &Value) -> bool {
    !places(object).is_empty()
}

fn places(object: &Value) -> Vec<Place> {
    let place = |webhook: Option<String>, config: &Value| {
        let brings_own = config.get("caBundle").and_then(Value::as_str).is_some_and(|own| !own.is_empty());
        let service =
            (text(config, "/service/namespace").to_owned(), text(config, "/service/name").to_owned());
        (!brings_own && !service.1.is_empty()).then_some(Place { webhook, service })
    };
    match (text(object, "/apiVersion"), text(object, "/kind")) {
        (
            "admissionregistration.k8s.io/v1",
            "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration",
        ) => {
            let webhooks = object.get("webhooks").and_then(Value::as_array).into_iter().flatten();
            webhooks
                .filter_map(|webhook| {
                    place(Some(text(webhook, "/name").to_owned()), webhook.get("clientConfig")?)
                })
                .collect()
        }
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition") => {
            object.pointer(OF_CRD).and_then(|config| place(None, config)).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

/// The JSON pointer to a place in this very object.
fn pointer(object: &Value, place: &Place) -> Option<String> {
    let Some(name) = &place.webhook else { return Some(OF_CRD.to_owned()) };
    let index = object.get("webhooks")?.as_array()?.iter().position(|webhook| webhook["name"] == *name)?;
    Some(format!("/webhooks/{index}/clientConfig"))
}

fn config<'a>(object: &'a Value, place: &Place) -> Option<&'a Value> {
    object.pointer(&pointer(object, place)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bundles() -> CaBundles {
        let mut bundles = CaBundles::default();
        bundles.insert("ns", "s", "QQ==".to_owned());
        bundles
    }

    fn configuration(service: &str) -> Value {
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "v"},
            "webhooks": [{"name": "v.x", "clientConfig": {"service": {"namespace": "ns", "name": service}}}],
        })
    }

    fn crd() -> Value {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "c"},
            "spec": {"conversion": {"strategy": "Webhook", "webhook": {
                "clientConfig": {"service": {"namespace": "ns", "name": "s", "port": 443}},
            }}},
        })
    }

    #[test]
    fn bundles_go_where_their_service_is_named() {
        for (object, pointer) in [
            (configuration("s"), "/webhooks/0/clientConfig/caBundle"),
            (crd(), "/spec/conversion/webhook/clientConfig/caBundle"),
        ] {
            let injection = bundles().injection(&object).unwrap();
            assert!(injection.fits(&object) && !injection.is_trusted(&object));
            let mut filled = injection.fill(&object);
            assert_eq!(filled.pointer(pointer), Some(&json!("QQ==")));
            assert_eq!(injection.patch(&object).pointer(pointer), Some(&json!("QQ==")));
            assert!(injection.is_trusted(&filled) && !injection.is_kept(&filled));
            filled["metadata"]["managedFields"] = json!([{
                "manager": WEBHOOK_CERTIFICATES_FIELD_MANAGER, "operation": "Apply",
                "fieldsV1": {"f:caBundle": {}},
            }]);
            assert!(injection.is_kept(&filled));
        }
        assert!(!bundles().injection(&crd()).unwrap().fits(&json!({})));
    }

    #[test]
    fn nothing_else_is_touched() {
        let mut own = crd();
        own["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"] = json!("Qg==");
        let mut old = configuration("s");
        old["apiVersion"] = json!("admissionregistration.k8s.io/v1beta1");
        for object in [configuration("other"), own, old, json!({"kind": "Deployment"}), Value::Null] {
            assert_eq!(bundles().injection(&object), None, "{object}");
        }
        assert_eq!(CaBundles::default().injection(&crd()), None);
    }
}
