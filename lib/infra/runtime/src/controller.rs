//! Runs one controller: bounded concurrency, a backoff for each object, a wall around panics, metrics.

use std::{
    collections::BTreeSet, fmt::Debug, future::Future, panic::AssertUnwindSafe, sync::Arc, time::Duration,
};

use futures::{FutureExt, StreamExt};
use kube::{
    Resource, ResourceExt,
    runtime::reflector::{ObjectRef, Store},
};
use serde::de::DeserializeOwned;
use tokio::{task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::{
    backoff::{Backoff, Limits},
    chance::Chance,
    guarded::Guarded,
    interests::{Interest, Interests},
    metrics::ControllerMetrics,
    queue::{Cause, Queue},
    source::Source,
};

/// How long reconciles may go on when the process stops. They are safe to kill: what they began is found and finished by
/// the next leader, who waits for them.
const STOP_PATIENCE: Duration = Duration::from_secs(3);

/// What the condition of an object says whose reconcile panicked. What the panic itself says may be foreign text.
pub const PANIC_REPORT: &str =
    "a bug in the controller stopped the work on this object: the log has the details, and it is retried";

/// What a reconcile wants to happen next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Nothing, until something changes.
    Await,
    /// Another look after this time.
    After(Duration),
    /// It failed and is tried again with backoff; the text is logged.
    Retry(String),
    /// The same, but no later than after this time: something is to be reported then.
    RetryWithin(String, Duration),
    /// It failed and is tried again after exactly this time; the text is logged.
    RetryAfter(String, Duration),
    /// It failed in a way that only a change of the object or its sources can heal; the text is logged.
    Blocked(String),
}

impl Next {
    /// The word for it in traces.
    fn outcome(&self) -> &'static str {
        match self {
            Self::Await => "await",
            Self::After(_) => "after",
            Self::Retry(_) | Self::RetryWithin(..) | Self::RetryAfter(..) => "retry",
            Self::Blocked(_) => "blocked",
        }
    }
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
    /// What jitters them.
    pub chance: Chance,
}

/// What a controller does with the objects of a kind.
pub trait Reconciler: Send + Sync + 'static {
    /// The kind.
    type Object: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static;
    /// What reconciles of its objects depend on.
    type Interest: Interest;

    /// The condition that sums an object up: by its state objects are counted. Empty where they are not.
    const CONDITION: &'static str;

    /// Status and reason of that condition.
    fn state(object: &Self::Object) -> Option<(&str, &str)>;

    /// The number of the last edit of an object that has changed, of [`Edits`](crate::Edits): what was edited last is worked
    /// on first. 0 where the order of events decides.
    fn edited(&self, _object: &Self::Object) -> u64 {
        0
    }

    /// An object of this key has gone; nothing has to be known of it any more.
    fn gone(&self, _key: &str) {}

    /// One reconcile; which interests wake the object from then on.
    fn reconcile(
        &self,
        object: &Self::Object,
    ) -> impl Future<Output = (Next, BTreeSet<Self::Interest>)> + Send;

    /// Reports on an object that its reconcile panicked.
    fn report_panic(&self, object: &Self::Object) -> impl Future<Output = ()> + Send;
}

