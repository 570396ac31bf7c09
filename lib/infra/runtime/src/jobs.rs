//! Jobs: work that may take minutes, such as a pull, outside of the workers of a controller.
//!
//! A reconcile requests a job and ends; when the job has ended, the objects that requested it are reconciled again and
//! find its result. A job that no object needs any more is cancelled. One that failed is held back with a growing wait,
//! whatever else causes a reconcile of its objects.

use std::{collections::BTreeMap, future::Future, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use educe::Educe;
use futures::FutureExt as _;
use parking_lot::Mutex;
use thiserror::Error;
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    backoff::{Backoff, Limits},
    chance::Chance,
    controller::panic_text,
};

#[cfg(test)]
mod tests;

/// A job panicked, which is a fault of this program.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("panic: {0}")]
pub struct Panicked(pub String);

/// Takes the name of an object whose job has ended.
pub type JobEnded = Arc<dyn Fn(&str) + Send + Sync>;

/// What a job is given.
pub struct JobContext<P> {
    /// Cancelled when no object needs the job any more. Its future is dropped soon after; threads that it started have to
    /// check.
    pub cancelled: CancellationToken,
    /// Takes how far it is.
    pub progress: watch::Sender<Option<P>>,
}

/// The state of a job.
#[derive(Debug)]
pub enum Job<T, P, E> {
    /// It runs. The object is reconciled again when it ends.
    Running {
        /// For how long.
        elapsed: Duration,
        /// How far it is, if it has said so.
        progress: Option<P>,
        /// Why it failed the last time, if this is another attempt.
        failed: Option<Arc<E>>,
    },
    /// It failed and is not started again yet.
    Failed {
        /// Why.
        error: Arc<E>,
        /// How long until it may be started again.
        wait: Duration,
        /// Whether the object is given this failure for the first time.
        is_new: bool,
    },
    /// It succeeded. The object's next request starts it anew.
    Done(T),
}

/// The jobs of one kind. `T` is what they bring, `P` how they say how far they are. They are cancelled when the last
/// clone is dropped.
#[derive(Educe)]
#[educe(Clone)]
pub struct Jobs<T, P, E>(Arc<Shared<T, P, E>>);

struct Shared<T, P, E> {
    jobs: Mutex<BTreeMap<String, Entry<T, P, E>>>,
    ended: JobEnded,
    backoff: Backoff<String>,
    chance: Chance,
}

struct Entry<T, P, E> {
    stage: Stage<T, P>,
    /// How long it is held back after a failure, if not for a growing time.
    wait: Option<Duration>,
    /// The objects that need it, and whether they were given the last failure.
    objects: BTreeMap<String, bool>,
    failed: Option<Arc<E>>,
}

enum Stage<T, P> {
    Running { since: Instant, progress: watch::Receiver<Option<P>>, _cancel: DropGuard },
    Failed { retry_at: Instant },
    Done(T),
}

