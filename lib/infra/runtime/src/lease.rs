//! Leader election over a Lease, as client-go does it.
//!
//! A candidate takes over only after the record has not changed for the lease's duration on its *own*
//! monotonic clock, and writes with the resource version it read: two can never both believe they won.
//! [`decide`] is pure; [`Elector`] does what it says.

use std::{future::Future, time::Duration};

use futures::StreamExt;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
    jiff::Timestamp,
};
use kube::{Api, Client, api::PostParams, runtime::watcher};
use parking_lot::Mutex;
use thiserror::Error;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{chance::Chance, client::bounded, fence::Fence};

/// How long the work of a leader may take to end when the process stops. What is left then is dropped: it has to be
/// safe to kill anyway, and a lease that is held longer keeps everybody waiting.
const WORK_END: Duration = Duration::from_secs(4);
/// How long a lease is tried to be released. No candidate waits longer for it than until it runs out.
const RELEASE: Duration = Duration::from_secs(3);
/// Between two attempts to release it.
const RELEASE_RETRY: Duration = Duration::from_millis(200);

/// A lease went to another process, or could not be renewed in time.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "leadership lost: Lease {lease:?} was not renewed in time, so another process may lead now: this process ends and starts again"
)]
pub struct LeaseLost {
    /// Its name.
    pub lease: String,
}

/// Timing of an election.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// How long a record is honoured that is not renewed.
    pub duration: Duration,
    /// How long the leader tries to renew before it gives up.
    pub renew_deadline: Duration,
    /// Time between attempts of a candidate, and of a leader after one that failed.
    pub retry: Duration,
}

impl Terms {
    /// Time after which a lease that was renewed is renewed again: later than after an attempt that failed, since each
    /// renewal is a write that etcd keeps.
    fn renewal(self) -> Duration {
        self.retry + self.retry / 3
    }
}

/// Upstream's timing: 137 s, 107 s, 26 s.
pub const DEFAULT_TERMS: Terms = Terms {
    duration: Duration::from_secs(137),
    renew_deadline: Duration::from_secs(107),
    retry: Duration::from_secs(26),
};

/// What a candidate has seen of the lease's record.
#[derive(Debug, Clone)]
struct Observed {
    spec: LeaseSpec,
    since: Instant,
}

/// What to do about a lease.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// Write our identity; `transition` when another process held it before.
    Take { transition: bool },
    /// Another process holds it.
    Wait,
}

/// A record counts from when it was seen first.
fn observe(observed: &mut Option<Observed>, spec: LeaseSpec) {
    if observed.as_ref().is_none_or(|o| o.spec != spec) {
        *observed = Some(Observed { spec, since: Instant::now() });
    }
}

fn decide(spec: &LeaseSpec, identity: &str, unchanged_for: Duration) -> Step {
    let holder = spec.holder_identity.as_deref().unwrap_or_default();
    if holder == identity {
        return Step::Take { transition: false };
    }
    let duration = Duration::from_secs(u64::try_from(spec.lease_duration_seconds.unwrap_or(0)).unwrap_or(0));
    if holder.is_empty() || unchanged_for > duration {
        return Step::Take { transition: true };
    }
    Step::Wait
}

/// Campaigns for one lease.
pub struct Elector {
    api: Api<Lease>,
    name: String,
    identity: String,
    terms: Terms,
    fence: Fence,
    chance: Chance,
    followed: Mutex<Option<Observed>>,
    /// The lease as it was written last, if nothing else is known of it since.
    written: Mutex<Option<Lease>>,
}

impl Elector {
    /// A candidate for the lease `name` in `namespace`.
    pub fn new(client: Client, namespace: &str, name: &str, identity: &str, terms: Terms) -> Self {
        let api = Api::namespaced(client, namespace);
        let (name, identity) = (name.to_owned(), identity.to_owned());
        Self {
            api,
            name,
            identity,
            terms,
            fence: Fence::default(),
            chance: Chance::default(),
            followed: Mutex::default(),
            written: Mutex::default(),
        }
    }

    /// Takes its waits from a sequence.
    #[must_use]
    pub fn seeded(self, chance: &Chance) -> Self {
        Self { chance: chance.clone(), ..self }
    }

    /// Tells a fence until when the lease counts, while it is held.
    #[must_use]
    pub fn fenced(self, fence: &Fence) -> Self {
        Self { fence: fence.clone(), ..self }
    }

