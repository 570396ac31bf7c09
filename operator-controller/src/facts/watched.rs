//! The streams by which facts follow the cluster. An interruption is made up for by the list that follows it.

use std::{fmt::Debug, future::ready};

use futures::{
    Stream, StreamExt as _,
    stream::{BoxStream, SelectAll},
};
use kube::{
    Api, Client, Resource,
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
