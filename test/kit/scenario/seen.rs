//! What a test reads from the cluster.

use anyhow::{Context as _, Result};
use k8s_openapi::{
    ClusterResourceScope, NamespaceResourceScope,
    api::{
        apps::v1::Deployment,
        core::v1::{ConfigMap, Secret, ServiceAccount},
        events::v1::Event,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{Api, Resource, ResourceExt as _, api::ListParams};
use olm_api::{
    ConditionType,
    names::{BUNDLE_VERSION, OWNER_NAME_LABEL},
    v1::{ClusterCatalog, ClusterObjectSet, LifecycleState},
};

use super::Scenario;
use crate::{extension::condition_text, requests::Requests as _, wait};

impl Scenario<'_> {
    /// All object sets.
    pub fn sets(&self) -> Api<ClusterObjectSet> {
        self.all()
    }

    /// All catalogs.
    pub fn catalogs(&self) -> Api<ClusterCatalog> {
        self.all()
    }

    /// All CRDs.
    pub fn crds(&self) -> Api<CustomResourceDefinition> {
        self.all()
    }

    /// ConfigMaps in the test's namespace.
    pub fn maps(&self) -> Api<ConfigMap> {
        self.here()
    }

    /// Secrets in the test's namespace.
    pub fn secrets(&self) -> Api<Secret> {
        self.here()
    }

    /// ServiceAccounts in the test's namespace.
    pub fn accounts(&self) -> Api<ServiceAccount> {
        self.here()
    }

    /// All objects of a kind.
    pub fn all<K: Resource<Scope = ClusterResourceScope, DynamicType = ()>>(&self) -> Api<K> {
        Api::all(self.client.clone())
    }

    /// Objects of a kind in the test's namespace.
    pub fn here<K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), &self.name)
    }

    /// The active revisions of the test's extension, in ascending order.
    pub async fn revisions(&self) -> Result<Vec<ClusterObjectSet>> {
        let label = format!("{OWNER_NAME_LABEL}={}", self.name);
        let mut all = self.sets().list(&ListParams::default().labels(&label)).await?.items;
        all.retain(|set| set.spec.lifecycle_state == LifecycleState::Active);
        all.sort_by_key(|set| set.spec.revision);
        Ok(all)
    }

    /// Deletes the Deployment of a bundle version, which the revision has to create again. One of the version before may
    /// still be there.
    pub async fn repairs(&self, version: &str) -> Result<()> {
        let deployments: Api<Deployment> = self.here();
        let of_version =
            |found: &Deployment| found.annotations().get(BUNDLE_VERSION).is_some_and(|v| v == version);
        let deployment =
            deployments.all().await?.into_iter().find(of_version).context("no Deployment of the version")?;
        let (name, uid) = (deployment.name_any(), deployment.uid());
        deployments.remove(&name).await?;
        let found = async || Ok(deployments.get_opt(&name).await?.and_then(|found| found.uid()));
        wait::eventually("the Deployment to be back", found, |now| now.is_some() && *now != uid).await
    }

    /// `Status/Reason/Message` of a condition of an object set, or nothing.
    pub async fn set_condition(&self, set: &str, type_: ConditionType) -> Result<String> {
        let status = self.sets().get(set).await?.status.unwrap_or_default();
        Ok(condition_text(&status.conditions, type_))
    }

    /// Waits until a condition of an object set is as wanted.
    pub async fn set_reports(
        &self,
        set: &str,
        type_: ConditionType,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<()> {
        let found = async || self.set_condition(set, type_).await;
        wait::eventually(&format!("another {type_} of {set}"), found, |text| is_wanted(text)).await
    }

    /// Waits until an object set is rolled out.
    pub async fn set_succeeds(&self, set: &str) -> Result<()> {
        self.set_reports(set, ConditionType::Succeeded, |text| text.starts_with("True/")).await
    }

    /// Waits until these are the numbers of the active revisions.
    pub async fn active(&self, wanted: &[i64]) -> Result<()> {
        let found =
            async || Ok(self.revisions().await?.iter().map(|set| set.spec.revision).collect::<Vec<_>>());
        wait::eventually(&format!("the revisions {wanted:?}"), found, |found| found == wanted).await
    }

    /// Reason and note of the Events about an object of this kind and name.
    pub async fn events(&self, kind: &str, name: &str) -> Result<Vec<(String, String)>> {
        let events: Api<Event> = Api::all(self.client.clone());
        let about = events.all().await?.into_iter().filter(|event| {
            let regarding = event.regarding.clone().unwrap_or_default();
            regarding.kind.as_deref() == Some(kind) && regarding.name.as_deref() == Some(name)
        });
        Ok(about.map(|event| (event.reason.unwrap_or_default(), event.note.unwrap_or_default())).collect())
    }

    /// Waits for an Event of this reason about an object whose note contains a text.
    pub async fn event(&self, kind: &str, name: &str, reason: &str, text: &str) -> Result<()> {
        let found = async || self.events(kind, name).await;
        let is_wanted =
            |all: &Vec<(String, String)>| all.iter().any(|(r, note)| r == reason && note.contains(text));
        wait::eventually(&format!("an Event {reason} about {kind} {name}"), found, is_wanted).await
    }
}
