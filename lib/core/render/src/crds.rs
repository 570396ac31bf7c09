//! The bundle's CRDs, with their conversion pointed at the operator's webhook Service.
//!
//! As `BundleCRDGenerator` in operator-controller's
//! internal/operator-controller/rukpak/render/registryv1/generators/generators.go.

use olm_bundle::{CONVERSION, Csv, Webhook};
use olm_object::text;
use serde_json::{Value, json};

use crate::{RenderError, certificates, fields::map_at, render::Context};

/// The CRDs in reading order.
pub(crate) fn generate(
    crds: Vec<Value>,
    csv: &Csv,
    context: &Context<'_>,
) -> Result<Vec<Value>, RenderError> {
    let mut findings = Vec::new();
    let crds = crds
        .into_iter()
        .map(|mut crd| {
            let name = text(&crd, "/metadata/name").to_owned();
            let converter = csv
                .webhooks
                .iter()
                .find(|webhook| webhook.is(CONVERSION) && webhook.conversion_crds.contains(&name));
            if let Some(webhook) = converter {
                if crd.pointer("/spec/preserveUnknownFields") == Some(&Value::Bool(true)) {
                    findings.push(format!(
                        "custom resource definition '{name}' must have .spec.preserveUnknownFields set to false to \
                         let API Server call webhook to do the conversion"
                    ));
                }
                set_conversion_webhook(&mut crd, webhook, context);
            }
            crd
        })
        .collect();
    if findings.is_empty() { Ok(crds) } else { Err(RenderError::Invalid(findings)) }
}

fn set_conversion_webhook(crd: &mut Value, webhook: &Webhook, context: &Context<'_>) {
    let service = certificates::service_name(&webhook.deployment_name);
    let conversion = json!({
        "strategy": "Webhook",
        "webhook": {
            "clientConfig": {"service": {
                "namespace": context.install_namespace,
                "name": service,
                "path": webhook.path.as_deref().unwrap_or("/"),
                "port": webhook.port(),
            }},
            "conversionReviewVersions": webhook.admission_review_versions,
        },
    });
    if let Some(spec) = crd.get_mut("spec").and_then(Value::as_object_mut) {
        spec.insert("conversion".to_owned(), conversion);
    }
    let injection =
        certificates::ca_annotation(context.provider, context.install_namespace, &webhook.deployment_name);
    if let Some((key, value)) = injection
        && let Some(annotations) = map_at(crd, &["metadata", "annotations"])
    {
        annotations.insert(key.to_owned(), value.into());
    }
}
