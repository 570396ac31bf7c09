//! The webhooks of operators, as the API server knows them: configurations of admission webhooks, and conversions in
//! CustomResourceDefinitions.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::{
    api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Resource, ResourceExt,
    api::{ListParams, Patch},
    core::PartialObjectMeta,
};
use olm_api_classic::{WebhookDescription, WebhookType};
use olm_classic_core::{
    csv::{
        Webhooks,
        chain::Siblings,
        conversion,
        install::serving::{self, WEBHOOK_HASH_LABEL, WEBHOOK_NAME_LABEL},
        texts::message,
    },
    group::membership::Group,
};
use olm_runtime::{api_text, bounded, patch_as, post_as};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{Observed, Reconciler, cleanup::owner_selector};
use crate::{
    objects::{contains, delete},
    operator_groups::owner_of,
    operators::{FIELD_MANAGER, Interest, all},
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
        let failed = |error: kube::Error| format!("removing webhooks: {}", api_text(&error));
        let validating: Api<ValidatingWebhookConfiguration> = Api::all(self.client.clone());
        for one in
            surplus(&validating, observed, WebhookType::ValidatingAdmissionWebhook).await.map_err(failed)?
        {
            delete(&validating, &one).await.map_err(failed)?;
        }
        let mutating: Api<MutatingWebhookConfiguration> = Api::all(self.client.clone());
        for one in
            surplus(&mutating, observed, WebhookType::MutatingAdmissionWebhook).await.map_err(failed)?
        {
            delete(&mutating, &one).await.map_err(failed)?;
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
        let labels = &object["metadata"]["labels"];
        if contains(&known["webhooks"], &object["webhooks"]) && contains(&known["metadata"]["labels"], labels)
        {
            return Ok(());
        }
        let patch = json!({
            "metadata": {"resourceVersion": found.resource_version(), "labels": labels},
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
        if self
            .has_surplus(observed)
            .await
            .map_err(|error| format!("reading webhooks: {}", api_text(&error)))?
        {
            return Ok(Webhooks::Failed(message::WEBHOOK_OUTDATED.to_owned()));
        }
        for webhook in observed.csv.spec.webhookdefinitions.iter().flatten() {
            let client = self.client.clone();
            let found = match webhook.type_ {
                WebhookType::ValidatingAdmissionWebhook => {
                    let api = Api::<ValidatingWebhookConfiguration>::all(client);
                    self.registered(&api, observed, webhook).await.map(|found| found.map(|one| hash_of(&one)))
                }
                WebhookType::MutatingAdmissionWebhook => {
                    let api = Api::<MutatingWebhookConfiguration>::all(client);
                    self.registered(&api, observed, webhook).await.map(|found| found.map(|one| hash_of(&one)))
                }
                WebhookType::ConversionWebhook => {
                    if self.is_converting(observed, webhook, &bundles).await? {
                        continue;
                    }
                    return Ok(Webhooks::Failed(message::CONVERSION_MISSING.to_owned()));
                }
            };
            let wanted = observed.group.as_ref().map(|group| serving::webhook_hash(webhook, group));
            match found {
                Ok(Some(hash)) if hash == wanted => {}
                Ok(Some(_)) => return Ok(Webhooks::Failed(message::WEBHOOK_OUTDATED.to_owned())),
                Ok(None) => return Ok(Webhooks::Missing),
                Err(error) => return Ok(Webhooks::Failed(api_text(&error))),
            }
        }
        let described = observed.csv.spec.webhookdefinitions.iter().flatten();
        let named: BTreeSet<_> = described.filter_map(|webhook| webhook.deployment_name.as_deref()).collect();
        for server in serving::servers(observed.csv) {
            if named.contains(server.deployment.as_str())
                && let Some(fault) = self.is_lost(observed, &server).await?
            {
                return Ok(Webhooks::Failed(fault));
            }
        }
        Ok(Webhooks::Installed)
    }

    /// Whether there are configurations of descriptions that are gone. The API server is asked only when one has been heard of.
    async fn has_surplus(&self, observed: &Observed<'_>) -> Result<bool, kube::Error> {
        let owner = [Some("ClusterServiceVersion"), Some(&observed.namespace), Some(&observed.name)];
        let is_surplus = |type_: WebhookType, labels: &BTreeMap<String, String>| {
            owner_of(labels).map(|text| text.map(String::as_str)) == owner
                && !is_described(observed, type_, labels)
        };
        let type_ = WebhookType::ValidatingAdmissionWebhook;
        if all(&self.stores.validating).iter().any(|one| is_surplus(type_, one.labels())) {
            let api: Api<ValidatingWebhookConfiguration> = Api::all(self.client.clone());
            return surplus(&api, observed, type_).await.map(|found| !found.is_empty());
        }
        let type_ = WebhookType::MutatingAdmissionWebhook;
        if all(&self.stores.mutating).iter().any(|one| is_surplus(type_, one.labels())) {
            let api: Api<MutatingWebhookConfiguration> = Api::all(self.client.clone());
            return surplus(&api, observed, type_).await.map(|found| !found.is_empty());
        }
        Ok(false)
    }
}

/// Whether a configuration with these labels is that of a description of the operator.
fn is_described(observed: &Observed<'_>, type_: WebhookType, labels: &BTreeMap<String, String>) -> bool {
    let mut all = observed.csv.spec.webhookdefinitions.iter().flatten();
    all.any(|one| one.type_ == type_ && labels.get(WEBHOOK_NAME_LABEL) == Some(&one.generate_name))
}

/// The operator's configurations of descriptions that are gone, and all but one of each description.
async fn surplus<K>(
    api: &Api<K>,
    observed: &Observed<'_>,
    type_: WebhookType,
) -> Result<Vec<PartialObjectMeta<K>>, kube::Error>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
{
    let labels = owner_selector(&observed.namespace, &observed.name);
    let mut found = bounded(api.list_metadata(&ListParams::default().labels(&labels))).await?.items;
    found.sort_by_key(ResourceExt::name_any);
    let mut kept = BTreeSet::new();
    found.retain(|one| {
        let labels = one.labels();
        !is_described(observed, type_, labels) || !kept.insert(labels.get(WEBHOOK_NAME_LABEL).cloned())
    });
    Ok(found)
}

/// The hash with which a configuration was written.
fn hash_of(configuration: &impl Resource) -> Option<String> {
    configuration.labels().get(WEBHOOK_HASH_LABEL).cloned()
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
