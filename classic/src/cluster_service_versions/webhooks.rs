//! The webhooks of operators, as the API server knows them: configurations of admission webhooks, and conversions in
//! CustomResourceDefinitions.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::{
    api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Resource, ResourceExt,
    api::{ListParams, Patch},
};
use olm_api_classic::{WebhookDescription, WebhookType};
use olm_classic_core::{
    csv::{Webhooks, chain::Siblings, conversion, install::serving, texts::message},
    group::membership::Group,
};
use olm_runtime::{api_text, bounded, patch_as, post_as};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{Observed, Reconciler};
use crate::{
    objects::contains,
    operators::{FIELD_MANAGER, Interest},
};

/// The authority of each server in base64, by Deployment.
type Bundles = BTreeMap<String, String>;

impl Reconciler {
    /// Registers the webhooks of an operator.
    pub(super) async fn make_webhooks(
        &self,
        observed: &Observed<'_>,
        group: &Group,
        bundles: &Bundles,
    ) -> Result<(), String> {
        for webhook in observed.csv.spec.webhookdefinitions.iter().flatten() {
            if webhook.type_ == WebhookType::ConversionWebhook {
                self.convert(observed, webhook, bundles).await?;
                continue;
            }
            let bundle = webhook.deployment_name.as_ref().and_then(|name| bundles.get(name));
            let Some(bundle) = bundle else { continue };
            let Some(object) = serving::webhook_configuration(observed.csv, webhook, group, bundle) else {
                continue;
            };
            match webhook.type_ {
                WebhookType::ValidatingAdmissionWebhook => {
                    self.register::<ValidatingWebhookConfiguration>(observed, webhook, object).await?;
                }
                _ => self.register::<MutatingWebhookConfiguration>(observed, webhook, object).await?,
            }
        }
        Ok(())
    }

    async fn register<K>(
        &self,
        observed: &Observed<'_>,
        webhook: &WebhookDescription,
        object: Value,
    ) -> Result<(), String>
    where
        K: Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>
            + Clone
            + std::fmt::Debug
            + Serialize
            + DeserializeOwned,
    {
        let (api, own) = (Api::<K>::all(observed.writer.clone()), Api::<K>::all(self.client.clone()));
        let failed = |error: kube::Error| format!("webhook {}: {}", webhook.generate_name, api_text(&error));
        let found = self.registered(&own, observed, webhook).await.map_err(failed)?;
        let Some(found) = found else {
            let object: K = serde_json::from_value(object).map_err(|error| error.to_string())?;
            return bounded(api.create(&post_as(FIELD_MANAGER), &object)).await.map(drop).map_err(failed);
        };
        let known = serde_json::to_value(&found).unwrap_or_default();
        if contains(&known["webhooks"], &object["webhooks"]) {
            return Ok(());
        }
        let patch = json!({
            "metadata": {"resourceVersion": found.resource_version(), "labels": object["metadata"]["labels"]},
            "webhooks": object["webhooks"],
        });
        let patched =
            bounded(api.patch(&found.name_any(), &patch_as(FIELD_MANAGER), &Patch::Merge(patch))).await;
        patched.map(drop).map_err(failed)
    }

    async fn registered<K>(
        &self,
        api: &Api<K>,
        observed: &Observed<'_>,
        webhook: &WebhookDescription,
    ) -> Result<Option<K>, kube::Error>
    where
        K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
    {
        let labels = serving::webhook_labels(observed.csv, webhook);
        let labels: Vec<_> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let mut found = bounded(api.list(&ListParams::default().labels(&labels.join(",")))).await?.items;
        found.sort_by_key(ResourceExt::name_any);
        Ok(found.into_iter().next())
    }

    /// Has the CustomResourceDefinitions of a webhook converted by it.
    async fn convert(
        &self,
        observed: &Observed<'_>,
        webhook: &WebhookDescription,
        bundles: &Bundles,
    ) -> Result<(), String> {
        conversion::check(observed.csv, webhook)?;
        let bundle = webhook.deployment_name.as_ref().and_then(|name| bundles.get(name));
        let Some(wanted) = conversion::wanted(observed.csv, webhook, bundle) else { return Ok(()) };
        for name in conversion::crds(webhook) {
            let Some(crd) = self.definition(name).await? else {
                return Err(format!("CustomResourceDefinition {name} does not exist"));
            };
            conversion::check_crd(observed.csv, &crd)?;
            if !contains(&json!(crd.spec.conversion), &wanted) {
                set_conversion(observed, &crd, &wanted).await?;
            }
        }
        Ok(())
    }