    /// Campaigns, runs `work` while leading, and releases the lease.
    ///
    /// On `shutdown` the token of `work` is cancelled; the lease is renewed until `work` has ended, which takes 4 s at
    /// most. `work` is dropped at once when the lease is lost.
    ///
    /// # Errors
    /// The lease was lost. The process should end: what it knows may be out of date.
    pub async fn lead<F: Future<Output = ()>>(
        &self,
        shutdown: CancellationToken,
        work: impl FnOnce(CancellationToken) -> F,
    ) -> Result<(), LeaseLost> {
        let mut observed = self.followed.lock().take();
        tokio::select! {
            () = shutdown.cancelled() => {
                // The last attempt may have been successful, with no task left to read the answer.
                self.release().await;
                return Ok(());
            }
            () = Box::pin(self.acquire(&mut observed)) => {}
        }
        tracing::info!(lease = self.name, identity = self.identity, "leading");
        let led = self.work(&mut observed, &shutdown, work).await;
        if led.is_err() {
            tracing::error!(lease = self.name, "leadership lost: the lease could not be renewed in time");
            return led;
        }
        self.release().await;
        led
    }

    /// Runs `work` and renews the lease meanwhile.
    async fn work<F: Future<Output = ()>>(
        &self,
        observed: &mut Option<Observed>,
        shutdown: &CancellationToken,
        work: impl FnOnce(CancellationToken) -> F,
    ) -> Result<(), LeaseLost> {
        let stop = CancellationToken::new();
        let mut work = std::pin::pin!(work(stop.clone()));
        let mut renewal = std::pin::pin!(self.renew(observed));
        let lost = || LeaseLost { lease: self.name.clone() };
        tokio::select! {
            () = &mut work => return Ok(()),
            () = &mut renewal => return Err(lost()),
            () = shutdown.cancelled() => stop.cancel(),
        }
        tokio::select! {
            () = &mut work => Ok(()),
            () = &mut renewal => Err(lost()),
            () = tokio::time::sleep(WORK_END) => {
                tracing::warn!(lease = self.name, "work that did not end in time is dropped");
                Ok(())
            }
        }
    }

    /// Watches the record, without an end. A campaign that begins later counts from what was seen here: who waits for
    /// another lease before this one would otherwise wait for two of them to run out, one after the other.
    pub async fn follow(&self) {
        let record = watcher::Config::default().fields(&format!("metadata.name={}", self.name));
        let events = self.chance.watch(self.api.clone(), record);
        let mut events = std::pin::pin!(events);
        while let Some(event) = events.next().await {
            match event {
                Ok(watcher::Event::Apply(lease) | watcher::Event::InitApply(lease)) => {
                    let mut followed = self.followed.lock();
                    observe(&mut followed, lease.spec.unwrap_or_default());
                }
                Ok(_) => {}
                Err(error) => tracing::warn!(lease = self.name, %error, "following the lease"),
            }
        }
    }

