//! Compares the cluster's policies with ours, at the start, when one of them changes, and every hour.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use futures::{Stream, StreamExt as _, stream::SelectAll};
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::PartialObjectMeta,
    runtime::watcher::{self, Event},
};
use olm_runtime::{Chance, bounded};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, gauge::Gauge},
    registry::Registry,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{
    deletion::DELETION_POLICY,
    policies::{EXTENSION_ANNOTATIONS, EXTENSION_RECORDS, NAMES, objects},
    sets::OBJECT_SET_OWNER,
};
use crate::{controllers::api_text, events::Events};

/// Between two comparisons when nothing happens.
const INTERVAL: Duration = Duration::from_hours(1);
/// Changes that come together, as when a manifest is applied, are looked at once.
const GATHER: Duration = Duration::from_millis(50);

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PolicyLabel {
    policy: String,
}

/// Whether the policies are in force that guard accounts and revisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Enforcement {
    /// They have not been compared yet.
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

/// Whether the admission policies are in force; shared by those who tell about it.
#[derive(Debug, Clone)]
pub(crate) struct Guard {
    /// What is wrong with each that is not as it should be; nothing before they were compared.
    missing: Arc<RwLock<Option<BTreeMap<&'static str, String>>>>,
    in_force: Family<PolicyLabel, Gauge>,
}

impl Guard {
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let in_force = Family::default();
        registry.register(
            "olm_admission_policy_in_force",
            "1 when the admission policy of this name and its binding are as the manifests have them",
            in_force.clone(),
        );
        Self { missing: Arc::default(), in_force }
    }

    /// What is wrong with the policies, in a sentence for `Ready`.
    pub(crate) fn complaint(&self) -> Option<String> {
        let missing = self.missing.read().unwrap_or_else(PoisonError::into_inner);
        let missing = missing.as_ref()?;
        let others = || missing.iter().filter(|(name, _)| **name != DELETION_POLICY);
        let found: Vec<&str> = others().map(|(_, text)| text.as_str()).collect();
        let is_missing = |all: &[&str]| others().any(|(name, _)| all.contains(name));
        let of_revisions = [OBJECT_SET_OWNER, EXTENSION_RECORDS];
        let harm = if others().any(|(name, _)| *name != EXTENSION_ANNOTATIONS && !of_revisions.contains(name))
        {
            "whoever may write ClusterExtensions or ClusterObjectSets can use any ServiceAccount"
        } else if is_missing(&of_revisions) {
            "whoever may write ClusterObjectSets can pass them off as revisions of any ClusterExtension"
        } else {
            "annotations of ClusterExtensions are not checked before they are stored"
        };
        (!found.is_empty())
            .then(|| format!("{}: until the manifests are applied again, {harm}.", found.join("; ")))
    }

    /// What is wrong with the policy that holds deletions, in a sentence for `Ready` of extensions that have a
    /// deletion policy.
    pub(crate) fn complaint_about_deletion(&self) -> Option<String> {
        let missing = self.missing.read().unwrap_or_else(PoisonError::into_inner);
        missing.as_ref()?.get(DELETION_POLICY).map(|found| {
            format!(
                "{found}: until the manifests are applied again, an extension can be deleted before its deletion \
                 policy is in force."
            )
        })
    }

    /// Whether the policies that guard accounts and revisions are in force.
    pub(crate) fn enforcement(&self) -> Enforcement {
        let missing = self.missing.read().unwrap_or_else(PoisonError::into_inner);
        let is_needed = |name: &str| ![DELETION_POLICY, EXTENSION_ANNOTATIONS].contains(&name);
        match missing.as_ref() {
            None => Enforcement::Unknown,
            Some(missing) if missing.keys().any(|name| is_needed(name)) => Enforcement::Broken,
            Some(_) => Enforcement::InForce,
        }
    }

    /// Takes over what was found; returns what is newly missing, and whether anything changed.
    fn set(&self, found: BTreeMap<&'static str, String>) -> (Vec<(&'static str, String)>, bool) {
        for name in NAMES {
            let label = PolicyLabel { policy: name.to_owned() };
            self.in_force.get_or_create(&label).set(i64::from(!found.contains_key(name)));
        }
        let mut missing = self.missing.write().unwrap_or_else(PoisonError::into_inner);
        let known = |name: &str| missing.as_ref().and_then(|missing| missing.get(name));
        let fresh = found.iter().filter(|(name, text)| known(name) != Some(*text));
        let fresh = fresh.map(|(name, text)| (*name, text.clone())).collect();
        let changed = missing.as_ref() != Some(&found);
        *missing = Some(found);
        (fresh, changed)
    }
}

/// Keeps `guard` up to date until `stop`; `changed` is called whenever the answer is another one.
pub(crate) async fn run(
    client: Client,
    chance: &Chance,
    system_namespace: &str,
    guard: Guard,
    events: Events,
    changed: impl AsyncFn(),
    stop: CancellationToken,
) {
    let mut sightings = SelectAll::new();
    sightings.push(changes_of::<ValidatingAdmissionPolicy>(client.clone(), chance).boxed());
    sightings.push(changes_of::<ValidatingAdmissionPolicyBinding>(client.clone(), chance).boxed());
    loop {
        match compare(&client, system_namespace).await {
            Ok(found) => {
                let (fresh, differs) = guard.set(found);
                for (name, text) in fresh {
                    tracing::error!(policy = name, "{text}");
                    events.policy(name, &text).await;
                }
                if differs {
                    changed().await;
                }
            }
            Err(error) => tracing::warn!(%error, "admission policies could not be compared"),
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(INTERVAL) => {}
            Some(()) = sightings.next() => tokio::time::sleep(GATHER).await,
        }
    }
}

fn changes_of<K>(client: Client, chance: &Chance) -> impl Stream<Item = ()> + Send + use<K>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
{
    let api: Api<PartialObjectMeta<K>> = Api::all(client);
    let watched = chance.watch(api, watcher::Config::default());
    watched.filter_map(|event| async move {
        let object = match event {
            Ok(Event::Apply(object) | Event::Delete(object)) => Some(object),
            Ok(Event::Init | Event::InitApply(_) | Event::InitDone) | Err(_) => None,
        };
        object.filter(|object| NAMES.contains(&object.name_any().as_str())).map(drop)
    })
}

/// The policies that are not as they should be, and what is wrong with each.
async fn compare(client: &Client, system_namespace: &str) -> Result<BTreeMap<&'static str, String>, String> {
    let wanted = objects(system_namespace);
    let spec = |kind: &str, name: &str| {
        let object = wanted.iter().find(|o| o["kind"] == kind && o["metadata"]["name"] == name);
        object.map_or(Value::Null, |object| object["spec"].clone())
    };
    let mut found = BTreeMap::new();
    for name in NAMES {
        let policy = present::<ValidatingAdmissionPolicy>(client, name).await?;
        let binding = present::<ValidatingAdmissionPolicyBinding>(client, name).await?;
        let parts = [("ValidatingAdmissionPolicy", policy), ("ValidatingAdmissionPolicyBinding", binding)];
        let wrong = parts.into_iter().find_map(|(kind, present)| match present {
            None => Some(format!("{kind} {name:?} is absent")),
            Some(object) if object["spec"] != spec(kind, name) => {
                Some(format!("{kind} {name:?} is not as the manifests have it"))
            }
            Some(_) => None,
        });
        if let Some(wrong) = wrong {
            found.insert(name, wrong);
        }
    }
    Ok(found)
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