/// Runs until `shutdown`; reconciles under way get 3 s to finish and are aborted then.
///
/// Objects that have changed are served first, what was edited last before others. Those that do not parse are logged and
/// left out; the others continue.
pub async fn run<R: Reconciler>(
    settings: Settings,
    source: Source<R::Object>,
    interests: &Interests<R::Interest>,
    metrics: ControllerMetrics,
    shutdown: CancellationToken,
    reconciler: R,
) {
    let name = settings.name;
    let concurrency = usize::from(settings.concurrency.max(1));
    let backoff = Backoff::new(settings.backoff);
    let mut queue = Queue::new(metrics.queue());
    metrics.workers_max(settings.concurrency);
    let shared = Arc::new(Shared { settings, reconciler, metrics, backoff });
    let (store, listed) = (source.store.clone(), source.listed());
    let (mut changes, ready) = source.into_parts();
    let waiting = interests.join();
    let mut running = JoinSet::new();
    let mut may_begin = std::pin::pin!(listed.then(|()| ready));
    let mut begun = false;
    loop {
        while begun && running.len() < concurrency {
            let Some(next) = queue.take() else { break };
            let object = store.get(&object_ref(&next));
            let uid = object.as_ref().and_then(|object| object.uid()).unwrap_or_default();
            waiting.state.lock().begin(&next, &uid);
            running.spawn(turn(next, uid, object, shared.clone()));
        }
        let due = queue.next_due().into_iter().chain(waiting.state.lock().next_due()).min();
        tokio::select! {
            // In this order, so that the same events have the same outcome.
            biased;
            () = shutdown.cancelled() => break,
            Some(done) = running.join_next() => match done {
                Ok(Ended { name, uid, again, interests }) => {
                    queue.done(&name);
                    if waiting.state.lock().end(&name, &uid, interests) {
                        queue.ask(&name, Cause::Change);
                    }
                    match again {
                        Again::Never => {}
                        Again::After(wait) => queue.ask_at(&name, Instant::now() + wait),
                        Again::Retry(wait) => queue.retry_at(&name, Instant::now() + wait),
                    }
                }
                // Panics are caught before.
                Err(error) => tracing::error!(controller = name, %error, "reconcile ended"),
            },
            Some(change) = changes.next() => match change {
                // All that there is comes first.
                Ok(object) => {
                    let key = object_key(&object);
                    queue.rank(&key, shared.edited(&store, &object));
                    queue.ask(&key, if begun { Cause::Change } else { Cause::Background });
                }
                Err(error) => tracing::debug!(controller = name, %error, "watch interrupted"),
            },
            () = &mut may_begin, if !begun => begun = true,
            // It is due at once, or later.
            () = waiting.fired() => {}
            () = tokio::time::sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                let now = Instant::now();
                queue.due(now);
                for (name, is_shared) in waiting.state.lock().wake(now) {
                    queue.ask(&name, if is_shared { Cause::Background } else { Cause::Change });
                }
            }
            else => break,
        }
    }
    let finished = async { while running.join_next().await.is_some() {} };
    if tokio::time::timeout(STOP_PATIENCE, finished).await.is_err() {
        tracing::warn!(
            controller = name,
            count = running.len(),
            "reconciles that did not end in time are aborted"
        );
    }
}

/// The name of an object in queues, interests, logs and metrics: with its namespace, `<namespace>/<name>`.
pub fn object_key(object: &impl Resource) -> String {
    let name = object.name_any();
    object.namespace().map_or_else(|| name.clone(), |namespace| format!("{namespace}/{name}"))
}

/// The object of a key. Names have no slash.
fn object_ref<K: Resource<DynamicType = ()>>(key: &str) -> ObjectRef<K> {
    match key.split_once('/') {
        Some((namespace, name)) => ObjectRef::new(name).within(namespace),
        None => ObjectRef::new(key),
    }
}

/// When an object is worked on again although nothing happens to it.
enum Again {
    Never,
    After(Duration),
    Retry(Duration),
}

struct Shared<R> {
    settings: Settings,
    reconciler: R,
    metrics: ControllerMetrics,
    backoff: Backoff<String>,
}

impl<R> Shared<R> {
    /// After which time an object is tried again that has failed once more.
    fn wait(&self, name: &str) -> Duration {
        self.backoff.failed(name.to_owned(), self.settings.chance.fraction())
    }
}

impl<R: Reconciler> Shared<R> {
    /// The number of the last edit of an object that has changed; 0 if it has gone.
    fn edited(&self, store: &Store<Guarded<R::Object>>, object: &Guarded<R::Object>) -> u64 {
        let known = object.0.as_ref().ok().filter(|_| store.get(&object_ref(&object_key(object))).is_some());
        known.map_or(0, |object| self.reconciler.edited(object))
    }
}

