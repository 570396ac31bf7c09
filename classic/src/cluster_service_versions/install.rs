//! Installing an operator.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject},
    core::GroupVersionKind,
};
use olm_api_classic::{
    Subscription, SubscriptionConfig,
    names::{OWNER_KIND_LABEL, OWNER_LABEL},
};
use olm_classic_core::csv::{
    InstallFault, Installed,
    chain::Siblings,
    install::deployments::{Additions, deployments, proxy_variables},
};
use olm_runtime::{AccountRef, api_text, bounded};
use serde_json::Value;

use super::{Observed, Reconciler, cleanup::owner_selector};
use crate::{
    objects::{WriteError, contains, delete_labelled, ensure},
    operators::{Interest, within},
};

/// What stands behind webhooks and APIs: the hash of each server's authority and the authority in base64, by Deployment.
#[derive(Debug, Clone, Default)]
pub(super) struct Authorities {
    pub(super) hashes: BTreeMap<String, String>,
    pub(super) bundles: BTreeMap<String, String>,
}

/// Whether a Deployment is the operator's: it names no other owner.
pub(super) fn is_own(deployment: &Deployment, observed: &Observed<'_>) -> bool {
    deployment.labels().get(OWNER_LABEL).is_some_and(|owner| *owner == observed.name)
}

impl Reconciler {
    /// The Deployments as they are to be; none while a certificate that they mount is missing.
    ///
    /// # Errors
    /// The text says what could not be read.
    pub(super) async fn calculated(
        &self,
        observed: &mut Observed<'_>,
        now: Timestamp,
    ) -> Result<Option<Vec<Deployment>>, String> {
        let Some(authorities) = self.authorities(observed, now).await? else { return Ok(None) };
        let config = self.configuration(observed);
        let proxy = self.proxy().await?;
        let additions = Additions { config: config.as_ref(), proxy, authorities: authorities.hashes };
        deployments(observed.csv, &additions).map(Some)
    }

