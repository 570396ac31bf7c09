//! Kinds that the cluster does not serve, and the watch that wakes who is interested in their API group.
//!
//! CustomResourceDefinitions and APIServices are watched as metadata. A change of one makes discovery of its group
//! stale. Between the event and the moment when discovery knows the kind the API server takes its time, so the group's
//! interest fires a few times more, for those who still have it.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use futures::StreamExt;
use k8s_openapi::{
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    kube_aggregator::pkg::apis::apiregistration::v1::APIService,
};
use kube::{Client, ResourceExt, runtime::watcher::Event};
use olm_object::{DefinedKind, ObjectKey};
use olm_objectset::{UnknownKinds, UnservedKind, unserved_kind};
use olm_preflight::{REQUESTS, concurrently};
use olm_runtime::{Chance, Discovery, DiscoveryError, Kind};
use tokio::{sync::SetOnce, time::Instant};
use tokio_util::sync::CancellationToken;

use super::watched::{Changes, add};
use crate::interest::{Interest, Interests};

/// When the interest in a group fires after a change: at once, and later because discovery may lag.
const FIRES: [Duration; 5] = [
    Duration::ZERO,
    Duration::from_millis(500),
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(15),
];

/// The CRD whose presence makes a cluster a platform with versions of its own.
const CLUSTER_VERSIONS: &str = "clusterversions.config.openshift.io";

/// Objects sorted by whether the cluster serves their kinds.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    /// The kinds that are served.
    pub(crate) known: Vec<Kind>,
    /// Objects to leave out until their kind arrives.
    pub(crate) left_out: BTreeSet<ObjectKey>,
    /// Objects whose kind a CRD of the same revision brings.
    pub(crate) awaited: BTreeSet<ObjectKey>,
    /// Objects without which it cannot go on.
    pub(crate) blocking: BTreeSet<ObjectKey>,
    /// API groups that do not answer.
    pub(crate) silent: BTreeSet<String>,
}

impl Survey {
    /// Whether the cluster does not serve the kind of this object.
    pub(crate) fn lacks(&self, key: &ObjectKey) -> bool {
        [&self.left_out, &self.awaited, &self.blocking].iter().any(|keys| keys.contains(key))
    }

    /// The API groups whose kinds may still come.
    pub(crate) fn interests(&self) -> impl Iterator<Item = Interest> {
        let all = self.left_out.iter().chain(&self.awaited).chain(&self.blocking);
        all.map(|key| &key.group).chain(&self.silent).cloned().map(Interest::Group)
    }
}

/// Sorts objects by their `keys`; `defined` are the kinds that CustomResourceDefinitions among them define.
///
/// Kinds of an API that does not answer count as known: a reconcile that needs them fails when their turn comes.
pub(crate) async fn survey<'k>(
    discovery: &Discovery,
    keys: impl Iterator<Item = &'k ObjectKey>,
    defined: impl FnOnce() -> BTreeMap<(String, String), DefinedKind>,
    policy: UnknownKinds,
) -> Survey {
    let mut found = Survey::default();
    let mut by_kind: BTreeMap<(String, String), Vec<&ObjectKey>> = BTreeMap::new();
    for key in keys {
        by_kind.entry((key.api_version(), key.kind.clone())).or_default().push(key);
    }
    // The first kind of each version brings the others.
    let mut firsts: Vec<&(String, String)> = by_kind.keys().collect();
    firsts.dedup_by_key(|(api_version, _)| api_version);
    let firsts = firsts.into_iter().map(async |key| (key.clone(), discovery.kind(&key.0, &key.1).await));
    let mut firsts: BTreeMap<_, _> = concurrently(REQUESTS, firsts.collect()).await.into_iter().collect();
    let mut unknown = Vec::new();
    for ((api_version, kind), keys) in by_kind {
        let answer = match firsts.remove(&(api_version.clone(), kind.clone())) {
            Some(answer) => answer,
            None => discovery.kind(&api_version, &kind).await,
        };
        match answer {
            Ok(kind) => found.known.push(kind),
            Err(DiscoveryError::Unknown { .. }) => unknown.extend(keys),
            Err(error @ DiscoveryError::Unavailable { .. }) => {
                tracing::debug!(api_version, kind, %error, "kind not looked up");
                found.silent.extend(keys.iter().map(|key| key.group.clone()));
            }
        }
    }
    if !unknown.is_empty() {
        let brought = defined();
        for key in unknown {
            let place = match unserved_kind(key, &brought, policy) {
                UnservedKind::Awaited => &mut found.awaited,
                UnservedKind::LeftOut => &mut found.left_out,
                UnservedKind::Blocks => &mut found.blocking,
            };
            place.insert(key.clone());
        }
    }
    found
}

