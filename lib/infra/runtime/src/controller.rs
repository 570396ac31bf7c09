//! Runs one controller: bounded concurrency, a backoff for each object, a wall around panics, metrics.

use std::{fmt::Debug, future::Future, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::{FutureExt, StreamExt, stream::BoxStream};
use kube::{
    Api, Client, Resource, ResourceExt,
    core::DeserializeGuard,
    runtime::{
        Controller, WatchStreamExt,
        controller::{self, Action, Config},
        reflector::{ObjectRef, Store, store},
        watcher,
    },
};
use serde::de::DeserializeOwned;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{
    backoff::{Backoff, Limits},
    metrics::ControllerMetrics,
    queue::QueueMetrics,
};

/// What a reconcile wants to happen next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Nothing, until something changes.
    Await,
    /// Another look after this time.
    After(Duration),
    /// It failed and is tried again with backoff; the text is logged.
    Retry(String),
    /// It failed in a way that only a change of the object or its sources can heal; the text is logged.
    Blocked(String),
}

/// How a controller runs.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Name in logs and metrics.
    pub name: &'static str,
    /// Objects reconciled at the same time.
    pub concurrency: u16,
    /// Waits after failures.
    pub backoff: Limits,
}

/// A watched kind: its store and the stream that feeds it.
pub struct Source<K: Resource<DynamicType = ()> + Clone + 'static> {
    /// The objects as last seen.
    pub store: Store<DeserializeGuard<K>>,
    stream: BoxStream<'static, Result<DeserializeGuard<K>, watcher::Error>>,
}

impl<K> Source<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    /// Watches all objects of a kind. What no reconcile reads is not kept in memory.
    pub fn all(client: Client) -> Self {
        let (reader, writer) = store();
        let stream =
            kube::runtime::watcher(Api::<DeserializeGuard<K>>::all(client), watcher::Config::default())
                .default_backoff()
                .modify(|object| {
                    object.meta_mut().managed_fields = None;
                    object.annotations_mut().remove("kubectl.kubernetes.io/last-applied-configuration");
                })
                .reflect(writer)
                .touched_objects()
                .boxed();
        Self { store: reader, stream }
    }

    /// Calls `observer` with every object that changes, deleted ones included, before it is reconciled.
    #[must_use]
    pub fn observed<F: Future<Output = ()> + Send + 'static>(
        self,
        observer: impl Fn(&K) -> F + Send + Sync + 'static,
    ) -> Self {
        let observer = Arc::new(observer);
        let stream = self.stream.then(move |item| {
            let observer = observer.clone();
            async move {
                if let Ok(DeserializeGuard(Ok(object))) = &item {
                    observer(object).await;
                }
                item
            }
        });
        Self { store: self.store, stream: stream.boxed() }
    }

    /// Only the names of changed objects (`None` for an interruption), for who reads the store alone.
    pub fn into_names(self) -> BoxStream<'static, Option<String>> {
        self.stream.map(|item| item.ok().map(|object| object.name_any())).boxed()
    }
}

/// Names an object to be reconciled although nothing happened to it.
pub type Wake<K> = ObjectRef<DeserializeGuard<K>>;

/// Runs until `shutdown`; in-flight reconciles are finished first.
///
/// Objects that do not parse are logged and left out; the others go on.
pub async fn run<K, R, F>(
    settings: Settings,
    source: Source<K>,
    wakes: Vec<BoxStream<'static, Wake<K>>>,
    metrics: ControllerMetrics,
    shutdown: CancellationToken,
    reconcile: R,
) where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    R: Fn(Arc<K>) -> F + Send + Sync + 'static,
    F: Future<Output = Next> + Send + 'static,
{
    let name = settings.name;
    let queue = metrics.queue();
    metrics.workers_max(settings.concurrency);
    let added = queue.clone();
    let stream = source.stream.inspect(move |item| {
        if let Ok(object) = item {
            added.added(&object.name_any());
        }
    });
    let mut controller = Controller::for_stream(stream, source.store)
        .with_config(Config::default().concurrency(settings.concurrency))
        .graceful_shutdown_on(async move { shutdown.cancelled().await });
    for wake in wakes {
        let added = queue.clone();
        controller = controller.reconcile_on(wake.inspect(move |object| added.added(&object.name)));
    }
    let backoff = Backoff::new(settings.backoff);
    let shared = Arc::new(Shared { settings, reconcile, metrics, queue: queue.clone(), backoff });
    let outcomes = controller.run(one, |_, never, _| match *never {}, shared);
    let mut outcomes = std::pin::pin!(outcomes);
    while let Some(outcome) = outcomes.next().await {
        if let Err(error) = outcome {
            // An object that went away between its event and its turn, or a watch that is set up again.
            if let controller::Error::ObjectNotFound(object) = &error {
                queue.dropped(&object.name);
            }
            tracing::debug!(controller = name, %error, "event dropped");
        }
    }
}

struct Shared<R> {
    settings: Settings,
    reconcile: R,
    metrics: ControllerMetrics,
    queue: QueueMetrics,
    backoff: Backoff<String>,
}

async fn one<K, R, F>(
    guarded: Arc<DeserializeGuard<K>>,
    shared: Arc<Shared<R>>,
) -> Result<Action, std::convert::Infallible>
where
    K: Resource<DynamicType = ()> + Clone + Send + Sync + 'static,
    R: Fn(Arc<K>) -> F + Send + Sync + 'static,
    F: Future<Output = Next> + Send + 'static,
{
    let name = guarded.name_any();
    let controller = shared.settings.name;
    let object = match &guarded.0 {
        Ok(object) => Arc::new(object.clone()),
        Err(invalid) => {
            tracing::error!(controller, name, error = %invalid, "object does not parse and is left alone");
            return Ok(Action::await_change());
        }
    };
    shared.metrics.begins();
    shared.queue.taken(&name);
    let started = Instant::now();
    let next = match AssertUnwindSafe((shared.reconcile)(object)).catch_unwind().await {
        Ok(next) => next,
        Err(panic) => {
            shared.metrics.panicked();
            Next::Retry(format!("panic: {}", panic_text(panic.as_ref())))
        }
    };
    let took = started.elapsed();
    shared.metrics.reconciled(&next, took);
    shared.queue.done(took);
    tracing::debug!(controller, name, ?next, "reconcile ending");
    Ok(match next {
        Next::Await => {
            shared.backoff.succeeded(&name);
            Action::await_change()
        }
        Next::After(wait) => {
            shared.backoff.succeeded(&name);
            shared.queue.later(&name, wait);
            Action::requeue(wait)
        }
        Next::Blocked(error) => {
            shared.backoff.succeeded(&name);
            tracing::warn!(controller, name, error, "blocked until something changes");
            Action::await_change()
        }
        Next::Retry(error) => {
            let wait = shared.backoff.failed(name.clone(), fastrand::f64());
            tracing::warn!(
                controller,
                name,
                error,
                retry_in_seconds = wait.as_secs_f32(),
                "reconcile failed"
            );
            shared.queue.retried(&name, wait);
            Action::requeue(wait)
        }
    })
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("unknown")
}

#[cfg(test)]
mod tests;