impl<T, P, E> Jobs<T, P, E>
where
    T: Clone + Send + 'static,
    P: Clone + Send + Sync + 'static,
    E: From<Panicked> + Send + Sync + 'static,
{
    /// No jobs yet. `ended` is called with the name of each object whose job has ended; `backoff` is how long failed ones
    /// are held back.
    pub fn new(ended: JobEnded, backoff: Limits, chance: Chance) -> Self {
        Self(Arc::new(Shared { jobs: Mutex::default(), ended, backoff: Backoff::new(backoff), chance }))
    }

    /// The state of the job `key`, which `object` needs from now on. It is started unless it runs, has ended since the
    /// last request, or failed and is held back. An object needs one job: another one that it requested is released.
    pub fn request<F>(&self, object: &str, key: &str, start: impl FnOnce(JobContext<P>) -> F) -> Job<T, P, E>
    where
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        self.request_waiting(object, (key, None), start)
    }

    /// The same for a job that is held back for this time after each failure, not for a growing one.
    pub fn request_waiting<F>(
        &self,
        object: &str,
        (key, wait): (&str, Option<Duration>),
        start: impl FnOnce(JobContext<P>) -> F,
    ) -> Job<T, P, E>
    where
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        let mut jobs = self.0.jobs.lock();
        self.0.release(&mut jobs, object, Some(key));
        let now = Instant::now();
        let mut entry = match jobs.remove(key) {
            Some(entry) if !matches!(entry.stage, Stage::Failed { retry_at } if retry_at <= now) => entry,
            Some(entry) => Entry { stage: self.start(key, start), ..entry },
            None => Entry { stage: self.start(key, start), wait, objects: BTreeMap::new(), failed: None },
        };
        entry.wait = wait;
        let (failed, given) = (entry.failed.clone(), entry.objects.entry(object.to_owned()).or_default());
        let job = match (&entry.stage, failed) {
            (Stage::Done(done), _) => {
                let done = done.clone();
                entry.objects.remove(object);
                Job::Done(done)
            }
            (Stage::Failed { retry_at }, Some(error)) => {
                let is_new = !std::mem::replace(given, true);
                Job::Failed { error, wait: retry_at.saturating_duration_since(now), is_new }
            }
            (Stage::Failed { .. }, failed) => {
                Job::Running { elapsed: Duration::ZERO, progress: None, failed }
            }
            (Stage::Running { since, progress, .. }, failed) => {
                Job::Running { elapsed: now - *since, progress: progress.borrow().clone(), failed }
            }
        };
        if !entry.objects.is_empty() {
            jobs.insert(key.to_owned(), entry);
        }
        job
    }

    /// Whether `object` has requested the job `key` and was not given its success yet.
    pub fn has(&self, object: &str, key: &str) -> bool {
        self.0.jobs.lock().get(key).is_some_and(|entry| entry.objects.contains_key(object))
    }

    /// Whether `object` has requested a job, whichever, and was not given its success yet.
    pub fn is_wanted(&self, object: &str) -> bool {
        self.0.jobs.lock().values().any(|entry| entry.objects.contains_key(object))
    }

    /// Whether a job that `object` has requested runs.
    pub fn is_running(&self, object: &str) -> bool {
        let runs = |entry: &Entry<T, P, E>| {
            entry.objects.contains_key(object) && matches!(entry.stage, Stage::Running { .. })
        };
        self.0.jobs.lock().values().any(runs)
    }

    /// `object` needs no job any more. What no other object needs is cancelled.
    pub fn release(&self, object: &str) {
        self.0.release(&mut self.0.jobs.lock(), object, None);
    }

    /// Lets every job that failed be started again without a wait.
    pub fn retry_now(&self) {
        for entry in self.0.jobs.lock().values_mut() {
            if let Stage::Failed { retry_at } = &mut entry.stage {
                *retry_at = Instant::now();
            }
        }
    }

    fn start<F>(&self, key: &str, start: impl FnOnce(JobContext<P>) -> F) -> Stage<T, P>
    where
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        let cancelled = CancellationToken::new();
        let (progress, seen) = watch::channel(None);
        let work = start(JobContext { cancelled: cancelled.clone(), progress });
        // Not the jobs themselves: they end with their last clone.
        let (shared, key, own) = (Arc::downgrade(&self.0), key.to_owned(), cancelled.clone());
        tokio::spawn(async move {
            let work = AssertUnwindSafe(work).catch_unwind();
            let Some(ended) = own.run_until_cancelled(work).await else { return };
            let Some(shared) = shared.upgrade() else { return };
            let result = ended.unwrap_or_else(|panic| Err(Panicked(panic_text(&*panic).to_owned()).into()));
            for object in shared.record(&key, &own, result) {
                (shared.ended)(&object);
            }
        });
        Stage::Running { since: Instant::now(), progress: seen, _cancel: cancelled.drop_guard() }
    }
}

impl<T, P, E> Shared<T, P, E> {
    /// Takes the object off all jobs but one. A job that is removed is cancelled by that.
    fn release(&self, jobs: &mut BTreeMap<String, Entry<T, P, E>>, object: &str, but: Option<&str>) {
        jobs.retain(|key, entry| {
            if Some(key.as_str()) == but || entry.objects.remove(object).is_none() {
                return true;
            }
            if entry.objects.is_empty() {
                self.backoff.succeeded(key);
            }
            !entry.objects.is_empty()
        });
    }

    /// Keeps the result of a job that was not cancelled meanwhile; the objects that are to be reconciled for it.
    fn record(&self, key: &str, own: &CancellationToken, result: Result<T, E>) -> Vec<String> {
        let mut jobs = self.jobs.lock();
        let Some(entry) = jobs.get_mut(key).filter(|_| !own.is_cancelled()) else { return Vec::new() };
        match result {
            Ok(done) => {
                self.backoff.succeeded(key);
                (entry.stage, entry.failed) = (Stage::Done(done), None);
            }
            Err(error) => {
                let growing = self.backoff.failed(key.to_owned(), self.chance.fraction());
                let wait = entry.wait.unwrap_or(growing);
                entry.stage = Stage::Failed { retry_at: Instant::now() + wait };
                entry.failed = Some(Arc::new(error));
                entry.objects.values_mut().for_each(|given| *given = false);
            }
        }
        entry.objects.keys().cloned().collect()
    }
}
