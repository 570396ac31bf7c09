//! A watched kind: its store, and the objects that change, in order.
//!
//! After an interruption everything is listed again. Until the list is complete the store holds what was before, so
//! the listed objects are handed on only then; and what vanished meanwhile, which no event tells, is handed on too.

use std::{
    collections::{BTreeSet, VecDeque},
    fmt::Debug,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use futures::{FutureExt, Stream, StreamExt, future::BoxFuture, stream, stream::BoxStream};
use kube::{
    Api, Client, Resource, ResourceExt,
    runtime::{
        WatchStreamExt,
        reflector::{Store, store, store::Writer},
        watcher::{self, Event},
    },
};
use serde::de::DeserializeOwned;
use tokio::sync::SetOnce;

use crate::{chance::Chance, guarded::Guarded, object::version};

/// The newest version of an object that a store has seen. Clones follow it.
#[derive(Debug, Clone, Default)]
pub struct Newest(Arc<AtomicU64>);

impl Newest {
    /// The version; of an empty store 0.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Takes note of an object that has changed.
    fn note(&self, object: &impl Resource) {
        self.0.fetch_max(version(object.meta()).unwrap_or_default(), Ordering::AcqRel);
    }

    /// Takes note of all that there are: a cluster that was restored from a backup counts anew from an earlier version.
    fn restart<'a>(&self, objects: impl Iterator<Item = &'a (impl Resource + 'a)>) {
        self.0.store(
            objects.filter_map(|object| version(object.meta())).max().unwrap_or_default(),
            Ordering::Release,
        );
    }
}

/// A watched kind: its store and the stream that feeds it.
pub struct Source<K: Resource<DynamicType = ()> + Clone + 'static> {
    /// The objects as last seen.
    pub store: Store<Guarded<K>>,
    /// How far the store has got.
    pub newest: Newest,
    changes: Changes<K>,
    listed: Arc<SetOnce<()>>,
    ready: BoxFuture<'static, ()>,
}

type Changes<K> = BoxStream<'static, Result<Guarded<K>, watcher::Error>>;

impl<K> Source<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    /// Watches all objects of a kind. What no reconcile reads is not kept in memory.
    pub fn all(client: Client, chance: &Chance) -> Self {
        Self::trimmed(client, chance, watcher::Config::default(), |_| {})
    }

    /// Watches the objects of a kind that `config` selects, and keeps of each what `trim` leaves.
    pub fn trimmed(client: Client, chance: &Chance, config: watcher::Config, trim: fn(&mut K)) -> Self {
        let (reader, writer) = store();
        let api = Api::<Guarded<K>>::all(client);
        let events = chance.watch(api, config).modify(move |object| {
            object.meta_mut().managed_fields = None;
            object.annotations_mut().remove("kubectl.kubernetes.io/last-applied-configuration");
            if let Ok(object) = &mut object.0 {
                trim(object);
            }
        });
        let listed = Arc::new(SetOnce::new());
        let newest = Newest::default();
        let parts = (writer, reader.clone(), newest.clone());
        let changes = changes(events.boxed(), parts, listed.clone()).boxed();
        Self { changes, listed, newest, store: reader, ready: std::future::ready(()).boxed() }
    }

    /// Calls `observer` with every object that changes, deleted ones included, before it is reconciled.
    #[must_use]
    pub fn observed(self, observer: impl Fn(&K) + Send + Sync + 'static) -> Self {
        let changes = self.changes.inspect(move |item| {
            if let Ok(Guarded(Ok(object))) = item {
                observer(object);
            }
        });
        Self { changes: changes.boxed(), ..self }
    }

    /// Ends when all objects have been listed once. Any number of tasks may wait for it, which the store does not offer.
    pub fn listed(&self) -> impl Future<Output = ()> + Send + use<K> {
        let listed = self.listed.clone();
        async move {
            listed.wait().await;
        }
    }

    /// Lets reconciles begin only when `ready` is over; the store follows the cluster from the start.
    #[must_use]
    pub fn gated(self, ready: impl Future<Output = ()> + Send + 'static) -> Self {
        Self { ready: ready.boxed(), ..self }
    }

    /// Only the names of changed objects (`None` for an interruption), for who reads the store alone.
    pub fn into_names(self) -> BoxStream<'static, Option<String>> {
        self.changes.map(|item| item.ok().map(|object| object.name_any())).boxed()
    }

    /// The objects that change, and what ends when they may be reconciled.
    pub(crate) fn into_parts(self) -> (Changes<K>, BoxFuture<'static, ()>) {
        (self.changes, self.ready)
    }
}