    /// The variables of the cluster's proxy; none on clusters other than OpenShift.
    async fn proxy(&self) -> Result<Vec<(&'static str, String)>, String> {
        let kind = ApiResource::from_gvk_with_plural(
            &GroupVersionKind::gvk("config.openshift.io", "v1", "Proxy"),
            "proxies",
        );
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &kind);
        match bounded(api.get("cluster")).await {
            Ok(proxy) => Ok(proxy_variables(&proxy.data)),
            // A group that is not served is answered without a reason.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
            Err(error) => Err(format!("reading the cluster's proxy: {}", api_text(&error))),
        }
    }

    /// The configuration of the Subscription that installed the operator. Of several the first by name.
    fn configuration(&self, observed: &mut Observed<'_>) -> Option<SubscriptionConfig> {
        observed.interests.insert(Interest::Subscriptions(observed.namespace.clone()));
        let is_its = |subscription: &Subscription| {
            let status = subscription.status.as_ref();
            status.and_then(|status| status.installed_csv.as_deref()) == Some(observed.name.as_str())
        };
        let found = within(&self.stores.subscriptions, &observed.namespace);
        found.into_iter().find(is_its).and_then(|subscription| subscription.spec.config)
    }

    /// Installs the operator.
    ///
    /// # Errors
    /// It is not known whether it was installed.
    pub(super) async fn install(
        &self,
        observed: &mut Observed<'_>,
        now: Timestamp,
    ) -> Result<Result<Installed, InstallFault>, String> {
        let permissions = self.permissions(observed).await?;
        let done = self.install_all(observed, now).await;
        let uid = observed.csv.uid().unwrap_or_default();
        if done.as_ref().is_err_and(|fault| fault.is_unrecoverable) {
            self.failed.lock().insert(uid, permissions);
        } else {
            self.failed.lock().remove(&uid);
            self.ensured.forget(&uid);
        }
        Ok(done)
    }

    async fn install_all(
        &self,
        observed: &mut Observed<'_>,
        now: Timestamp,
    ) -> Result<Installed, InstallFault> {
        observed.writer = self.installer(observed).await?;
        let certificates = self.make_servers(observed, now).await.map_err(fault)?;
        // Certificates may have been made anew.
        observed.authorities.take();
        let objects = self.calculated(observed, now).await.map_err(fault)?;
        let objects = objects.ok_or_else(|| fault("a certificate that was made is missing".to_owned()))?;
        let csvs = self.siblings(observed);
        let chain = Siblings::of(&csvs).predecessors(observed.csv);
        let exists = |name: &str| csvs.iter().any(|csv| csv.metadata.name.as_deref() == Some(name));
        let api: Api<Deployment> = Api::namespaced(observed.writer.clone(), &observed.namespace);
        for object in &objects {
            // Another operator's Deployment is not taken over while that operator exists, nor one with a controller.
            let ours = |found: &Deployment| {
                let labels = found.labels();
                let of_csv = labels.get(OWNER_KIND_LABEL).is_some_and(|kind| kind == "ClusterServiceVersion");
                let owner = labels.get(OWNER_LABEL).map(String::as_str).filter(|_| of_csv);
                let is_free = found.owner_references().iter().all(|owner| owner.controller != Some(true));
                is_free
                    && owner
                        .is_none_or(|owner| owner == observed.name || chain.contains(owner) || !exists(owner))
            };
            let same = |found: &Value, wanted: &Value| contains(found, wanted);
            ensure(&api, object, ours, same).await.map_err(written)?;
        }
        self.remove_previous(observed, &api, &objects).await?;
        if let Some(group) = observed.group.clone() {
            self.ensure_permissions(observed, &group).await.map_err(fault)?;
            self.make_registrations(observed, &group, now).await.map_err(fault)?;
        }
        Ok(Installed { certificates })
    }

    /// The client that writes what an operator is made of: that of the group's ServiceAccount, if it has one.
    async fn installer(&self, observed: &Observed<'_>) -> Result<Client, InstallFault> {
        let account = observed.group.as_ref().and_then(|group| group.service_account.clone());
        let Some(name) = account else { return Ok(self.client.clone()) };
        let account = AccountRef { namespace: observed.namespace.clone(), name };
        self.accounts.client(&account).await.map_err(|error| fault(error.to_string()))
    }

    /// Removes the Deployments of the replaced version that this one does not have.
    async fn remove_previous(
        &self,
        observed: &Observed<'_>,
        api: &Api<Deployment>,
        objects: &[Deployment],
    ) -> Result<(), InstallFault> {
        let csvs = self.siblings(observed);
        let Some(previous) = Siblings::of(&csvs).replaced(observed.csv) else { return Ok(()) };
        let labels = owner_selector(&observed.namespace, &previous.name_any());
        let kept: Vec<String> = objects.iter().map(ResourceExt::name_any).collect();
        let is_over = |meta: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta| {
            !kept.contains(meta.name.as_ref().unwrap_or(&String::new()))
        };
        let deleted = delete_labelled(api, &labels, is_over, |_| api.clone()).await;
        deleted.map(|_| ()).map_err(|error| written(WriteError::Api(error)))
    }
}

/// A fault that is tried again.
pub(super) fn fault(message: String) -> InstallFault {
    InstallFault { message, is_unrecoverable: false }
}

/// A Deployment that is not written: without the permission, trying again is of no use.
fn written(error: WriteError) -> InstallFault {
    match error {
        WriteError::Foreign(text) => fault(text),
        WriteError::Api(error) => {
            let is_unrecoverable = matches!(&error, kube::Error::Api(status) if status.code == 403);
            let text = api_text(&error);
            let message = if is_unrecoverable { format!("install strategy failed: {text}") } else { text };
            InstallFault { message, is_unrecoverable }
        }
    }
}
