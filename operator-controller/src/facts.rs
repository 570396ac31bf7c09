//! What is known of the cluster beside the objects that are reconciled. Each fact is followed by a watch of its own and
//! fires an [interest](crate::interest) when it changes.
//!
//! A process that starts, or begins to lead, knows nothing: no catalog, no default account, no admission policy. A
//! reconcile would write that they are missing, and take it back a moment later: nothing is reconciled before the
//! facts are ready.

pub(crate) mod catalogs;
pub(crate) mod content_secrets;
pub(crate) mod custom_resources;
pub(crate) mod installed;
pub(crate) mod kinds;
pub(crate) mod namespaces;
pub(crate) mod platform;
pub(crate) mod policies;
pub(crate) mod rbac;
pub(crate) mod settings;
pub(crate) mod update_policies;
mod watched;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use educe::Educe;
use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use olm_runtime::Guarded;
use tokio::{sync::watch, time::Instant};

/// How long is waited for what cannot be found out; then the work begins without it. Each fact says by itself that it is
/// not known, which is another answer than that there is nothing.
const PATIENCE: Duration = Duration::from_secs(30);

/// What is known of the cluster: nothing at first. Clones are the same.
#[derive(Debug, Clone, Educe)]
#[educe(Default)]
pub(crate) struct Known<T>(watch::Sender<Option<T>>);

impl<T: Clone + PartialEq> Known<T> {
    pub(crate) fn get(&self) -> Option<T> {
        self.0.borrow().clone()
    }

    /// Takes note of what is the case now; whether that is news.
    pub(crate) fn set(&self, now: T) -> bool {
        self.0.send_if_modified(|known| {
            let is_news = known.as_ref() != Some(&now);
            *known = Some(now);
            is_news
        })
    }

    /// Waits until something is known.
    pub(crate) async fn ready(&self) {
        // The sender lives as long as `self`.
        let _ = self.0.subscribe().wait_for(Option::is_some).await;
    }
}

/// The objects of a store that could be read. Of the others only the names are known.
pub(crate) fn readable<K>(state: &[Arc<Guarded<K>>]) -> impl Iterator<Item = &K> {
    state.iter().filter_map(|guarded| guarded.0.as_ref().ok())
}

/// A name for the log, and what ends when the fact is known.
pub(crate) type Fact = (&'static str, BoxFuture<'static, ()>);

/// Waits until everything is known: what is `needed` for any work at all without a limit, the rest for 30 s. What is
/// missing then is logged, and followed all the same.
pub(crate) async fn ready(needed: impl IntoIterator<Item = Fact>, others: impl IntoIterator<Item = Fact>) {
    let (mut missing_needed, mut missing) = (BTreeSet::new(), BTreeSet::new());
    let mut facts = FuturesUnordered::new();
    for (is_needed, (name, fact)) in
        needed.into_iter().map(|fact| (true, fact)).chain(others.into_iter().map(|fact| (false, fact)))
    {
        (if is_needed { &mut missing_needed } else { &mut missing }).insert(name);
        facts.push(fact.map(move |()| name));
    }
    let mut report_at = Instant::now() + PATIENCE;
    let mut out_of_patience = false;
    while !missing_needed.is_empty() || !(missing.is_empty() || out_of_patience) {
        tokio::select! {
            Some(name) = facts.next() => {
                missing_needed.remove(name);
                missing.remove(name);
            }
            () = tokio::time::sleep_until(report_at) => {
                let unknown: Vec<&str> = missing_needed.iter().chain(&missing).copied().collect();
                tracing::warn!(?unknown, waiting_for = ?missing_needed, "not all of the cluster is known yet");
                out_of_patience = true;
                report_at += PATIENCE;
            }
        }
    }
    if !missing.is_empty() {
        tracing::warn!(?missing, "beginning to work without knowing everything of the cluster");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(seconds: u64) -> BoxFuture<'static, ()> {
        tokio::time::sleep(Duration::from_secs(seconds)).boxed()
    }

    #[tokio::test(start_paused = true)]
    async fn everything_is_waited_for_and_what_cannot_be_known_for_a_while() {
        for (needed, others, seconds) in [
            ([1, 2], [3, 4], 4),
            ([20, 5], [3, 4], 20),
            ([1, 2], [3, 4000], 30),
            ([100, 2], [3, 4], 100),
            ([100, 2], [3, 4000], 100),
            ([0, 0], [0, 0], 0),
        ] {
            let began = Instant::now();
            let [needed, others] = [needed, others].map(|[a, b]| [("a", after(a)), ("b", after(b))]);
            ready(needed, others.map(|(name, fact)| (if name == "a" { "c" } else { "d" }, fact))).await;
            assert_eq!(began.elapsed().as_secs(), seconds);
        }
    }
}
