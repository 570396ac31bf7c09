//! The ServiceAccount of a revision, by UID: recorded on the revision at first use, or by its extension.
//!
//! Admission asked for the right to use the ServiceAccount that had the name then. One that was deleted and created again
//! may have other permissions and other owners, so a revision acts only as the one it is bound to.

use kube::{Api, Client, ResourceExt, api::Patch};
use olm_api::{
    names::{
        IDENTITY_ANNOTATION, PROGRAM_FIELD_MANAGER, SERVICE_ACCOUNT_NAME_ANNOTATION,
        SERVICE_ACCOUNT_NAMESPACE_ANNOTATION, SERVICE_ACCOUNT_UID_ANNOTATION,
    },
    ownership::revision_of,
    v1::ClusterObjectSet,
};
use olm_runtime::{AccountRef, ClientError, api_text, bounded, patch_as};
use serde_json::json;

use crate::cluster_object_set::reconcile::ObjectSets;
use crate::cluster_object_set::status::Outcome;

impl ObjectSets {
    /// Binds a revision that names its ServiceAccount, and is not bound yet, to the one that has the name now. `true` when
    /// that was written, whose event brings the next reconcile.
    pub(crate) async fn bind(&self, set: &ClusterObjectSet) -> Result<bool, String> {
        let named = |key: &str| set.annotations().get(key).cloned();
        let (Some(name), Some(namespace), None) = (
            named(SERVICE_ACCOUNT_NAME_ANNOTATION),
            named(SERVICE_ACCOUNT_NAMESPACE_ANNOTATION),
            named(SERVICE_ACCOUNT_UID_ANNOTATION),
        ) else {
            return Ok(false);
        };
        // Without a token nothing is done as the ServiceAccount either; the reconcile says why.
        let Ok(uid) = self.ports.accounts.uid(&AccountRef { namespace, name }).await else {
            return Ok(false);
        };
        let patch = json!({"metadata": {
            "resourceVersion": set.resource_version(),
            "annotations": {SERVICE_ACCOUNT_UID_ANNOTATION: uid},
        }});
        let params = patch_as(PROGRAM_FIELD_MANAGER);
        let api: Api<ClusterObjectSet> = Api::all(self.ports.accounts.controller());
        match bounded(api.patch_metadata(&set.name_any(), &params, &Patch::Merge(&patch))).await {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(true),
            Err(error) => Err(format!("recording the service account: {}", api_text(&error))),
        }
    }

    /// A client that acts as `account`, and as no other one of that name than the revision is bound to.
    pub(crate) async fn client(
        &self,
        set: &ClusterObjectSet,
        account: &AccountRef,
    ) -> Result<Client, Outcome> {
        let accounts = &self.ports.accounts;
        let client = match set.annotations().get(SERVICE_ACCOUNT_UID_ANNOTATION) {
            Some(uid) => accounts.bound_client(account, uid).await,
            None => accounts.client(account).await,
        };
        client.map_err(|error| match error {
            ClientError::AccountReplaced { .. } => Outcome::Blocked(match revision_of(&set.metadata) {
                Some(owner) => format!(
                    "{error}: someone who may use the service account can allow it by removing the annotation {IDENTITY_ANNOTATION} of ClusterExtension {:?}",
                    owner.name
                ),
                None => format!(
                    "{error}: someone who may use the service account can allow it by removing the annotation {SERVICE_ACCOUNT_UID_ANNOTATION}"
                ),
            }),
            error => Outcome::without_account(&error),
        })
    }
}