enum Changed {
    /// A CustomResourceDefinition, by name.
    Crd(String),
    /// An APIService, by its API group.
    Service { group: String },
    /// All CustomResourceDefinitions have been listed.
    CrdsListed,
}

/// The CustomResourceDefinitions that say something about the cluster.
#[derive(Debug, Default)]
pub(crate) struct Kinds {
    listed: SetOnce<()>,
    has_cluster_versions: SetOnce<()>,
}

impl Kinds {
    /// Ends when all CustomResourceDefinitions have been listed.
    pub(crate) async fn ready(&self) {
        self.listed.wait().await;
    }

    /// Ends when there are ClusterVersions, by which a cluster is a platform with versions of its own.
    pub(crate) async fn cluster_versions(&self) {
        self.has_cluster_versions.wait().await;
    }

    /// Watches CustomResourceDefinitions and APIServices until `stop`.
    pub(crate) async fn follow(
        &self,
        client: Client,
        chance: &Chance,
        discovery: Discovery,
        interests: Interests,
        stop: CancellationToken,
    ) {
        let mut changes = Changes::new();
        // Each kind that comes from here on is an event, those of the first list included.
        discovery.set_followed();
        add::<CustomResourceDefinition, _>(&mut changes, &client, chance, |event| match event {
            Event::Init => None,
            Event::InitDone => Some(Changed::CrdsListed),
            Event::Apply(crd) | Event::InitApply(crd) | Event::Delete(crd) => {
                Some(Changed::Crd(crd.name_any()))
            }
        });
        add::<APIService, _>(&mut changes, &client, chance, |event| match event {
            Event::Init | Event::InitDone => None,
            Event::Apply(service) | Event::InitApply(service) | Event::Delete(service) => {
                Some(Changed::Service { group: group_of(&service.name_any()) })
            }
        });
        // Groups that changed: when their interest fires next, and how often it did.
        let mut due: BTreeMap<String, (Instant, usize)> = BTreeMap::new();
        loop {
            let next = due.values().map(|(at, _)| *at).min();
            tokio::select! {
                // In this order, so that the same events have the same outcome.
                biased;
                () = stop.cancelled() => return,
                Some(seen) = changes.next() => if let Some(group) = self.note(seen, &interests) {
                    discovery.forget_group(&group);
                    due.insert(group, (Instant::now(), 0));
                },
                () = tokio::time::sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {
                    fire_due(&mut due, &discovery, &interests);
                }
            }
        }
    }

    /// Takes note of a change; the API group that it is one of.
    fn note(&self, changed: Changed, interests: &Interests) -> Option<String> {
        match changed {
            Changed::Crd(name) => {
                if name == CLUSTER_VERSIONS {
                    // It may be known already, here and below.
                    let _ = self.has_cluster_versions.set(());
                }
                interests.fire(&Interest::Installed);
                Some(group_of(&name))
            }
            Changed::Service { group } => Some(group),
            Changed::CrdsListed => {
                let _ = self.listed.set(());
                None
            }
        }
    }
}

/// Fires the groups whose time has come, and plans their next time.
fn fire_due(due: &mut BTreeMap<String, (Instant, usize)>, discovery: &Discovery, interests: &Interests) {
    let now = Instant::now();
    let groups: Vec<(String, usize)> =
        due.extract_if(.., |_, (at, _)| *at <= now).map(|(group, (_, step))| (group, step)).collect();
    for (group, step) in groups {
        if let Some(wait) = FIRES.get(step + 1) {
            due.insert(group.clone(), (now + *wait, step + 1));
        }
        let interest = Interest::Group(group);
        if let (true, Interest::Group(group)) = (step > 0 && interests.is_wanted(&interest), &interest) {
            discovery.forget_group(group);
        }
        interests.fire(&interest);
    }
}

/// The group in `<plural>.<group>` and `<version>.<group>`.
fn group_of(name: &str) -> String {
    name.split_once('.').map_or("", |(_, group)| group).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_read_from_names() {
        assert_eq!(group_of("servicemonitors.monitoring.coreos.com"), "monitoring.coreos.com");
        assert_eq!(group_of("v1beta1.metrics.k8s.io"), "metrics.k8s.io");
        assert_eq!(group_of("v1."), "");
    }
}
