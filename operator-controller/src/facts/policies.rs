//! Compares the cluster's policies with ours, at the start, when one of them changes, and every hour.
//!
//! Until they have been compared nothing is known of them, which is another answer than that they are in force.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::StreamExt as _;
use k8s_openapi::{
    Resource as _,
    api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding},
};
use kube::{Api, Client, Resource, api::PartialObjectMeta, runtime::watcher::Event};
use olm_runtime::{Backoff, BackoffLimits, Chance, api_text, bounded};
use parking_lot::RwLock;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, gauge::Gauge},
    registry::Registry,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    Known,
    watched::{Changes, add},
};
use crate::{
    admission::{
        DELETION_GUARD, DELETION_POLICY, EXTENSION_ANNOTATIONS, EXTENSION_RECORDS, NAMES, OBJECT_SET_OWNER,
        objects,
    },
    events::Events,
};

/// Between two comparisons when nothing happens.
const INTERVAL: Duration = Duration::from_hours(1);
/// Waits between two attempts to compare, while that fails.
const RETRY: BackoffLimits = BackoffLimits { first: Duration::from_secs(1), longest: Duration::from_mins(1) };
/// How long it may take to compare before that is reported.
pub(crate) const MOMENT: Duration = Duration::from_secs(30);
/// Changes that come together, as when a manifest is applied, are looked at once.
const GATHER: Duration = Duration::from_millis(50);

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PolicyLabel {
    policy: String,
}

/// Whether the policies are in force that guard accounts and revisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Enforcement {
    /// They have not been compared since they may have changed.
    Unknown,
    /// They are as the manifests have them.
    InForce,
    /// One of them is absent or another one.
    Broken,
}

impl Enforcement {
    /// Why something waits while that is not known.
    pub(crate) const UNKNOWN: &str =
        "the admission policies that guard service accounts have not been compared with the manifests yet";
}

/// The result of the last comparison.
#[derive(Debug)]
struct Comparison {
    /// What was found wrong when they were compared last.
    missing: BTreeMap<&'static str, String>,
    /// Since when that may be out of date, and why it could not be looked at again.
    doubt: Option<(Instant, String)>,
}

impl Comparison {
    /// Why nothing has been known for longer than a moment.
    fn unknown(&self) -> Option<&str> {
        self.doubt.as_ref().filter(|(since, _)| since.elapsed() >= MOMENT).map(|(_, why)| why.as_str())
    }
}

/// Whether the admission policies are in force; shared by those who report it.
#[derive(Debug, Clone)]
pub(crate) struct Guard {
    known: Arc<RwLock<Comparison>>,
    compared: Known<()>,
    in_force: Family<PolicyLabel, Gauge>,
}

