//! What reconciles of extensions use of the cluster and the program. `olm diff` plans with the same.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use kube::{
    Api, Client, ResourceExt,
    api::{ObjectMeta, Patch},
    runtime::reflector::Store,
};
use olm_api::{
    names::{EXTENSION_FIELD_MANAGER, OWNER_NAME_LABEL},
    v1::{ClusterExtension, ClusterObjectSet},
};
use olm_bundles::Bundles;
use olm_runtime::{Accounts, Clock, Discovery, Edits, Guarded, Newest, OwnWrites, bounded, patch_as};
use olm_semver::ReleaseSupport;
use serde_json::Value;

use crate::{
    events::Events,
    facts::{
        catalogs::Catalogs, content_secrets::ContentSecrets, custom_resources::CustomResources,
        installed::Installed, namespaces::Namespaces, platform::Platform, policies::Guard,
        settings::Settings, update_policies::UpdatePolicies,
    },
    webhook_certificates::Candidates,
};

/// What can be turned off.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Features {
    pub(crate) render: olm_render::Features,
    pub(crate) releases: ReleaseSupport,
    pub(crate) preflight_permissions: bool,
    pub(crate) certificates: Candidates,
}

/// What a reconcile uses beside its extension.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) accounts: Accounts,
    pub(crate) discovery: Discovery,
    pub(crate) catalogs: Catalogs,
    pub(crate) bundles: Bundles,
    pub(crate) events: Events,
    pub(crate) sets: Store<Guarded<ClusterObjectSet>>,
    pub(crate) extensions: Store<Guarded<ClusterExtension>>,
    /// How far the store of sets has got.
    pub(crate) newest_set: Newest,
    /// The revisions that were written for an extension.
    pub(crate) written_sets: Arc<OwnWrites>,
    pub(crate) contents: ContentSecrets,
    pub(crate) custom_resources: CustomResources,
    pub(crate) installed: Arc<Installed>,
    pub(crate) namespaces: Namespaces,
    pub(crate) platform: Arc<Platform>,
    pub(crate) features: Features,
    pub(crate) settings: Settings,
    pub(crate) guard: Guard,
    pub(crate) update_policies: UpdatePolicies,
    pub(crate) edits: Edits,
    pub(crate) system_namespace: String,
    pub(crate) clock: Arc<dyn Clock>,
    /// Nothing is written: what cannot be found out is left open in the plan instead of ending the reconcile.
    pub(crate) only_plans: bool,
    /// What a bundle requires must be installed before it.
    pub(crate) checks_dependencies: bool,
}

impl Context {
    /// Remembers that a revision of the extension was written: nothing is decided before the store has it.
    pub(crate) fn wrote_set(&self, extension: &ClusterExtension, set: &ObjectMeta) {
        let uid = extension.metadata.uid.as_deref().unwrap_or_default();
        self.written_sets.wrote_for(uid, set, self.clock.now());
    }

    /// Patches a revision of the extension.
    pub(crate) async fn patch_set(
        &self,
        extension: &ClusterExtension,
        name: &str,
        patch: Value,
    ) -> Result<ClusterObjectSet, kube::Error> {
        let api: Api<ClusterObjectSet> = Api::all(self.controller());
        let params = patch_as(EXTENSION_FIELD_MANAGER);
        let written = bounded(api.patch(name, &params, &Patch::Merge(patch))).await?;
        self.wrote_set(extension, &written.metadata);
        Ok(written)
    }

    /// How long to wait for the store when it does not have what was last written for the extension.
    pub(crate) fn unseen_sets(&self, extension: &ClusterExtension, now: Timestamp) -> Option<Duration> {
        let uid = extension.metadata.uid.as_deref().unwrap_or_default();
        self.written_sets.unseen(uid, self.newest_set.get(), now)
    }

    /// The object sets that carry the name of the extension, by name.
    ///
    /// # Errors
    /// One of them cannot be read.
    pub(crate) fn sets_of(&self, extension: &ClusterExtension) -> Result<Vec<ClusterObjectSet>, String> {
        let name = extension.name_any();
        let named = |set: &Arc<Guarded<ClusterObjectSet>>| set.labels().get(OWNER_NAME_LABEL) == Some(&name);
        let sets = self.sets.state().into_iter().filter(named).map(|set| match &set.0 {
            Ok(set) => Ok(set.clone()),
            Err(invalid) => Err(format!("ClusterObjectSet {:?} cannot be read: {invalid}", set.name_any())),
        });
        let mut sets: Vec<ClusterObjectSet> = sets.collect::<Result<_, _>>()?;
        sets.sort_unstable_by_key(ResourceExt::name_any);
        Ok(sets)
    }

    /// A client with the controller's own permissions.
    pub(crate) fn controller(&self) -> Client {
        self.accounts.controller()
    }
}
