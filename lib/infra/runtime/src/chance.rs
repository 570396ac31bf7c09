//! Randomness for waits: one seed, one sequence.

use std::{sync::Arc, time::Duration};

use futures::{Stream, StreamExt as _, stream};
use kube::{
    Api, Resource,
    runtime::{
        WatchStreamExt as _,
        utils::Backoff,
        watcher::{self, watcher},
    },
};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;

/// First and longest wait before an interrupted watch is set up again, kube's own.
const WATCH_FIRST: Duration = Duration::from_millis(800);
const WATCH_LONGEST: Duration = Duration::from_secs(30);

/// A source of randomness. Clones go on with the same sequence.
#[derive(Debug, Clone, Default)]
pub struct Chance(Arc<Mutex<fastrand::Rng>>);

impl Chance {
    /// The sequence that belongs to a seed; [`Chance::default`] has an unknown one.
    pub fn seeded(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(fastrand::Rng::with_seed(seed))))
    }

    /// The next number, uniform in 0..1.
    pub fn fraction(&self) -> f64 {
        self.0.lock().f64()
    }

    /// Watches what `config` selects; each wait after an interruption is of this sequence.
    pub fn watch<K>(
        &self,
        api: Api<K>,
        config: watcher::Config,
    ) -> impl Stream<Item = watcher::Result<watcher::Event<K>>> + Send + use<K>
    where
        K: Resource + Clone + DeserializeOwned + std::fmt::Debug + Send + 'static,
    {
        begun_again(move || watcher(api.clone(), config.clone()).boxed()).backoff(self.watch_backoff())
    }

    /// Waits between attempts to watch, doubled with each and up to doubled once more by chance.
    fn watch_backoff(&self) -> WatchBackoff {
        WatchBackoff { chance: self.clone(), failures: 0 }
    }
}

/// Lists anew when the API server answers with the status 410 that the version to watch from is gone. kube does so only
/// where an event of the watch says it, and would ask for the same version for ever.
fn begun_again<E, S>(start: impl Fn() -> S + Send) -> impl Stream<Item = watcher::Result<E>> + Send
where
    S: Stream<Item = watcher::Result<E>> + Send + Unpin,
    E: Send,
{
    stream::unfold((start(), start), |(mut events, start)| async {
        let event = events.next().await?;
        if let Err(watcher::Error::WatchStartFailed(kube::Error::Api(status))) = &event
            && status.code == 410
        {
            events = start();
        }
        Some((event, (events, start)))
    })
}

/// See [`Chance::watch_backoff`]. It starts afresh when a watch delivers something.
#[derive(Debug, Clone)]
struct WatchBackoff {
    chance: Chance,
    failures: u32,
}

impl Iterator for WatchBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let wait = WATCH_FIRST.saturating_mul(1 << self.failures.min(16)).min(WATCH_LONGEST);
        self.failures = self.failures.saturating_add(1);
        Some(wait.mul_f64(1.0 + self.chance.fraction()))
    }
}

impl Backoff for WatchBackoff {
    fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::VecDeque, convert::Infallible};

    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::{Client, ResourceExt as _, client::Body, core::Status, runtime::watcher::Event};
    use serde_json::{Value, json};

    use super::*;

    fn map(version: u32) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "resourceVersion": version.to_string()}})
    }

    fn expired() -> Value {
        serde_json::to_value(Status::failure("too old resource version", "Expired").with_code(410)).unwrap()
    }

    /// An API server that answers each watch with the next of `watches`: status and body. Each list has a newer version.
    fn server(watches: Vec<(u16, Value)>) -> Client {
        let watches = Arc::new(Mutex::new((VecDeque::from(watches), 0)));
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let watches = watches.clone();
            async move {
                let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
                let next = if is_watch { watches.lock().0.pop_front() } else { None };
                let (status, body) = match next {
                    Some(answer) => answer,
                    None if is_watch => std::future::pending().await,
                    None => {
                        let mut watches = watches.lock();
                        watches.1 += 10;
                        let meta = json!({"resourceVersion": watches.1.to_string()});
                        let items = [map(watches.1)];
                        (
                            200,
                            json!({"apiVersion": "v1", "kind": "ConfigMapList", "metadata": meta, "items": items}),
                        )
                    }
                };
                let body = Body::from(format!("{body}\n").into_bytes());
                Ok::<_, Infallible>(http::Response::builder().status(status).body(body).unwrap())
            }
        });
        Client::new(service, "default")
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_from_a_version_that_is_gone_lists_anew_however_that_is_said() {
        let changed = |version| json!({"type": "MODIFIED", "object": map(version)});
        let client = server(vec![
            (200, changed(11)),
            (410, expired()),
            (200, changed(21)),
            (200, json!({"type": "ERROR", "object": expired()})),
            (200, changed(31)),
        ]);
        let watched = Chance::seeded(1).watch(Api::<ConfigMap>::all(client), watcher::Config::default());
        let versions = watched.filter_map(async |event| match event {
            Ok(Event::InitApply(map) | Event::Apply(map)) => map.resource_version(),
            _ => None,
        });
        let wanted = ["10", "11", "20", "21", "30", "31"];
        let seen = versions.take(wanted.len()).collect::<Vec<_>>();
        assert_eq!(tokio::time::timeout(Duration::from_hours(1), seen).await.unwrap(), wanted);
    }

    #[test]
    fn a_seed_has_one_sequence_of_waits_and_they_grow_to_a_limit() {
        let waits = |seed| Chance::seeded(seed).watch_backoff().take(9).collect::<Vec<_>>();
        assert_eq!(waits(7), waits(7));
        assert_ne!(waits(7), waits(8));
        assert!(waits(7)[0] >= WATCH_FIRST && waits(7)[0] <= 2 * WATCH_FIRST);
        assert!(waits(7)[8] >= WATCH_LONGEST && waits(7)[8] <= 2 * WATCH_LONGEST);
        let mut backoff = Chance::seeded(7).watch_backoff();
        backoff.by_ref().take(5).for_each(drop);
        backoff.reset();
        assert!(backoff.next().unwrap() <= 2 * WATCH_FIRST);
    }
}