    /// Tries until the lease is ours. Changes of the record are watched, so that one given back is taken at once.
    async fn acquire(&self, observed: &mut Option<Observed>) {
        let record = watcher::Config::default().fields(&format!("metadata.name={}", self.name));
        let events = self.chance.watch(self.api.clone(), record).filter(|event| {
            // The first list only says what has just been read.
            std::future::ready(matches!(event, Ok(watcher::Event::Apply(_) | watcher::Event::Delete(_))))
        });
        let mut events = std::pin::pin!(events);
        loop {
            match self.attempt(observed).await {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) => tracing::warn!(lease = self.name, %error, "campaigning for the lease"),
            }
            let wait = tokio::time::sleep(self.candidate_wait(observed.as_ref()));
            tokio::select! {
                () = wait => {}
                _ = events.next() => {}
            }
        }
    }

    /// A candidate looks again when the record runs out, at the latest after the retry period.
    fn candidate_wait(&self, observed: Option<&Observed>) -> Duration {
        let left = observed.and_then(|o| {
            let duration = u64::try_from(o.spec.lease_duration_seconds?).ok()?;
            Some(Duration::from_secs(duration).saturating_sub(o.since.elapsed()) + Duration::from_millis(50))
        });
        let jittered = self.terms.retry.mul_f64(0.9 + 0.2 * self.chance.fraction());
        left.map_or(jittered, |left| left.min(jittered)).min(Duration::from_secs(5))
    }

    async fn renew(&self, observed: &mut Option<Observed>) {
        let (mut renewed, mut wait) = (Instant::now(), self.terms.renewal());
        loop {
            tokio::time::sleep(wait).await;
            match self.attempt(observed).await {
                Ok(true) => (renewed, wait) = (Instant::now(), self.terms.renewal()),
                Ok(false) => {
                    // Another process has it.
                    self.fence.set(&self.name, Instant::now());
                    return;
                }
                Err(error) => {
                    tracing::warn!(lease = self.name, %error, "renewing the lease");
                    wait = self.terms.retry;
                }
            }
            let left = self.terms.renew_deadline.saturating_sub(renewed.elapsed());
            if left.is_zero() {
                return;
            }
            wait = wait.min(left);
        }
    }

    /// One attempt to take or renew; `true` when the lease is ours afterwards.
    async fn attempt(&self, observed: &mut Option<Observed>) -> Result<bool, kube::Error> {
        // Others count from when they see the new record, which is later.
        let asked = Instant::now();
        let ours = self.write(observed).await?;
        if ours {
            self.fence.set(&self.name, asked + self.terms.duration);
        }
        Ok(ours)
    }

    async fn write(&self, observed: &mut Option<Observed>) -> Result<bool, kube::Error> {
        let written = self.written.lock().take();
        if let Some(lease) = written
            && self.replace(lease, false).await?
        {
            return Ok(true);
        }
        // Another client has written it, or it is not known yet.
        let Some(lease) = bounded(self.api.get_opt(&self.name)).await? else {
            let lease = Lease {
                metadata: ObjectMeta { name: Some(self.name.clone()), ..Default::default() },
                spec: Some(self.record(None, false)),
            };
            let created = bounded(self.api.create(&PostParams::default(), &lease)).await;
            return self.note(created);
        };
        let spec = lease.spec.clone().unwrap_or_default();
        observe(observed, spec.clone());
        let unchanged_for = observed.as_ref().map_or(Duration::ZERO, |o| o.since.elapsed());
        let Step::Take { transition } = decide(&spec, &self.identity, unchanged_for) else {
            return Ok(false);
        };
        self.replace(lease, transition).await
    }

    /// Writes our record in the place of one that was read or written; `false` when another client was first.
    async fn replace(&self, lease: Lease, transition: bool) -> Result<bool, kube::Error> {
        let lease = Lease { spec: Some(self.record(lease.spec.as_ref(), transition)), ..lease };
        self.note(bounded(self.api.replace(&self.name, &PostParams::default(), &lease)).await)
    }

    fn note(&self, answer: Result<Lease, kube::Error>) -> Result<bool, kube::Error> {
        match answer {
            Ok(lease) => {
                *self.written.lock() = Some(lease);
                Ok(true)
            }
            // The Lease was changed, created or deleted by another client.
            Err(kube::Error::Api(status)) if [404, 409].contains(&status.code) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn record(&self, before: Option<&LeaseSpec>, transition: bool) -> LeaseSpec {
        let now = MicroTime(Timestamp::now());
        let transitions = before.and_then(|b| b.lease_transitions).unwrap_or(0);
        let acquired = before.filter(|_| !transition).and_then(|b| b.acquire_time.clone());
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(self.terms.duration.as_secs()).ok(),
            acquire_time: Some(acquired.unwrap_or_else(|| now.clone())),
            renew_time: Some(now),
            lease_transitions: Some(transitions + i32::from(transition)),
            ..LeaseSpec::default()
        }
    }

    /// Releases the lease, if it is ours, so that another process need not wait for it to run out.
    async fn release(&self) {
        let released = async {
            loop {
                match self.write_release().await {
                    Ok(()) => return,
                    // A renewal under way may have come in between.
                    Err(error) => tracing::debug!(lease = self.name, %error, "releasing the lease"),
                }
                tokio::time::sleep(RELEASE_RETRY).await;
            }
        };
        if tokio::time::timeout(RELEASE, released).await.is_err() {
            tracing::warn!(lease = self.name, "the lease could not be released and has to run out");
        }
    }

    async fn write_release(&self) -> Result<(), kube::Error> {
        let Some(lease) = bounded(self.api.get_opt(&self.name)).await? else { return Ok(()) };
        let spec = lease.spec.clone().unwrap_or_default();
        if spec.holder_identity.as_deref() != Some(self.identity.as_str()) {
            return Ok(());
        }
        let released =
            LeaseSpec { holder_identity: Some(String::new()), lease_duration_seconds: Some(1), ..spec };
        let lease = Lease { spec: Some(released), ..lease };
        bounded(self.api.replace(&self.name, &PostParams::default(), &lease)).await.map(drop)
    }
}

#[cfg(test)]
mod tests;
