//! The streams by which facts follow the cluster. An interruption is made up for by the list that follows it.

use std::{collections::BTreeMap, fmt::Debug, future::ready, mem};

use futures::{
    Stream, StreamExt as _,
    stream::{BoxStream, SelectAll},
};
use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::PartialObjectMeta,
    runtime::watcher::{self, Event},
};
use olm_runtime::Chance;
use serde::de::DeserializeOwned;

/// The object of this name, whenever it changes; `None` while there is none.
pub(super) fn object<K>(
    api: Api<K>,
    name: &str,
    chance: &Chance,
) -> impl Stream<Item = Option<K>> + Send + use<K>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let only = watcher::Config::default().fields(&format!("metadata.name={name}"));
    // A list without it says so only by its end.
    let mut listed = None;
    chance.watch(api, only).filter_map(move |event| {
        ready(match event {
            Ok(Event::Apply(object)) => Some(Some(object)),
            Ok(Event::Delete(_)) => Some(None),
            Ok(Event::Init) => {
                listed = None;
                None
            }
            Ok(Event::InitApply(object)) => {
                listed = Some(object);
                None
            }
            Ok(Event::InitDone) => Some(listed.take()),
            Err(error) => {
                tracing::debug!(%error, "watch interrupted");
                None
            }
        })
    })
}

/// The UIDs of the objects of a kind, by what names them.
#[derive(Debug, Default)]
pub(super) struct Uids<N> {
    pub(super) known: BTreeMap<N, String>,
    /// What a list has shown so far.
    listing: BTreeMap<N, String>,
}

impl<N: Ord + Clone> Uids<N> {
    /// Takes note of an event; the objects that came, went, or are others under their names, each with the UID that it has
    /// now. `None` until a list is complete: others may have been deleted while the watch was interrupted.
    pub(super) fn take<K: Resource>(
        &mut self,
        event: Event<PartialObjectMeta<K>>,
        name: impl Fn(&PartialObjectMeta<K>) -> N,
    ) -> Option<Vec<(N, Option<String>)>> {
        let (name, uid) = match event {
            Event::Init => {
                self.listing.clear();
                return None;
            }
            Event::InitApply(one) => {
                self.listing.insert(name(&one), one.uid().unwrap_or_default());
                return None;
            }
            Event::InitDone => {
                let before = mem::replace(&mut self.known, mem::take(&mut self.listing));
                let gone = before.keys().filter(|name| !self.known.contains_key(*name));
                let other = self.known.iter().filter(|(name, uid)| before.get(*name) != Some(*uid));
                let other = other.map(|(name, uid)| (name.clone(), Some(uid.clone())));
                return Some(gone.map(|name| (name.clone(), None)).chain(other).collect());
            }
            Event::Apply(one) => (name(&one), one.uid()),
            Event::Delete(one) => (name(&one), None),
        };
        let before = match uid.clone() {
            Some(uid) => self.known.insert(name.clone(), uid),
            None => self.known.remove(&name),
        };
        Some((before != uid).then_some((name, uid)).into_iter().collect())
    }
}

/// Changes of several kinds.
pub(super) type Changes<T> = SelectAll<BoxStream<'static, T>>;

/// Adds the changes of a kind, of which only metadata is read. `read` says what an event means.
pub(super) fn add<K, T>(
    changes: &mut Changes<T>,
    client: &Client,
    chance: &Chance,
    mut read: impl FnMut(Event<PartialObjectMeta<K>>) -> Option<T> + Send + 'static,
) where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
    T: Send + 'static,
{
    let watched = chance.watch(Api::all(client.clone()), watcher::Config::default());
    let read = watched.filter_map(move |event| {
        let event =
            event.inspect_err(|error| tracing::debug!(kind = %K::kind(&()), %error, "watch interrupted"));
        ready(event.ok().and_then(&mut read))
    });
    changes.push(read.boxed());
}