/// The turn of an object is over.
struct Ended<I> {
    name: String,
    uid: String,
    again: Again,
    /// The interests of the object; `None` if they are not known.
    interests: Option<BTreeSet<I>>,
}

/// The turn of an object: it may have gone between its event and now.
async fn turn<R: Reconciler>(
    name: String,
    uid: String,
    object: Option<Arc<Guarded<R::Object>>>,
    shared: Arc<Shared<R>>,
) -> Ended<R::Interest> {
    let Some(object) = object else {
        shared.metrics.objects().gone(&R::Object::kind(&()), &name);
        // Another one of its name begins anew.
        shared.backoff.succeeded(&name);
        shared.reconciler.gone(&name);
        return Ended { name, uid, again: Again::Never, interests: Some(BTreeSet::new()) };
    };
    let (again, interests) = one(object, shared).await;
    Ended { name, uid, again, interests }
}

/// One reconcile; returns when another one is wanted, and the interests unless it panicked.
async fn one<R: Reconciler>(
    guarded: Arc<Guarded<R::Object>>,
    shared: Arc<Shared<R>>,
) -> (Again, Option<BTreeSet<R::Interest>>) {
    let name = object_key(&*guarded);
    let controller = shared.settings.name;
    let object = match &guarded.0 {
        Ok(object) => object,
        Err(invalid) => {
            tracing::error!(controller, name, error = %invalid, "object does not parse and is left alone");
            return (Again::Never, Some(BTreeSet::new()));
        }
    };
    shared.metrics.begins();
    let started = Instant::now();
    let span = tracing::info_span!("reconcile", controller, name, outcome = tracing::field::Empty);
    if !R::CONDITION.is_empty() {
        shared.metrics.objects().observe(object, R::CONDITION, R::state(object));
    }
    let reconcile = Box::pin(shared.reconciler.reconcile(object));
    let (next, interests) = match AssertUnwindSafe(reconcile).catch_unwind().instrument(span.clone()).await {
        Ok((next, interests)) => (next, Some(interests)),
        Err(panic) => {
            shared.metrics.panicked();
            if AssertUnwindSafe(shared.reconciler.report_panic(object)).catch_unwind().await.is_err() {
                tracing::error!(controller, name, "reporting a panic panicked");
            }
            (Next::Retry(format!("panic: {}", panic_text(panic.as_ref()))), None)
        }
    };
    span.record("outcome", next.outcome());
    shared.metrics.reconciled(&next, started.elapsed());
    // One line for each outcome. The words of the good one are upstream's, which scenarios look for.
    if matches!(next, Next::Await | Next::After(_)) {
        tracing::info!(controller, name, "reconcile ending");
    }
    (again(next, &name, &shared), interests)
}

/// When another reconcile is wanted.
fn again<R>(next: Next, name: &str, shared: &Shared<R>) -> Again {
    let controller = shared.settings.name;
    match next {
        Next::Await => {
            shared.backoff.succeeded(name);
            Again::Never
        }
        Next::After(wait) => {
            shared.backoff.succeeded(name);
            Again::After(wait)
        }
        Next::Blocked(error) => {
            shared.backoff.succeeded(name);
            tracing::warn!(controller, name, error, "blocked until something changes");
            Again::Never
        }
        Next::Retry(error) => retry(controller, name, &error, shared.wait(name)),
        Next::RetryWithin(error, most) => retry(controller, name, &error, shared.wait(name).min(most)),
        Next::RetryAfter(error, wait) => {
            shared.backoff.succeeded(name);
            retry(controller, name, &error, wait)
        }
    }
}

/// Logs that a reconcile failed and is tried again after this time.
fn retry(controller: &str, name: &str, error: &str, wait: Duration) -> Again {
    tracing::warn!(controller, name, error, retry_in_seconds = wait.as_secs_f32(), "reconcile failed");
    Again::Retry(wait)
}

pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("unknown")
}

#[cfg(test)]
mod tests;
