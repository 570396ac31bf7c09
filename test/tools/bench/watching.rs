//! Moments, stamped by watches of our own: polling would be slower than what is measured.

use std::fmt::Debug;

use crate::prelude::*;
use futures::{Stream, StreamExt};
use kube::api::{WatchEvent, WatchParams};
use serde::de::DeserializeOwned;

use super::DEADLINE;

/// Life of a watch.
const WATCH_SECONDS: u32 = 290;

type Events<K> = std::pin::Pin<Box<dyn Stream<Item = kube::Result<WatchEvent<K>>> + Send>>;

/// A watch that has begun: everything that happens from now on is seen.
pub(super) struct Watch<K> {
    api: Api<K>,
    /// Of what was seen last: the API server ends a watch that does not keep up with a burst.
    version: String,
    events: Events<K>,
    what: &'static str,
}

async fn events<K>(api: &Api<K>, version: &str) -> kube::Result<Events<K>>
where
    K: Clone + DeserializeOwned + Debug + Send + 'static,
{
    Ok(Box::pin(api.watch(&WatchParams::default().timeout(WATCH_SECONDS), version).await?))
}

impl<K> Watch<K>
where
    K: kube::Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    /// Begins to watch everything of a kind. `what` is what failures call it.
    pub(super) async fn begin(api: &Api<K>, what: &'static str) -> Result<Self> {
        let now = api.list_metadata(&ListParams::default().limit(1)).await?;
        let version = now.metadata.resource_version.context("a list without resource version")?;
        let events = events(api, &version).await?;
        Ok(Self { api: api.clone(), version, events, what })
    }

    /// The first moment at which `seen` answers, with the answer. `seen` is given the object and whether it
    /// was deleted.
    pub(super) async fn first<T>(&mut self, seen: impl FnMut(&K, bool) -> Option<T>) -> Result<(Instant, T)> {
        self.first_within(DEADLINE, seen).await
    }

    /// As [`Watch::first`], with a deadline of its own, which must be shorter than the watch itself.
    pub(super) async fn first_within<T>(
        &mut self,
        deadline: Duration,
        mut seen: impl FnMut(&K, bool) -> Option<T>,
    ) -> Result<(Instant, T)> {
        let look = async {
            loop {
                let Some(event) = self.events.next().await else {
                    self.events = events(&self.api, &self.version).await?;
                    continue;
                };
                let now = Instant::now();
                if let Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) = &event {
                    self.version = object.meta().resource_version.clone().unwrap_or_default();
                }
                let answer = match event? {
                    WatchEvent::Added(object) | WatchEvent::Modified(object) => seen(&object, false),
                    WatchEvent::Deleted(object) => seen(&object, true),
                    WatchEvent::Bookmark(_) => None,
                    WatchEvent::Error(error) => bail!("watching {}: {error}", self.what),
                };
                if let Some(answer) = answer {
                    return Ok((now, answer));
                }
            }
        };
        tokio::time::timeout(deadline, look)
            .await
            .with_context(|| format!("waited {} s for {}", deadline.as_secs(), self.what))?
    }
}

/// The moment at which an object that appears is first seen, and that at which it is as wanted.
pub(super) async fn appears_and<K>(
    client: &Client,
    what: &'static str,
    is_ours: impl Fn(&K) -> bool + Send + Sync + 'static,
    wanted: impl Fn(&K) -> bool + Send + Sync + 'static,
) -> Result<tokio::task::JoinHandle<Result<(Instant, Instant)>>>
where
    K: kube::Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let mut watch = Watch::begin(&Api::<K>::all(client.clone()), what).await?;
    Ok(tokio::spawn(async move {
        let mut first_seen = None;
        let (wanted_at, ()) = watch
            .first(|object, deleted| {
                if deleted || !is_ours(object) {
                    return None;
                }
                first_seen.get_or_insert_with(Instant::now);
                wanted(object).then_some(())
            })
            .await?;
        Ok((first_seen.unwrap_or(wanted_at), wanted_at))
    }))
}