impl Guard {
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let in_force = Family::default();
        registry.register(
            "olm_admission_policy_in_force",
            "1 if the admission policy of this name and its binding are as in the manifests",
            in_force.clone(),
        );
        let known =
            Comparison { missing: BTreeMap::new(), doubt: Some((Instant::now(), NOT_YET.to_owned())) };
        Self { known: Arc::new(RwLock::new(known)), compared: Known::default(), in_force }
    }

    /// Waits until the policies have been compared once.
    pub(crate) async fn ready(&self) {
        self.compared.ready().await;
    }

    /// Whether the policies that guard accounts and revisions are in force.
    pub(crate) fn enforcement(&self) -> Enforcement {
        let known = self.known.read();
        if known.doubt.is_some() {
            Enforcement::Unknown
        } else if known.missing.keys().any(|name| guards_accounts(name)) {
            Enforcement::Broken
        } else {
            Enforcement::InForce
        }
    }

    /// What is wrong with the policies, in a sentence for `Ready`.
    pub(crate) fn complaint(&self) -> Option<String> {
        let known = self.known.read();
        if let Some(why) = known.unknown() {
            return Some(format!(
                "Cannot tell whether the admission policies are in force: {why}. Without them, {ACCOUNTS_ARE_OPEN}."
            ));
        }
        let others =
            || known.missing.iter().filter(|(name, _)| ![DELETION_POLICY, DELETION_GUARD].contains(*name));
        let found: Vec<&str> = others().map(|(_, text)| text.as_str()).collect();
        let of_revisions = [OBJECT_SET_OWNER, EXTENSION_RECORDS];
        let harm = if others().any(|(name, _)| guards_accounts(name) && !of_revisions.contains(name)) {
            ACCOUNTS_ARE_OPEN
        } else if others().any(|(name, _)| of_revisions.contains(name)) {
            "everyone who may write ClusterObjectSets can pass them off as revisions of any ClusterExtension"
        } else {
            "annotations of ClusterExtensions are not checked before they are stored"
        };
        (!found.is_empty())
            .then(|| format!("{}: until the manifests are applied again, {harm}.", found.join("; ")))
    }

    /// What is wrong with the policy that refuses deletions, in a sentence for `Ready` of extensions that have a guard.
    pub(crate) fn complaint_about_guard(&self) -> Option<String> {
        self.about(DELETION_GUARD, "the deletion guard does not keep the extension from being deleted")
    }

    /// What is wrong with the policy that holds deletions, in a sentence for `Ready` of extensions that have a
    /// deletion policy.
    pub(crate) fn complaint_about_deletion(&self) -> Option<String> {
        self.about(DELETION_POLICY, "an extension can be deleted before its deletion policy is in force")
    }

    /// What is wrong with a policy, and what follows.
    fn about(&self, policy: &str, harm: &str) -> Option<String> {
        let known = self.known.read();
        let found = known.missing.get(policy)?;
        Some(format!("{found}: until the manifests are applied again, {harm}."))
    }

    /// Whether nothing has been known for longer than a moment.
    fn is_unknown(&self) -> bool {
        self.known.read().unknown().is_some()
    }

    /// Takes note that a policy changed, or that they could not be compared.
    fn doubt(&self, why: &str) {
        let mut known = self.known.write();
        let since = known.doubt.as_ref().map_or_else(Instant::now, |(since, _)| *since);
        known.doubt = Some((since, why.to_owned()));
    }

    /// Takes over what was found; returns what is newly missing, and whether anything changed.
    fn set(&self, found: BTreeMap<&'static str, String>) -> (Vec<(&'static str, String)>, bool) {
        for name in NAMES {
            let label = PolicyLabel { policy: name.to_owned() };
            self.in_force.get_or_create(&label).set(i64::from(!found.contains_key(name)));
        }
        let mut known = self.known.write();
        let fresh = found.iter().filter(|(name, text)| known.missing.get(*name) != Some(*text));
        let fresh = fresh.map(|(name, text)| (*name, text.clone())).collect();
        let changed = known.missing != found || known.unknown().is_some();
        *known = Comparison { missing: found, doubt: None };
        drop(known);
        self.compared.set(());
        (fresh, changed)
    }
}

const NOT_YET: &str = "they have not been compared with the manifests yet";
/// What follows when the policies that guard accounts are not in force.
const ACCOUNTS_ARE_OPEN: &str =
    "everyone who may write ClusterExtensions or ClusterObjectSets can use any ServiceAccount";

/// Whether accounts are open without the policy of this name.
fn guards_accounts(name: &str) -> bool {
    ![DELETION_POLICY, DELETION_GUARD, EXTENSION_ANNOTATIONS].contains(&name)
}

/// Keeps `guard` up to date until `stop`; `changed` is called whenever the answer is another one.
pub(crate) async fn run(
    client: Client,
    chance: &Chance,
    system_namespace: &str,
    guard: Guard,
    events: Events,
    changed: impl Fn(),
    stop: CancellationToken,
) {
    let mut sightings = Changes::new();
    add(&mut sightings, &client, chance, sightings_of::<ValidatingAdmissionPolicy>());
    add(&mut sightings, &client, chance, sightings_of::<ValidatingAdmissionPolicyBinding>());
    let backoff = Backoff::new(RETRY);
    let mut reported = false;
    loop {
        let (wait, versions) = match compare(&client, system_namespace).await {
            Ok(Compared { missing, versions }) => {
                backoff.succeeded(&());
                reported = false;
                let (fresh, differs) = guard.set(missing);
                for (name, text) in fresh {
                    tracing::error!(policy = name, "{text}");
                    events.policy(name, &text).await;
                }
                if differs {
                    changed();
                }
                (INTERVAL, Some(versions))
            }
            Err(error) => {
                let wait = backoff.failed((), chance.fraction());
                tracing::warn!(
                    error,
                    retry_in_seconds = wait.as_secs_f32(),
                    "admission policies could not be compared"
                );
                guard.doubt(&error);
                if !std::mem::replace(&mut reported, guard.is_unknown()) && reported {
                    changed();
                }
                (wait, None)
            }
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(wait) => {}
            () = change(&mut sightings, versions.as_ref()) => {
                guard.doubt("a policy has just changed");
                tokio::time::sleep(GATHER).await;
            }
        }
    }
}

