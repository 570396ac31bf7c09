//! The writes of one object, as the revision's ServiceAccount.

use kube::{
    Api,
    api::{DynamicObject, Patch, PatchParams},
};
use olm_api::names::{OBJECT_FIELD_MANAGER, WEBHOOK_CERTIFICATES_FIELD_MANAGER};
use olm_object::ObjectKey;
use olm_runtime::{bounded, patch_as, post_as};
use serde_json::Value;

use super::executor::value;
use crate::webhook_certificates::Injection;

/// An object that is brought to its desired state.
pub(super) struct Target<'a> {
    pub(super) api: Api<DynamicObject>,
    pub(super) key: &'a ObjectKey,
    pub(super) desired: &'a Value,
    pub(super) injection: Option<&'a Injection>,
}

impl Target<'_> {
    /// Creates it; its webhooks have their CA bundle from the first moment.
    pub(super) async fn create(&self) -> Result<Value, kube::Error> {
        let filled = self.injection.map(|injection| injection.fill(self.desired));
        let filled = filled.unwrap_or_else(|| self.desired.clone());
        let object: DynamicObject = serde_json::from_value(filled).map_err(kube::Error::SerdeError)?;
        value(&bounded(self.api.create(&post_as(OBJECT_FIELD_MANAGER), &object)).await?)
    }

    /// Applies the version that was read, or that the patch has made of it. Revisions share a field manager: without the
    /// version, an older one that has not seen the newer one take the object over would take it back.
    pub(super) async fn apply(&self, metadata_patch: Vec<Value>, live: Value) -> Result<Value, kube::Error> {
        let current = if !metadata_patch.is_empty() {
            let patch =
                serde_json::from_value(Value::Array(metadata_patch)).map_err(kube::Error::SerdeError)?;
            let params = patch_as(OBJECT_FIELD_MANAGER);
            value(&bounded(self.api.patch(&self.key.name, &params, &Patch::Json::<()>(patch))).await?)?
        } else if self.injection.is_some_and(|injection| injection.fits(&live)) {
            // Kept by its own manager first, so that this apply does not take it away for a moment.
            self.inject(live).await?
        } else {
            live
        };
        let mut desired = self.desired.clone();
        desired["metadata"]["resourceVersion"] = current["metadata"]["resourceVersion"].clone();
        let params = PatchParams::apply(OBJECT_FIELD_MANAGER).force();
        value(&bounded(self.api.patch(&self.key.name, &params, &Patch::Apply(desired))).await?)
    }

    /// Gives its webhooks their CA bundle, under a field manager of its own.
    pub(super) async fn inject(&self, current: Value) -> Result<Value, kube::Error> {
        let Some(injection) = self.injection.filter(|injection| !injection.is_done(&current)) else {
            return Ok(current);
        };
        let params = PatchParams::apply(WEBHOOK_CERTIFICATES_FIELD_MANAGER).force();
        let patch = Patch::Apply(injection.patch(self.desired));
        value(&bounded(self.api.patch(&self.key.name, &params, &patch)).await?)
    }
}
