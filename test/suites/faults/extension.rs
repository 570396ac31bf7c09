//! What a person does with an extension, and what they wait for.

use anyhow::{Result, ensure};
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use olm_api::{
    ConditionType,
    names::{CATALOG_NAME_LABEL, PAUSED_ANNOTATION},
    v1::ClusterExtension,
};
use serde_json::{Value, json};

use crate::world::{ACCOUNT, PACKAGE};

/// An extension of the sample operator.
pub(crate) struct Extension {
    pub(crate) api: Api<ClusterExtension>,
    pub(crate) name: String,
}

impl Extension {
    pub(crate) fn new(client: &Client, name: &str) -> Self {
        Self { api: Api::all(client.clone()), name: name.to_owned() }
    }

    /// A spec that asks for the sample operator; `filter` is merged into `source.catalog`.
    pub(crate) fn spec(&self, filter: &Value) -> Value {
        let mut catalog = json!({
            "packageName": PACKAGE,
            "selector": {"matchLabels": {CATALOG_NAME_LABEL: self.name}},
        });
        if let (Some(catalog), Some(filter)) = (catalog.as_object_mut(), filter.as_object()) {
            catalog.extend(filter.clone());
        }
        json!({
            "namespace": self.name,
            "serviceAccount": {"name": ACCOUNT},
            "source": {"sourceType": "Catalog", "catalog": catalog},
        })
    }

    pub(crate) async fn create(&self, spec: &Value) -> Result<()> {
        self.create_with(spec, &Value::Null).await
    }

    /// The same, with annotations.
    pub(crate) async fn create_with(&self, spec: &Value, annotations: &Value) -> Result<()> {
        let extension: ClusterExtension = serde_json::from_value(json!({
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension",
            "metadata": {"name": self.name, "annotations": annotations}, "spec": spec,
        }))?;
        self.api.create(&PostParams::default(), &extension).await?;
        Ok(())
    }

    pub(crate) async fn patch(&self, patch: &Value) -> Result<()> {
        self.api.patch(&self.name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }

    pub(crate) async fn set_version(&self, version: &str) -> Result<()> {
        self.patch(&json!({"spec": {"source": {"catalog": {"version": version}}}})).await
    }

    pub(crate) async fn delete(&self) -> Result<()> {
        self.api.delete(&self.name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// One look whether the version is installed and everything is ready.
    pub(crate) async fn is_installed(&self, version: &str) -> Result<()> {
        let extension = self.api.get(&self.name).await?;
        let generation = extension.metadata.generation;
        let status = extension.status.unwrap_or_default();
        let installed = status.install.as_ref().map(|install| install.bundle.version.as_str());
        let told: Vec<String> = status
            .conditions
            .iter()
            .map(|c| format!("{}={}/{}: {}", c.type_, c.status, c.reason, c.message))
            .collect();
        let ready = status.conditions.find(ConditionType::Ready);
        ensure!(
            installed == Some(version)
                && ready.is_some_and(|c| c.observed_generation == generation)
                && status.conditions.is_true(ConditionType::Ready),
            "installed is {installed:?}, {told:#?}"
        );
        Ok(())
    }

    /// One look whether it is told as not paused.
    pub(crate) async fn goes_on(&self) -> Result<()> {
        let status = self.api.get(&self.name).await?.status.unwrap_or_default();
        let ready = status.conditions.find(ConditionType::Ready).map(|c| c.message.as_str());
        ensure!(ready.is_some_and(|text| !text.contains(PAUSED_ANNOTATION)), "{ready:?}");
        Ok(())
    }

    /// One look whether this deletion policy is in force.
    pub(crate) async fn keeps(&self, policy: &str) -> Result<()> {
        let status = self.api.get(&self.name).await?.status.unwrap_or_default();
        let told = status.conditions.find(ConditionType::DeletionPolicy);
        ensure!(
            told.is_some_and(|c| c.reason == policy)
                && status.conditions.is_true(ConditionType::DeletionPolicy),
            "{told:?}"
        );
        Ok(())
    }

    /// One look whether it is gone.
    pub(crate) async fn is_gone(&self) -> Result<()> {
        ensure!(self.api.get_opt(&self.name).await?.is_none(), "{} is still there", self.name);
        Ok(())
    }
}
