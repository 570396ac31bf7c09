//! What reconciles of revisions use of the cluster and the program.

use std::{sync::Arc, time::Duration};

use kube::{Api, Client, ResourceExt, api::Patch, runtime::reflector::Store};
use olm_api::{names::PROGRAM_FIELD_MANAGER, v1::ClusterObjectSet};
use olm_runtime::{
    Accounts, Clock, Discovery, Edits, Guarded, ObjectWriter, WatchManager, api_text, if_exists, patch_as,
};
use serde_json::{Value, json};

use crate::{
    cluster_object_set::checks::Checks,
    events::Events,
    facts::{content_secrets::ContentSecrets, policies::Guard, settings::Settings},
    metrics::DriftRepairs,
    webhook_certificates,
};

/// What a reconcile uses beside its revision.
pub(crate) struct Context {
    pub(crate) accounts: Accounts,
    pub(crate) discovery: Discovery,
    pub(crate) watches: WatchManager,
    pub(crate) sets: Store<Guarded<ClusterObjectSet>>,
    pub(crate) contents: ContentSecrets,
    pub(crate) events: Events,
    /// Names the account of revisions that name none.
    pub(crate) settings: Settings,
    pub(crate) edits: Edits,
    pub(crate) guard: Guard,
    pub(crate) repairs: DriftRepairs,
    /// Whether permissions are checked before objects are written that could not be checked with the others.
    pub(crate) preflight_permissions: bool,
    /// Life of the webhook certificates that are made here.
    pub(crate) certificate_lifetime: Duration,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) checks: Checks,
    pub(crate) certificates: webhook_certificates::Memory,
    pub(crate) objects: ObjectWriter<ClusterObjectSet>,
}

impl Context {
    /// A client with the controller's own permissions.
    pub(crate) fn controller(&self) -> Client {
        self.accounts.controller()
    }

    pub(crate) fn api(&self) -> Api<ClusterObjectSet> {
        Api::all(self.controller())
    }

    /// Records something on a revision, unless it was changed since it was read; the event of that causes the next
    /// reconcile.
    ///
    /// # Errors
    /// The API server's answer.
    pub(crate) async fn annotate(&self, set: &ClusterObjectSet, annotations: Value) -> Result<(), String> {
        let patch = json!({"metadata": {
            "uid": set.uid(), "resourceVersion": set.resource_version(), "annotations": annotations,
        }});
        let params = patch_as(PROGRAM_FIELD_MANAGER);
        let patch = Patch::Merge(&patch);
        let written = if_exists(self.api().patch_metadata(&set.name_any(), &params, &patch)).await;
        written.map_err(|e| api_text(&e))?.iter().for_each(|written| self.objects.wrote(written));
        Ok(())
    }

    /// Forgets what is known of a revision of which nothing is left.
    pub(crate) fn forget(&self, set: &ClusterObjectSet) {
        let uid = set.uid().unwrap_or_default();
        self.watches.release(&uid);
        self.checks.forget(&uid);
        self.objects.forget(&uid);
        self.contents.forget(&set.name_any());
    }
}
