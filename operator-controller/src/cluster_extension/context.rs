//! What reconciles of extensions use of the cluster and the program. `olm diff` plans with the same.

use std::sync::Arc;

use catalogd::Clock;
use kube::{Client, core::DeserializeGuard, runtime::reflector::Store};
use olm_api::v1::ClusterObjectSet;
use olm_runtime::{Accounts, Discovery};
use olm_semver::ReleaseSupport;

use crate::{
    bundles::Bundles,
    events::Events,
    facts::{
        catalogs::Catalogs, installed::Installed, platform::Platform, policies::Guard, settings::Settings,
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
    pub(crate) sets: Store<DeserializeGuard<ClusterObjectSet>>,
    pub(crate) installed: Arc<Installed>,
    pub(crate) platform: Arc<Platform>,
    pub(crate) features: Features,
    pub(crate) settings: Settings,
    pub(crate) guard: Guard,
    pub(crate) system_namespace: String,
    pub(crate) clock: Arc<dyn Clock>,
    /// Nothing is written: what cannot be found out is left open in the plan instead of ending the reconcile.
    pub(crate) only_plans: bool,
}

impl Context {
    /// A client with the controller's own permissions.
    pub(crate) fn controller(&self) -> Client {
        self.accounts.controller()
    }
}
