//! What is known of a revision before anything is decided: its ServiceAccount and its content.

pub(crate) mod account;
pub(crate) mod content;
pub(crate) mod siblings;

use kube::{Client, ResourceExt};
use olm_api::v1::{ClusterObjectSet, ObservedPhase};
use olm_objectset::invalid_selector;
use olm_runtime::AccountRef;
use serde_json::Value;

use crate::{
    cluster_object_set::{Context, report::Outcome},
    deletion_policy::revision as deletion_policy,
    interest::{Interest, Wanted},
};
use content::{Item, LoadedPhase};

/// A revision that can be worked on.
pub(crate) struct Observed<'a> {
    pub(crate) set: &'a ClusterObjectSet,
    /// Whom it acts as.
    pub(crate) account: AccountRef,
    pub(crate) client: Client,
    pub(crate) phases: Vec<LoadedPhase>,
    /// Digests of the phases.
    pub(crate) content: Vec<ObservedPhase>,
    /// What causes another reconcile.
    pub(crate) wanted: &'a Wanted,
}

impl Observed<'_> {
    pub(crate) fn items(&self) -> impl Iterator<Item = &Item> {
        self.phases.iter().flat_map(|phase| &phase.items)
    }

    /// The objects that say which certificates webhooks serve with, and who is to trust them.
    pub(crate) fn objects_of_webhooks(&self) -> impl Iterator<Item = &Value> {
        let serves = |item: &&Item| item.known.needs_ca_bundle || item.known.key.kind == "Deployment";
        self.items().filter(serves).map(Item::object)
    }
}

/// What is known of a revision that may be worked on; binds it to its ServiceAccount.
///
/// # Errors
/// How a reconcile ends that cannot go on.
pub(crate) async fn observe<'a>(
    cx: &Context,
    set: &'a ClusterObjectSet,
    wanted: &'a Wanted,
) -> Result<Observed<'a>, Outcome> {
    if account::is_before_takeover(cx, set).await.map_err(Outcome::Unprepared)? {
        return Err(Outcome::AwaitsTakeover);
    }
    if account::give_default(cx, set).await.map_err(Outcome::Unprepared)? {
        return Err(Outcome::Recorded);
    }
    if deletion_policy::contradicts(set) {
        return Err(Outcome::PolicyTakenBack);
    }
    if account::bind(cx, set).await.map_err(Outcome::Unprepared)? {
        return Err(Outcome::Recorded);
    }
    let account = account::account(cx, set)?;
    wanted.add([Interest::ServiceAccount(account.clone())]);
    let client = account::client(cx, set, &account).await?;
    let phases = content::load(set, &cx.contents, Some(&client)).await?;
    if let Some(text) = invalid_selector(&set.spec.progression_probes) {
        return Err(Outcome::Retrying(format!("invalid label selector in progressionProbe ({text})")));
    }
    let content = cx.checks.content(&set.uid().unwrap_or_default(), &phases);
    content::verify(set, &content)?;
    Ok(Observed { set, account, client, phases, content, wanted })
}
