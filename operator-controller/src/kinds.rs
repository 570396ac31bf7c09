//! Kinds that the cluster does not serve: who waits for which API group, and the watch that wakes them.
//!
//! CustomResourceDefinitions and APIServices are watched as metadata. A change of one makes discovery of its group
//! stale, and wakes the extensions and revisions that wait for the group. Between the event and the moment when
//! discovery knows the kind the API server takes its time, so they are woken a few times more, until they no
//! longer wait. Nothing here survives the process; the next pass of each waiter brings it back.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::{Stream, StreamExt, stream::SelectAll};
use k8s_openapi::{
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    kube_aggregator::pkg::apis::apiregistration::v1::APIService,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::PartialObjectMeta,
    runtime::watcher::{self, Event},
};
use olm_object::{ObjectKey, defined_kinds};
use olm_objectset::{UnknownKinds, UnservedKind, unserved_kind};
use olm_runtime::{Chance, Discovery, DiscoveryError, Kind};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::{sync::mpsc, time::Instant};
use tokio_util::sync::CancellationToken;

/// When those who wait are woken after a change: changes that come together wake once, and discovery may lag.
const WAKES: [Duration; 5] = [
    Duration::from_millis(50),
    Duration::from_millis(500),
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(15),
];

/// Who waits for a kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Waiter {
    /// The ClusterExtension of this name.
    Extension(String),
    /// The ClusterObjectSet of this name.
    Set(String),
}

/// Who waits, and for which API groups.
#[derive(Debug, Default)]
pub(crate) struct Awaited(Mutex<BTreeMap<Waiter, BTreeSet<String>>>);

impl Awaited {
    /// Notes that `waiter` waits for exactly these groups. Returns whether one of them is new.
    pub(crate) fn note(&self, waiter: &Waiter, groups: &BTreeSet<String>) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if groups.is_empty() {
            all.remove(waiter);
            return false;
        }
        let before = all.insert(waiter.clone(), groups.clone()).unwrap_or_default();
        !groups.is_subset(&before)
    }

    /// The waiter waits no more.
    pub(crate) fn forget(&self, waiter: &Waiter) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(waiter);
    }

    fn for_group(&self, group: &str) -> Vec<Waiter> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().filter(|(_, groups)| groups.contains(group)).map(|(waiter, _)| waiter.clone()).collect()
    }
}

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

    fn unknown_groups(&self) -> BTreeSet<String> {
        let all = self.left_out.iter().chain(&self.awaited).chain(&self.blocking);
        all.map(|key| key.group.clone()).chain(self.silent.iter().cloned()).collect()
    }
}

/// Sorts `objects`, and notes what `waiter` waits for from now on.
///
/// Kinds of an API that does not answer count as known: whoever needs them learns it when their turn comes.
pub(crate) async fn survey(
    discovery: &Discovery,
    awaited: &Awaited,
    waiter: &Waiter,
    objects: &[&Value],
    policy: UnknownKinds,
) -> Survey {
    let found = sort(discovery, objects, policy).await;
    let groups = found.unknown_groups();
    if !awaited.note(waiter, &groups) {
        return found;
    }
    // What came before the note was taken has woken nobody.
    for group in &groups {
        discovery.forget_group(group);
    }
    let found = sort(discovery, objects, policy).await;
    awaited.note(waiter, &found.unknown_groups());
    found
}

async fn sort(discovery: &Discovery, objects: &[&Value], policy: UnknownKinds) -> Survey {
    let mut found = Survey::default();
    let mut by_kind: BTreeMap<(String, String), Vec<ObjectKey>> = BTreeMap::new();
    for key in objects.iter().map(|object| ObjectKey::of(object)) {
        by_kind.entry((key.api_version(), key.kind.clone())).or_default().push(key);
    }
    let mut unknown = Vec::new();
    for ((api_version, kind), keys) in by_kind {
        match discovery.kind(&api_version, &kind).await {
            Ok(kind) => found.known.push(kind),
            Err(DiscoveryError::Unknown { .. }) => unknown.extend(keys),
            Err(error @ DiscoveryError::Unavailable { .. }) => {
                tracing::debug!(api_version, kind, %error, "kind not looked up");
                found.silent.extend(keys.iter().map(|key| key.group.clone()));
            }
        }
    }
    if !unknown.is_empty() {
        let defines = defined_kinds(objects.iter().copied());
        for key in unknown {
            let place = match unserved_kind(&key, &defines, policy) {
                UnservedKind::Awaited => &mut found.awaited,
                UnservedKind::LeftOut => &mut found.left_out,
                UnservedKind::Blocks => &mut found.blocking,
            };
            place.insert(key);
        }
    }
    found
}

/// What the watches report.
enum Changed {
    /// A CustomResourceDefinition, by name.
    Crd(String),
    /// An APIService, by its API group.
    Service { group: String },
    /// All CustomResourceDefinitions have been listed.
    CrdsListed,
}

/// What is said of CustomResourceDefinitions.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Crd {
    /// The one of this name is there, or changed, or went.
    Changed(String),
    /// All that are there have been named.
    Listed,
}

/// Where wakes go.
pub(crate) struct Wakes {
    /// Names of extensions.
    pub(crate) extensions: mpsc::Sender<String>,
    /// Names of revisions.
    pub(crate) sets: mpsc::Sender<String>,
    /// CustomResourceDefinitions that changed.
    pub(crate) crds: mpsc::Sender<Crd>,
}