/// The kinds that are compared.
const KINDS: [&str; 2] = [ValidatingAdmissionPolicy::KIND, ValidatingAdmissionPolicyBinding::KIND];

/// The resourceVersions of our policies or bindings that exist, by name.
type Versions = BTreeMap<String, String>;

/// What a watch shows of the policies or of the bindings.
enum Sighting {
    /// All of them were listed.
    Listed(&'static str, Versions),
    /// One of ours has changed.
    Changed,
}

/// Reads the events of a watch of a kind.
fn sightings_of<K: k8s_openapi::Resource>()
-> impl FnMut(Event<PartialObjectMeta<K>>) -> Option<Sighting> + Send + 'static {
    let mut listed = Versions::new();
    let ours = |object: PartialObjectMeta<K>| {
        let name = object.metadata.name.filter(|name| NAMES.contains(&name.as_str()))?;
        Some((name, object.metadata.resource_version.unwrap_or_default()))
    };
    move |event| match event {
        Event::Init => {
            listed.clear();
            None
        }
        Event::InitApply(object) => {
            listed.extend(ours(object));
            None
        }
        Event::InitDone => Some(Sighting::Listed(K::KIND, std::mem::take(&mut listed))),
        Event::Apply(object) | Event::Delete(object) => ours(object).map(|_| Sighting::Changed),
    }
}

/// Waits until the watches show others than those that were `compared`: also what changed before a watch began, or
/// while it was interrupted, which only its list shows.
async fn change(sightings: &mut Changes<Sighting>, compared: Option<&BTreeMap<&'static str, Versions>>) {
    while let Some(sighting) = sightings.next().await {
        match sighting {
            Sighting::Changed => return,
            // Without a comparison the next one is due soon anyway.
            Sighting::Listed(kind, versions) => {
                if compared.is_some_and(|compared| compared.get(kind) != Some(&versions)) {
                    return;
                }
            }
        }
    }
    std::future::pending::<()>().await;
}

/// What a comparison has found.
struct Compared {
    /// The policies that are not as they should be, and what is wrong with each.
    missing: BTreeMap<&'static str, String>,
    /// What was compared, of each kind.
    versions: BTreeMap<&'static str, Versions>,
}

/// The policies that are not as they should be, and what is wrong with each.
///
/// # Errors
/// The cluster's could not be read.
pub async fn missing(
    client: &Client,
    system_namespace: &str,
) -> Result<BTreeMap<&'static str, String>, String> {
    compare(client, system_namespace).await.map(|compared| compared.missing)
}

/// Compares the cluster's policies with those of the manifests.
async fn compare(client: &Client, system_namespace: &str) -> Result<Compared, String> {
    let wanted = objects(system_namespace).map_err(|e| e.to_string())?;
    let spec = |kind: &str, name: &str| {
        let object = wanted.iter().find(|o| o["kind"] == kind && o["metadata"]["name"] == name);
        object.map_or(Value::Null, |object| object["spec"].clone())
    };
    let mut missing = BTreeMap::new();
    let mut versions: BTreeMap<_, _> = KINDS.map(|kind| (kind, Versions::new())).into();
    for name in NAMES {
        let policy = present::<ValidatingAdmissionPolicy>(client, name).await?;
        let binding = present::<ValidatingAdmissionPolicyBinding>(client, name).await?;
        for (kind, present) in KINDS.into_iter().zip([policy, binding]) {
            let version = present.as_ref().and_then(|object| object["metadata"]["resourceVersion"].as_str());
            versions.entry(kind).or_default().extend(version.map(|v| (name.to_owned(), v.to_owned())));
            let wrong = match present {
                None => format!("{kind} {name:?} is absent"),
                Some(object) if object["spec"] != spec(kind, name) => {
                    format!("{kind} {name:?} differs from the manifests")
                }
                Some(_) => continue,
            };
            missing.entry(name).or_insert(wrong);
        }
    }
    Ok(Compared { missing, versions })
}

async fn present<K>(client: &Client, name: &str) -> Result<Option<Value>, String>
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::ClusterResourceScope>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned
        + Serialize,
{
    let api: Api<K> = Api::all(client.clone());
    let object = bounded(api.get_opt(name)).await.map_err(|e| api_text(&e))?;
    object.map(serde_json::to_value).transpose().map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests;