type Events<K> = BoxStream<'static, Result<Event<K>, watcher::Error>>;

struct Relay<K: Resource<DynamicType = ()> + Clone + 'static> {
    events: Events<K>,
    writer: Writer<K>,
    reader: Store<K>,
    newest: Newest,
    listed: Vec<K>,
    ready: VecDeque<K>,
    all_listed: Arc<SetOnce<()>>,
}

/// Feeds the store and hands changed objects on, each when the store has it.
fn changes<K>(
    events: Events<K>,
    (writer, reader, newest): (Writer<K>, Store<K>, Newest),
    all_listed: Arc<SetOnce<()>>,
) -> impl Stream<Item = Result<K, watcher::Error>> + Send
where
    K: Resource<DynamicType = ()> + Clone + Send + Sync + 'static,
{
    let (listed, ready) = (Vec::new(), VecDeque::new());
    let relay = Relay { events, writer, reader, newest, listed, ready, all_listed };
    stream::unfold(relay, |mut relay| async {
        loop {
            if let Some(object) = relay.ready.pop_front() {
                return Some((Ok(object), relay));
            }
            match relay.events.next().await? {
                Ok(event) => relay.take(event),
                Err(error) => return Some((Err(error), relay)),
            }
        }
    })
}

impl<K: Resource<DynamicType = ()> + Clone + 'static> Relay<K> {
    fn take(&mut self, event: Event<K>) {
        let before = if matches!(event, Event::InitDone) { self.reader.state() } else { Vec::new() };
        self.writer.apply_watcher_event(&event);
        match event {
            Event::Init => self.listed.clear(),
            Event::InitApply(object) => self.listed.push(object),
            Event::InitDone => {
                // It may have been listed before.
                let _ = self.all_listed.set(());
                let listed = std::mem::take(&mut self.listed);
                self.newest.restart(listed.iter());
                let uids: BTreeSet<_> = listed.iter().map(ResourceExt::uid).collect();
                let mut vanished: Vec<K> = before
                    .iter()
                    .filter(|old| !uids.contains(&old.uid()))
                    .map(|old| (**old).clone())
                    .collect();
                vanished.sort_unstable_by_key(ResourceExt::name_any);
                self.ready.extend(vanished);
                self.ready.extend(listed);
            }
            Event::Apply(object) | Event::Delete(object) => {
                self.newest.note(&object);
                self.ready.push_back(object);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::{api::ObjectMeta, runtime::reflector::ObjectRef};

    use super::*;

    fn map(name: &str, version: &str) -> ConfigMap {
        let (name, uid) = (Some(name.to_owned()), Some(format!("uid of {name}")));
        let version = Some(version.to_owned());
        ConfigMap {
            metadata: ObjectMeta { name, uid, resource_version: version, ..ObjectMeta::default() },
            ..ConfigMap::default()
        }
    }

    #[tokio::test]
    async fn a_list_is_handed_on_when_the_store_has_it_with_what_vanished() {
        let events = [
            Event::Init,
            Event::InitApply(map("a", "1")),
            Event::InitApply(map("b", "1")),
            Event::InitDone,
            Event::Apply(map("b", "2")),
            Event::Init,
            Event::InitApply(map("b", "3")),
            Event::InitDone,
            Event::Delete(map("b", "4")),
        ];
        let (reader, writer) = store();
        let events = stream::iter(events.map(Ok)).boxed();
        let (all_listed, newest) = (Arc::new(SetOnce::new()), Newest::default());
        let mut changes =
            std::pin::pin!(changes(events, (writer, reader.clone(), newest.clone()), all_listed.clone()));
        let (mut seen, mut versions) = (Vec::new(), Vec::new());
        assert!(!all_listed.initialized());
        while let Some(Ok(object)) = changes.next().await {
            versions.push(newest.get());
            let stored = reader.get(&ObjectRef::from_obj(&object)).and_then(|found| found.resource_version());
            seen.push((object.name_any(), stored.unwrap_or_default()));
        }
        let wanted = [("a", "1"), ("b", "1"), ("b", "2"), ("a", ""), ("b", "3"), ("b", "")];
        assert!(all_listed.initialized());
        assert_eq!(versions, [1, 1, 2, 3, 3, 4], "never behind what the store has");
        assert_eq!(seen, wanted.map(|(name, version)| (name.to_owned(), version.to_owned())));
    }
}