/// Watches CustomResourceDefinitions and APIServices until `shutdown`.
pub(crate) async fn run(
    client: Client,
    chance: &Chance,
    discovery: Discovery,
    awaited: Arc<Awaited>,
    wakes: Wakes,
    shutdown: CancellationToken,
) {
    let mut changes = SelectAll::new();
    let crds = Api::<PartialObjectMeta<CustomResourceDefinition>>::all(client.clone());
    changes.push(changed(crds, chance, |name| Some(of_crd(name))).boxed());
    changes.push(changed(Api::<PartialObjectMeta<APIService>>::all(client), chance, of_service).boxed());
    // Groups that changed: when those who wait for them are woken next, and how often they were.
    let mut due: BTreeMap<String, (Instant, usize)> = BTreeMap::new();
    loop {
        let next = due.values().map(|(at, _)| *at).min();
        tokio::select! {
            () = shutdown.cancelled() => return,
            Some(seen) = changes.next() => {
                let (group, crd) = match seen {
                    Changed::Crd(name) => (Some(group_of(&name)), Some(Crd::Changed(name))),
                    Changed::Service { group } => (Some(group), None),
                    Changed::CrdsListed => (None, Some(Crd::Listed)),
                };
                if let Some(group) = &group {
                    discovery.forget_group(group);
                }
                if let Some(crd) = crd {
                    // A closed channel means that the process is ending.
                    let _ = wakes.crds.send(crd).await;
                }
                let Some(group) = group else { continue };
                let soon = Instant::now() + WAKES[0];
                let planned = due.get(&group).is_some_and(|(at, step)| *step == 0 && *at <= soon);
                if !planned && !awaited.for_group(&group).is_empty() {
                    due.insert(group, (soon, 0));
                }
            }
            () = tokio::time::sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {
                wake_due(&mut due, &discovery, &awaited, &wakes).await;
            }
        }
    }
}

/// Wakes those whose time has come, and plans the next time for groups that are still waited for.
async fn wake_due(
    due: &mut BTreeMap<String, (Instant, usize)>,
    discovery: &Discovery,
    awaited: &Awaited,
    wakes: &Wakes,
) {
    let now = Instant::now();
    let groups: Vec<(String, usize)> = due
        .iter()
        .filter(|(_, (at, _))| *at <= now)
        .map(|(group, (_, step))| (group.clone(), *step))
        .collect();
    for (group, step) in groups {
        due.remove(&group);
        let waiters = awaited.for_group(&group);
        if waiters.is_empty() {
            continue;
        }
        discovery.forget_group(&group);
        if let Some(wait) = WAKES.get(step + 1) {
            due.insert(group, (now + *wait, step + 1));
        }
        for waiter in waiters {
            // A closed channel means that the process is ending.
            let _ = match waiter {
                Waiter::Extension(name) => wakes.extensions.send(name).await,
                Waiter::Set(name) => wakes.sets.send(name).await,
            };
        }
    }
}

/// The group in `<plural>.<group>` and `<version>.<group>`.
fn group_of(name: &str) -> String {
    name.split_once('.').map_or("", |(_, group)| group).to_owned()
}

/// What the name of a CustomResourceDefinition means, or that there is none left in a list.
fn of_crd(name: Option<String>) -> Changed {
    name.map_or(Changed::CrdsListed, Changed::Crd)
}

/// The same for APIServices.
fn of_service(name: Option<String>) -> Option<Changed> {
    name.map(|name| Changed::Service { group: group_of(&name) })
}

fn changed<K, R>(
    api: Api<PartialObjectMeta<K>>,
    chance: &Chance,
    read: R,
) -> impl Stream<Item = Changed> + Send + use<K, R>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
    R: Fn(Option<String>) -> Option<Changed> + Copy + Send + Sync + 'static,
{
    chance.watch(api, watcher::Config::default()).filter_map(move |event| async move {
        match event {
            Ok(Event::Apply(object) | Event::InitApply(object) | Event::Delete(object)) => {
                read(Some(object.name_any()))
            }
            Ok(Event::InitDone) => read(None),
            Ok(Event::Init) => None,
            Err(error) => {
                tracing::debug!(%error, "watch of the served kinds interrupted");
                None
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn only_a_group_that_was_not_waited_for_is_news() {
        let awaited = Awaited::default();
        let set = Waiter::Set("a".into());
        assert!(awaited.note(&set, &groups(&["x.io"])));
        assert!(!awaited.note(&set, &groups(&["x.io"])));
        assert!(awaited.note(&set, &groups(&["x.io", "y.io"])));
        assert!(!awaited.note(&set, &groups(&["y.io"])), "one that came is no news");
        assert_eq!(awaited.for_group("y.io"), std::slice::from_ref(&set));
        assert!(awaited.for_group("x.io").is_empty());
        assert!(!awaited.note(&set, &groups(&[])));
        assert!(awaited.for_group("y.io").is_empty());
    }

    #[test]
    fn groups_are_read_from_names() {
        assert_eq!(group_of("servicemonitors.monitoring.coreos.com"), "monitoring.coreos.com");
        assert_eq!(group_of("v1beta1.metrics.k8s.io"), "metrics.k8s.io");
        assert_eq!(group_of("v1."), "");
    }
}
