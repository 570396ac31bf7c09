//! Compares the cluster's policies with ours, whenever their watches show others.
//!
//! Until they have been compared nothing is known of them, which is another answer than that they are in force.

use std::{collections::BTreeMap, fmt::Debug, future::ready, sync::Arc, time::Duration};

use futures::{StreamExt as _, stream::BoxStream};
use k8s_openapi::{
    Resource as _,
    api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding},
};
use kube::{Api, Client, Resource, ResourceExt as _, runtime::watcher};
use olm_object::text;
use olm_runtime::{Chance, api_text, bounded};
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

use super::{Known, watched::Entries};
use crate::{
    admission::{
        DELETION_GUARD, DELETION_POLICY, EXTENSION_ANNOTATIONS, EXTENSION_RECORDS, NAMES, OBJECT_SET_OWNER,
        objects,
    },
    events::Events,
};

/// How long it may take to compare before that is reported.
pub(crate) const MOMENT: Duration = Duration::from_secs(30);

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
    /// Since when nothing is known, and why.
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

    /// Takes note that they could not be compared.
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
    let policies = specs_of::<ValidatingAdmissionPolicy>(&client, chance);
    let bindings = specs_of::<ValidatingAdmissionPolicyBinding>(&client, chance);
    let mut shown = futures::stream::select(policies, bindings);
    let mut live = BTreeMap::new();
    let mut reported = false;
    while let Some(Some(Shown { kind, specs })) = stop.run_until_cancelled(shown.next()).await {
        let compared = specs.and_then(|specs| {
            live.insert(kind, specs);
            (live.len() == KINDS.len()).then(|| compare(system_namespace, &live)).transpose()
        });
        match compared {
            Ok(Some(missing)) => {
                let (fresh, differs) = guard.set(missing);
                for (name, text) in fresh {
                    tracing::error!(policy = name, "{text}");
                    events.policy(name, &text).await;
                }
                if differs {
                    changed();
                }
            }
            Ok(None) => {}
            // What was shown last still holds, as far as is known.
            Err(error) if live.len() == KINDS.len() => tracing::debug!(kind, error, "watch interrupted"),
            Err(error) => {
                tracing::warn!(kind, error, "admission policies could not be compared");
                guard.doubt(&error);
                if !std::mem::replace(&mut reported, guard.is_unknown()) && reported {
                    changed();
                }
            }
        }
    }
}

/// The kinds that are compared.
const KINDS: [&str; 2] = [ValidatingAdmissionPolicy::KIND, ValidatingAdmissionPolicyBinding::KIND];

/// The specs of our policies or bindings that exist, by name.
type Specs = BTreeMap<String, Value>;

/// What a watch shows of a kind, or why it shows nothing.
struct Shown {
    kind: &'static str,
    specs: Result<Specs, String>,
}

/// What a watch shows of a kind, whenever that is something else.
fn specs_of<K>(client: &Client, chance: &Chance) -> BoxStream<'static, Shown>
where
    K: k8s_openapi::Resource
        + Resource<DynamicType = ()>
        + Clone
        + Debug
        + DeserializeOwned
        + Serialize
        + Send
        + 'static,
{
    let mut specs = Entries::default();
    let shown = chance.watch(Api::<K>::all(client.clone()), watcher::Config::default());
    let shown = shown.filter_map(move |event| {
        let ours = |object: &K| {
            let name = object.name_any();
            NAMES.contains(&name.as_str()).then(|| (name, spec(object)))
        };
        let now = match event {
            Ok(event) => specs.take(event, ours).map(|_| Ok(specs.known.clone())),
            Err(error) => Some(Err(error.to_string())),
        };
        ready(now.map(|specs| Shown { kind: K::KIND, specs }))
    });
    shown.boxed()
}

fn spec(object: &impl Serialize) -> Value {
    serde_json::to_value(object).map(|mut object| object["spec"].take()).unwrap_or_default()
}

/// The policies that are not as they should be, and what is wrong with each.
///
/// # Errors
/// The cluster's could not be read.
pub async fn missing(
    client: &Client,
    system_namespace: &str,
) -> Result<BTreeMap<&'static str, String>, String> {
    let policies = read::<ValidatingAdmissionPolicy>(client).await?;
    let bindings = read::<ValidatingAdmissionPolicyBinding>(client).await?;
    compare(system_namespace, &KINDS.into_iter().zip([policies, bindings]).collect())
}

async fn read<K>(client: &Client) -> Result<Specs, String>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize,
{
    let (api, mut specs) = (Api::<K>::all(client.clone()), Specs::new());
    for name in NAMES {
        let object = bounded(api.get_opt(name)).await.map_err(|e| api_text(&e))?;
        specs.extend(object.map(|object| (name.to_owned(), spec(&object))));
    }
    Ok(specs)
}

/// Compares the cluster's policies with those of the manifests.
fn compare(
    system_namespace: &str,
    live: &BTreeMap<&str, Specs>,
) -> Result<BTreeMap<&'static str, String>, String> {
    let wanted = objects(system_namespace).map_err(|e| e.to_string())?;
    let mut missing = BTreeMap::new();
    for object in &wanted {
        let (kind, name) = (text(object, "/kind"), text(object, "/metadata/name"));
        let name = NAMES.into_iter().find(|known| *known == name);
        let (Some(name), Some(live)) = (name, live.get(kind)) else { continue };
        let wrong = match live.get(name) {
            None => format!("{kind} {name:?} is absent"),
            Some(spec) if *spec != object["spec"] => format!("{kind} {name:?} differs from the manifests"),
            Some(_) => continue,
        };
        missing.entry(name).or_insert(wrong);
    }
    Ok(missing)
}

#[cfg(test)]
mod tests;
