//! Requests of tests, each in one line.

use std::fmt::Debug;

use anyhow::Result;
use kube::{
    Api,
    api::{ApiResource, DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    wait::{eventually, eventually_within},
    world::COLLECTED,
};

/// The resource of a kind.
pub fn resource(api_version: &str, kind: &str, plural: &str) -> ApiResource {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    }
}

/// What tests ask of the API server, with the parameters that they do not care about.
#[expect(async_fn_in_trait, reason = "called for types that are known, whose futures are Send")]
pub trait Requests<K> {
    /// Creates an object, given as JSON or as its type.
    async fn make(&self, object: impl Serialize) -> Result<K>;
    /// Merges a patch into an object.
    async fn merge(&self, name: &str, patch: impl Serialize) -> Result<K>;
    /// Requests the deletion of an object.
    async fn remove(&self, name: &str) -> Result<()>;
    /// Lists all objects.
    async fn all(&self) -> Result<Vec<K>>;
    /// Lists the objects that a selector of labels chooses.
    async fn labelled(&self, selector: &str) -> Result<Vec<K>>;
    /// Waits until an object exists.
    async fn appears(&self, name: &str) -> Result<()>;
    /// Waits until an object is gone.
    async fn gone(&self, name: &str) -> Result<()>;
}

impl<K: Clone + Debug + DeserializeOwned + Serialize> Requests<K> for Api<K> {
    async fn make(&self, object: impl Serialize) -> Result<K> {
        let object = serde_json::from_value(serde_json::to_value(object)?)?;
        Ok(self.create(&PostParams::default(), &object).await?)
    }

    async fn merge(&self, name: &str, patch: impl Serialize) -> Result<K> {
        let patch = Patch::Merge(serde_json::to_value(patch)?);
        Ok(self.patch(name, &PatchParams::default(), &patch).await?)
    }

    async fn remove(&self, name: &str) -> Result<()> {
        self.delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    async fn all(&self) -> Result<Vec<K>> {
        Ok(self.list(&ListParams::default()).await?.items)
    }

    async fn labelled(&self, selector: &str) -> Result<Vec<K>> {
        Ok(self.list(&ListParams::default().labels(selector)).await?.items)
    }

    async fn appears(&self, name: &str) -> Result<()> {
        eventually(&format!("{name} to appear"), async || Ok(self.get_opt(name).await?), Option::is_some)
            .await
    }

    async fn gone(&self, name: &str) -> Result<()> {
        let found = async || Ok(self.get_opt(name).await?);
        // The cluster's own collector may be the one that removes it.
        eventually_within(COLLECTED, &format!("{name} to be gone"), found, Option::is_none).await
    }
}
