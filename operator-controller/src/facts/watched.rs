//! The streams by which facts follow the cluster. An interruption is made up for by the list that follows it.

use std::{collections::BTreeMap, fmt::Debug, future::ready, mem};

use futures::{
    Stream, StreamExt as _,
    stream::{BoxStream, SelectAll},
};
use kube::{
    Api, Client, Resource,
    runtime::watcher::{self, Event},
};
use olm_runtime::{Chance, Metadata, metadata_of};
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

/// What a watch shows of the objects of a kind, by what names them.
#[derive(Debug)]
pub(super) struct Entries<N, V> {
    pub(super) known: BTreeMap<N, V>,
    /// What a list has shown so far.
    listing: BTreeMap<N, V>,
}

impl<N, V> Default for Entries<N, V> {
    fn default() -> Self {
        Self { known: BTreeMap::new(), listing: BTreeMap::new() }
    }
}

impl<N: Ord + Clone, V: PartialEq + Clone> Entries<N, V> {
    /// Takes note of an event, by what `entry` keeps of an object, if anything; the entries that came, went, or are others,
    /// each with what it is now. `None` for objects of which nothing is kept, and until a list is complete: others may have
    /// been deleted while the watch was interrupted.
    pub(super) fn take<K>(
        &mut self,
        event: Event<K>,
        entry: impl Fn(&K) -> Option<(N, V)>,
    ) -> Option<Vec<(N, Option<V>)>> {
        let (name, now) = match event {
            Event::Init => {
                self.listing.clear();
                return None;
            }
            Event::InitApply(one) => {
                self.listing.extend(entry(&one));
                return None;
            }
            Event::InitDone => {
                let before = mem::replace(&mut self.known, mem::take(&mut self.listing));
                let gone = before.keys().filter(|name| !self.known.contains_key(*name));
                let other = self.known.iter().filter(|(name, now)| before.get(*name) != Some(*now));
                let other = other.map(|(name, now)| (name.clone(), Some(now.clone())));
                return Some(gone.map(|name| (name.clone(), None)).chain(other).collect());
            }
            Event::Apply(one) => entry(&one).map(|(name, now)| (name, Some(now)))?,
            Event::Delete(one) => (entry(&one)?.0, None),
        };
        let before = match now.clone() {
            Some(now) => self.known.insert(name.clone(), now),
            None => self.known.remove(&name),
        };
        Some((before != now).then_some((name, now)).into_iter().collect())
    }
}

/// Changes of several kinds.
pub(super) type Changes<T> = SelectAll<BoxStream<'static, T>>;

/// Adds the changes of a kind, of which only metadata is read. `read` says what an event means.
pub(super) fn add<K, T>(
    changes: &mut Changes<T>,
    client: &Client,
    chance: &Chance,
    mut read: impl FnMut(Event<Metadata>) -> Option<T> + Send + 'static,
) where
    K: Resource<DynamicType = ()>,
    T: Send + 'static,
{
    let watched = chance.watch(metadata_of::<K>(client.clone(), None), watcher::Config::default());
    let read = watched.filter_map(move |event| {
        let event =
            event.inspect_err(|error| tracing::debug!(kind = %K::kind(&()), %error, "watch interrupted"));
        ready(event.ok().and_then(&mut read))
    });
    changes.push(read.boxed());
}
