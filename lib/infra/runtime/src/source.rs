//! A watched kind: its store, and the objects that change, in order.
//!
//! After an interruption everything is listed again. Until the list is complete the store holds what was before, so
//! the listed objects are handed on only then; and what vanished meanwhile, which no event tells, is handed on too.

use std::{
    collections::{BTreeSet, VecDeque},
    fmt::Debug,
    sync::Arc,
};

use futures::{Stream, StreamExt, stream, stream::BoxStream};
use kube::{
    Api, Client, Resource, ResourceExt,
    core::DeserializeGuard,
    runtime::{
        WatchStreamExt,
        reflector::{Store, store, store::Writer},
        watcher::{self, Event},
    },
};
use serde::de::DeserializeOwned;

use crate::chance::Chance;

/// A watched kind: its store and the stream that feeds it.
pub struct Source<K: Resource<DynamicType = ()> + Clone + 'static> {
    /// The objects as last seen.
    pub store: Store<DeserializeGuard<K>>,
    changes: BoxStream<'static, Result<DeserializeGuard<K>, watcher::Error>>,
}

impl<K> Source<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    /// Watches all objects of a kind. What no reconcile reads is not kept in memory.
    pub fn all(client: Client, chance: &Chance) -> Self {
        let (reader, writer) = store();
        let events =
            kube::runtime::watcher(Api::<DeserializeGuard<K>>::all(client), watcher::Config::default())
                .backoff(chance.watch_backoff())
                .modify(|object| {
                    object.meta_mut().managed_fields = None;
                    object.annotations_mut().remove("kubectl.kubernetes.io/last-applied-configuration");
                });
        Self { changes: changes(events.boxed(), writer, reader.clone()).boxed(), store: reader }
    }

    /// Calls `observer` with every object that changes, deleted ones included, before it is reconciled.
    #[must_use]
    pub fn observed<F: Future<Output = ()> + Send + 'static>(
        self,
        observer: impl Fn(&K) -> F + Send + Sync + 'static,
    ) -> Self {
        let observer = Arc::new(observer);
        let changes = self.changes.then(move |item| {
            let observer = observer.clone();
            async move {
                if let Ok(DeserializeGuard(Ok(object))) = &item {
                    observer(object).await;
                }
                item
            }
        });
        Self { store: self.store, changes: changes.boxed() }
    }

    /// Only the names of changed objects (`None` for an interruption), for who reads the store alone.
    pub fn into_names(self) -> BoxStream<'static, Option<String>> {
        self.changes.map(|item| item.ok().map(|object| object.name_any())).boxed()
    }

    /// The objects that change.
    pub(crate) fn into_changes(self) -> BoxStream<'static, Result<DeserializeGuard<K>, watcher::Error>> {
        self.changes
    }
}

type Events<K> = BoxStream<'static, Result<Event<K>, watcher::Error>>;

struct Relay<K: Resource<DynamicType = ()> + Clone + 'static> {
    events: Events<K>,
    writer: Writer<K>,
    reader: Store<K>,
    listed: Vec<K>,
    ready: VecDeque<K>,
}

/// Feeds the store and hands changed objects on, each when the store has it.
fn changes<K>(
    events: Events<K>,
    writer: Writer<K>,
    reader: Store<K>,
) -> impl Stream<Item = Result<K, watcher::Error>> + Send
where
    K: Resource<DynamicType = ()> + Clone + Send + Sync + 'static,
{
    let relay = Relay { events, writer, reader, listed: Vec::new(), ready: VecDeque::new() };
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
                let listed = std::mem::take(&mut self.listed);
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
            Event::Apply(object) | Event::Delete(object) => self.ready.push_back(object),
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
        let mut changes = std::pin::pin!(changes(events, writer, reader.clone()));
        let mut seen = Vec::new();
        while let Some(Ok(object)) = changes.next().await {
            let stored = reader.get(&ObjectRef::from_obj(&object)).and_then(|found| found.resource_version());
            seen.push((object.name_any(), stored.unwrap_or_default()));
        }
        let wanted = [("a", "1"), ("b", "1"), ("b", "2"), ("a", ""), ("b", "3"), ("b", "")];
        assert_eq!(seen, wanted.map(|(name, version)| (name.to_owned(), version.to_owned())));
    }
}
