//! One pass over a ClusterExtension: observe, decide, act, report.

use std::sync::Arc;

use jiff::Timestamp;
use kube::{Api, ResourceExt, api::PostParams, core::DeserializeGuard, runtime::reflector::Store};
use olm_api::{
    names::{CLEANUP_CONTENT_MANAGER_CACHE_FINALIZER, CLEANUP_UNPACK_CACHE_FINALIZER},
    v1::{ClusterExtension, ClusterExtensionStatus, ClusterObjectSet},
};
use olm_runtime::{Accounts, Discovery, Next, bounded};

use super::{
    progress::{Progress, StepError},
    status::status,
    steps::{Features, Steps},
    validate,
};
use crate::{
    access::Waiting,
    admission::Guard,
    bundles::Bundles,
    catalogs::Catalogs,
    controllers::api_text,
    dependents::Dependents,
    events::Events,
    finalizers,
    kinds::{Awaited, Waiter},
    platform::Platform,
    settings::Settings,
};

/// The original's finalizers. Ours need no clean-up, but objects it left behind carry them, and tools expect them.
const FINALIZERS: [&str; 2] = [CLEANUP_UNPACK_CACHE_FINALIZER, CLEANUP_CONTENT_MANAGER_CACHE_FINALIZER];

/// What the controller needs of the world.
#[derive(Clone)]
pub(crate) struct Ports {
    pub(crate) accounts: Accounts,
    pub(crate) discovery: Discovery,
    pub(crate) catalogs: Catalogs,
    pub(crate) bundles: Bundles,
    pub(crate) events: Events,
    pub(crate) waiting: Arc<Waiting>,
    pub(crate) sets: Store<DeserializeGuard<ClusterObjectSet>>,
    pub(crate) dependents: Arc<Dependents>,
    /// Who waits for kinds that the cluster does not serve.
    pub(crate) kinds: Arc<Awaited>,
    pub(crate) platform: Arc<Platform>,
    pub(crate) features: Features,
    pub(crate) settings: Settings,
    pub(crate) guard: Guard,
    pub(crate) system_namespace: String,
}

/// The controller of ClusterExtensions.
pub(crate) struct Extensions {
    ports: Ports,
}

impl Extensions {
    pub(crate) fn new(ports: Ports) -> Self {
        Self { ports }
    }

    pub(crate) async fn reconcile(&self, extension: Arc<ClusterExtension>) -> Next {
        let name = extension.name_any();
        let api: Api<ClusterExtension> = Api::all(self.ports.accounts.controller());
        if extension.metadata.deletion_timestamp.is_some() {
            self.ports.waiting.extension(&name, false);
            self.ports.dependents.needs_nothing(&name);
            self.ports.platform.forget(&name);
            self.ports.kinds.forget(&Waiter::Extension(name));
            // Objects go by garbage collection, through the revisions' owner references.
            return finalizers::set(&api, &*extension, &FINALIZERS, false)
                .await
                .map_or_else(Next::Retry, |()| Next::Await);
        }
        if !FINALIZERS.iter().all(|f| extension.finalizers().iter().any(|p| p == f)) {
            // The update's event brings the pass.
            return finalizers::set(&api, &*extension, &FINALIZERS, true)
                .await
                .map_or_else(Next::Retry, |()| Next::Await);
        }
        let mut progress = Progress { unguarded: self.ports.guard.complaint(), ..Progress::default() };
        let now = Timestamp::now();
        let result = self.pass(&extension, &mut progress, now).await;
        self.ports.waiting.extension(&name, result.is_err());
        let after = status(&extension, &progress, result.as_ref().copied(), now);
        if let Err(error) = self.write_status(&api, &extension, after, &progress).await {
            return Next::Retry(format!("error updating status: {error}"));
        }
        match result {
            Ok(()) => Next::Await,
            Err(error) if error.is_terminal() => Next::Blocked(error.to_string()),
            Err(error) if progress.look_again.is_some() => {
                tracing::info!(extension = name, %error, "waiting");
                Next::After(progress.look_again.unwrap_or_default())
            }
            Err(error) => Next::Retry(error.to_string()),
        }
    }

    async fn pass(
        &self,
        extension: &ClusterExtension,
        progress: &mut Progress,
        now: Timestamp,
    ) -> Result<(), StepError> {
        let ports = &self.ports;
        let account =
            validate::check(extension, &ports.accounts, ports.settings.default_account().as_ref()).await?;
        let steps = Steps {
            extension,
            accounts: &ports.accounts,
            discovery: &ports.discovery,
            catalogs: &ports.catalogs,
            bundles: &ports.bundles,
            sets: &ports.sets,
            dependents: &ports.dependents,
            kinds: &ports.kinds,
            platform: &ports.platform,
            features: ports.features,
            system_namespace: &ports.system_namespace,
            now,
            only_plans: false,
        };
        steps.run(&account, progress).await
    }

    async fn write_status(
        &self,
        api: &Api<ClusterExtension>,
        extension: &ClusterExtension,
        after: ClusterExtensionStatus,
        progress: &Progress,
    ) -> Result<(), String> {
        let before = extension.status.clone().unwrap_or_default();
        if after == before {
            if progress.crossed.is_some() {
                self.ports.events.extension(extension, &before, &after, progress).await;
            }
            return Ok(());
        }
        let mut updated = extension.clone();
        updated.status = Some(after.clone());
        match bounded(api.replace_status(&extension.name_any(), &PostParams::default(), &updated)).await {
            Ok(_) => {
                self.ports.events.extension(extension, &before, &after, progress).await;
                Ok(())
            }
            // Somebody wrote in between: its event brings a new pass.
            Err(kube::Error::Api(status)) if status.is_conflict() || status.is_not_found() => Ok(()),
            Err(error) => Err(api_text(&error)),
        }
    }
}