    /// Whether everything that an operator converts is converted as it is to be.
    async fn is_converting(
        &self,
        observed: &mut Observed<'_>,
        webhook: &WebhookDescription,
        bundles: &Bundles,
    ) -> Result<bool, String> {
        let bundle = webhook.deployment_name.as_ref().and_then(|name| bundles.get(name));
        let Some(wanted) = conversion::wanted(observed.csv, webhook, bundle) else { return Ok(false) };
        for name in conversion::crds(webhook) {
            observed.interests.insert(Interest::Definition(name.clone()));
            let crd = self.definition(name).await?;
            if !crd.is_some_and(|crd| contains(&json!(crd.spec.conversion), &wanted)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Ends the conversions of an operator that is deleted and that nothing replaces: objects stay readable.
    pub(super) async fn remove_conversions(&self, observed: &Observed<'_>) -> Result<(), String> {
        let csvs = self.siblings(observed);
        if Siblings::of(&csvs).successor(observed.csv).is_some() {
            return Ok(());
        }
        for name in conversion::all_crds(observed.csv) {
            let Some(crd) = self.definition(name).await? else { continue };
            if conversion::is_converted_by(observed.csv, &crd) {
                set_conversion(observed, &crd, &conversion::none()).await?;
            }
        }
        Ok(())
    }

    async fn definition(&self, name: &str) -> Result<Option<CustomResourceDefinition>, String> {
        let api: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        bounded(api.get_opt(name)).await.map_err(|error| format!("reading {name}: {}", api_text(&error)))
    }

    /// Whether the operator's webhooks are registered.
    pub(super) async fn webhooks(
        &self,
        observed: &mut Observed<'_>,
        now: Timestamp,
    ) -> Result<Webhooks, String> {
        let converts = conversion::all_crds(observed.csv).next().is_some();
        let authorities = if converts { self.authorities(observed, now).await? } else { None };
        let bundles = authorities.unwrap_or_default().bundles;
        for webhook in observed.csv.spec.webhookdefinitions.iter().flatten() {
            let client = self.client.clone();
            let found = match webhook.type_ {
                WebhookType::ValidatingAdmissionWebhook => {
                    let api = Api::<ValidatingWebhookConfiguration>::all(client);
                    self.registered(&api, observed, webhook).await.map(|found| found.is_some())
                }
                WebhookType::MutatingAdmissionWebhook => {
                    let api = Api::<MutatingWebhookConfiguration>::all(client);
                    self.registered(&api, observed, webhook).await.map(|found| found.is_some())
                }
                WebhookType::ConversionWebhook => {
                    if self.is_converting(observed, webhook, &bundles).await? {
                        continue;
                    }
                    return Ok(Webhooks::Failed(message::CONVERSION_MISSING.to_owned()));
                }
            };
            match found {
                Ok(true) => {}
                Ok(false) => return Ok(Webhooks::Missing),
                Err(error) => return Ok(Webhooks::Failed(api_text(&error))),
            }
        }
        Ok(Webhooks::Installed)
    }
}

/// Writes the conversion of a CustomResourceDefinition that was looked at.
async fn set_conversion(
    observed: &Observed<'_>,
    crd: &CustomResourceDefinition,
    wanted: &Value,
) -> Result<(), String> {
    let api: Api<CustomResourceDefinition> = Api::all(observed.writer.clone());
    let (name, version) = (crd.name_any(), crd.resource_version());
    let patch = json!({"metadata": {"resourceVersion": version}, "spec": {"conversion": wanted}});
    let written = bounded(api.patch(&name, &patch_as(FIELD_MANAGER), &Patch::Merge(patch))).await;
    written.map(drop).map_err(|error| format!("conversion of {name}: {}", api_text(&error)))
}
