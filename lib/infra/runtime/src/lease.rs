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
use kube::{
    Api, Client,
    api::PostParams,
    runtime::{WatchStreamExt, watcher},
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{chance::Chance, client::bounded, fence::Fence};

/// Timing of an election.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// How long a record is honoured that nobody renews.
    pub duration: Duration,
    /// How long the leader tries to renew before it gives up.
    pub renew_deadline: Duration,
    /// Time between attempts.
    pub retry: Duration,
}

/// The original's timing: 137 s, 107 s, 26 s.
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
    /// Write our identity; `transition` when somebody else held it before.
    Take { transition: bool },
    /// Somebody else holds it.
    Wait,
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
}

impl Elector {
    /// A candidate for the lease `name` in `namespace`.
    pub fn new(client: Client, namespace: &str, name: &str, identity: &str, terms: Terms) -> Self {
        let api = Api::namespaced(client, namespace);
        let (name, identity) = (name.to_owned(), identity.to_owned());
        Self { api, name, identity, terms, fence: Fence::default(), chance: Chance::default() }
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

    /// Campaigns, runs `work` while leading, and gives the lease back.
    ///
    /// `work` is told to stop through its token when the lease is lost or `shutdown` comes.
    /// Returns whether leadership was lost (then the process should end), not given up.
    pub async fn lead<F: Future<Output = ()>>(
        &self,
        shutdown: CancellationToken,
        work: impl FnOnce(CancellationToken) -> F,
    ) -> bool {
        let mut observed = None;
        tokio::select! {
            () = shutdown.cancelled() => return false,
            () = Box::pin(self.acquire(&mut observed)) => {}
        }
        tracing::info!(lease = self.name, identity = self.identity, "leading");
        let stop = CancellationToken::new();
        let mut work = std::pin::pin!(work(stop.clone()));
        let lost = tokio::select! {
            () = shutdown.cancelled() => false,
            () = self.renew(&mut observed) => true,
            () = &mut work => false,
        };
        stop.cancel();
        if lost {
            tracing::error!(lease = self.name, "leadership lost: the lease could not be renewed in time");
            return true;
        }
        work.await;
        self.release(observed).await;
        false
    }

    /// Tries until the lease is ours. Changes of the record are watched, so that one given back is taken at once.
    async fn acquire(&self, observed: &mut Option<Observed>) {
        let record = watcher::Config::default().fields(&format!("metadata.name={}", self.name));
        let events = kube::runtime::watcher(self.api.clone(), record)
            .backoff(self.chance.watch_backoff())
            .filter(|event| {
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
        let mut renewed = Instant::now();
        loop {
            tokio::time::sleep(self.terms.retry).await;
            match self.attempt(observed).await {
                Ok(true) => renewed = Instant::now(),
                Ok(false) => {
                    // Somebody else has it.
                    self.fence.set(&self.name, Instant::now());
                    return;
                }
                Err(error) => tracing::warn!(lease = self.name, %error, "renewing the lease"),
            }
            if renewed.elapsed() + self.terms.retry > self.terms.renew_deadline {
                return;
            }
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
        let Some(lease) = bounded(self.api.get_opt(&self.name)).await? else {
            let lease = Lease {
                metadata: ObjectMeta { name: Some(self.name.clone()), ..Default::default() },
                spec: Some(self.record(None, false)),
            };
            return match bounded(self.api.create(&PostParams::default(), &lease)).await {
                Ok(_) => Ok(true),
                Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(false),
                Err(error) => Err(error),
            };
        };
        let spec = lease.spec.clone().unwrap_or_default();
        if observed.as_ref().is_none_or(|o| o.spec != spec) {
            *observed = Some(Observed { spec: spec.clone(), since: Instant::now() });
        }
        let unchanged_for = observed.as_ref().map_or(Duration::ZERO, |o| o.since.elapsed());
        let Step::Take { transition } = decide(&spec, &self.identity, unchanged_for) else {
            return Ok(false);
        };
        let lease = Lease { spec: Some(self.record(Some(&spec), transition)), ..lease };
        match bounded(self.api.replace(&self.name, &PostParams::default(), &lease)).await {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.is_conflict() => Ok(false),
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

    /// Gives the lease back so that another process need not wait for it to run out.
    async fn release(&self, observed: Option<Observed>) {
        let Ok(Some(lease)) = bounded(self.api.get_opt(&self.name)).await else { return };
        let spec = lease.spec.clone().unwrap_or_default();
        if spec.holder_identity.as_deref() != Some(self.identity.as_str()) {
            return;
        }
        let transitions = observed.and_then(|o| o.spec.lease_transitions).or(spec.lease_transitions);
        let released = LeaseSpec {
            holder_identity: Some(String::new()),
            lease_duration_seconds: Some(1),
            lease_transitions: transitions,
            ..spec
        };
        let lease = Lease { spec: Some(released), ..lease };
        if let Err(error) = bounded(self.api.replace(&self.name, &PostParams::default(), &lease)).await {
            tracing::warn!(lease = self.name, %error, "releasing the lease");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held_by(holder: &str) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(holder.into()),
            lease_duration_seconds: Some(137),
            ..LeaseSpec::default()
        }
    }

    #[test]
    fn the_holder_renews() {
        assert_eq!(decide(&held_by("me"), "me", Duration::ZERO), Step::Take { transition: false });
    }

    #[test]
    fn others_wait_until_the_record_has_been_still_for_its_duration() {
        assert_eq!(decide(&held_by("you"), "me", Duration::from_secs(136)), Step::Wait);
        assert_eq!(decide(&held_by("you"), "me", Duration::from_secs(138)), Step::Take { transition: true });
    }

    #[test]
    fn a_released_lease_is_taken_at_once() {
        assert_eq!(decide(&held_by(""), "me", Duration::ZERO), Step::Take { transition: true });
    }
}
