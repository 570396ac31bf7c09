//! The status of a ClusterCatalog, as a function of the outcome of its reconcile.
//!
//! `Serving` and `Progressing` are upstream's to the letter. `Ready` (with `Reconciling` or `Stalled`) is for
//! tools that know only those: it holds while content of the source that the spec names is served, also
//! while a later check of that source fails.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use olm_api::{
    ConditionStatus, ConditionType, ConditionUpdate, Reason,
    v1::{
        CatalogSourceType, ClusterCatalogStatus, ClusterCatalogUrls, ResolvedCatalogSource,
        ResolvedImageSource,
    },
};

use crate::store::digest_of;

const SERVING: &str = "Serving desired content from resolved source";
const UNPACKED: &str = "Successfully unpacked and stored content from resolved source";
const USER_UNAVAILABLE: &str = "Catalog availability mode is set to Unavailable";
const CONTENT_LOST: &str = "Content is not available until it is unpacked again";

/// The content that is held and served.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Served<'a> {
    /// Digest reference.
    pub(crate) reference: &'a str,
    /// When it was unpacked.
    pub(crate) unpacked_at: Timestamp,
    /// Whether it came from the source that the spec names now.
    pub(crate) current: bool,
}

/// How a reconcile ended.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Outcome<'a> {
    /// What is served is what is wanted.
    Succeeded,
    /// It is on its way.
    Pulling {
        /// What is pulled, and how far that is.
        message: &'a str,
    },
    /// It could not be made so.
    Failed {
        /// The error's text.
        message: &'a str,
        /// Whether only a change of the catalog can help.
        terminal: bool,
        /// What a person has to do, where the error does not pass by itself.
        advice: Option<&'a str>,
    },
    /// The spec asks for nothing to be served, and nothing is.
    Unavailable,
    /// The catalog is being deleted, and its content is gone.
    Deleted,
}

/// What happened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts<'a> {
    /// `metadata.generation`.
    pub(crate) generation: Option<i64>,
    /// What is held here.
    pub(crate) served: Option<Served<'a>>,
    /// How it ended.
    pub(crate) outcome: Outcome<'a>,
    /// Where the catalog is served, without a slash at the end.
    pub(crate) base_url: &'a str,
}

/// The status after `facts`, where it was `before`.
pub(crate) fn status(
    before: &ClusterCatalogStatus,
    facts: &Facts<'_>,
    now: Timestamp,
) -> ClusterCatalogStatus {
    let mut writer = Writer { status: before.clone(), generation: facts.generation, now };
    match facts.outcome {
        Outcome::Succeeded => {
            writer.set(ConditionType::Serving, ConditionStatus::True, Reason::Available, SERVING);
            writer.set(ConditionType::Progressing, ConditionStatus::True, Reason::Succeeded, UNPACKED);
            writer.ready(ConditionStatus::True, Reason::Succeeded, SERVING);
        }
        Outcome::Pulling { message } => writer.pulling(facts, message),
        Outcome::Failed { message, terminal, advice } => {
            let (progressing, reason) = if terminal {
                (ConditionStatus::False, Reason::Blocked)
            } else {
                (ConditionStatus::True, Reason::Retrying)
            };
            writer.set(ConditionType::Progressing, progressing, reason, message);
            if facts.served.is_none() && before.conditions.is_true(ConditionType::Serving) {
                // What an earlier process served is gone, and could not be fetched again.
                writer.set(ConditionType::Serving, ConditionStatus::False, Reason::Unavailable, CONTENT_LOST);
            }
            writer.failed(facts, message, reason, advice);
        }
        Outcome::Unavailable => {
            let reason = Reason::UserSpecifiedUnavailable;
            writer.set(ConditionType::Serving, ConditionStatus::False, reason, USER_UNAVAILABLE);
            writer.set(
                ConditionType::Progressing,
                ConditionStatus::True,
                Reason::Succeeded,
                USER_UNAVAILABLE,
            );
            writer.ready(ConditionStatus::True, reason, USER_UNAVAILABLE);
        }
        Outcome::Deleted => {
            writer.set(ConditionType::Serving, ConditionStatus::False, Reason::Unavailable, "");
            writer.ready(ConditionStatus::False, Reason::Unavailable, "");
        }
    }
    writer.content(facts);
    writer.status
}

struct Writer {
    status: ClusterCatalogStatus,
    generation: Option<i64>,
    now: Timestamp,
}

impl Writer {
    fn set(&mut self, type_: ConditionType, status: ConditionStatus, reason: Reason, message: &str) {
        let update = ConditionUpdate::new(type_, status, reason, message, self.generation);
        self.status.conditions.set(update, self.now);
    }

    /// Sets `Ready` where nothing is in progress.
    fn ready(&mut self, status: ConditionStatus, reason: Reason, message: &str) {
        self.set(ConditionType::Ready, status, reason, message);
        self.status.conditions.remove(ConditionType::Reconciling);
        self.status.conditions.remove(ConditionType::Stalled);
    }

    /// Reports the progress of a pull. Upstream's conditions have no words for that and stay as they are.
    fn pulling(&mut self, facts: &Facts<'_>, message: &str) {
        if facts.served.is_some_and(|served| served.current) {
            let message = format!("{SERVING}; pulling {message}");
            self.ready(ConditionStatus::True, Reason::Succeeded, &message);
            return;
        }
        let message = format!("Pulling {message}");
        self.ready(ConditionStatus::False, Reason::Reconciling, &message);
        self.set(ConditionType::Reconciling, ConditionStatus::True, Reason::Reconciling, &message);
    }

    /// Sets `Ready` and its companions where something failed.
    fn failed(&mut self, facts: &Facts<'_>, message: &str, reason: Reason, advice: Option<&str>) {
        if facts.served.is_some_and(|served| served.current) {
            let message = format!("{SERVING}; looking at the source again failed: {message}");
            self.ready(ConditionStatus::True, Reason::Succeeded, &message);
            return;
        }
        let message = &advice.map_or_else(|| message.to_owned(), |advice| format!("{message}\n{advice}"));
        self.ready(ConditionStatus::False, reason, message);
        if reason == Reason::Blocked || advice.is_some() {
            // It is tried again all the same, but cannot succeed before an administrator acts.
            self.set(ConditionType::Stalled, ConditionStatus::True, Reason::Blocked, message);
        } else {
            self.set(ConditionType::Reconciling, ConditionStatus::True, reason, message);
        }
    }

    /// Sets the fields of the served content and its address.
    fn content(&mut self, facts: &Facts<'_>) {
        match (facts.outcome, facts.served) {
            (Outcome::Unavailable | Outcome::Deleted, _) => {
                self.status.resolved_source = None;
                self.status.urls = None;
                self.status.last_unpacked = None;
            }
            (_, Some(served)) => {
                // A leader that unpacks the same content once more changes nothing about it.
                let before = self.status.resolved_source.as_ref().map(|source| digest_of(&source.image.ref_));
                if before != Some(digest_of(served.reference)) || self.status.last_unpacked.is_none() {
                    self.status.last_unpacked = Some(Time(served.unpacked_at));
                }
                self.status.resolved_source = Some(ResolvedCatalogSource {
                    type_: CatalogSourceType::Image,
                    image: ResolvedImageSource { ref_: served.reference.to_owned() },
                });
                self.status.urls = Some(ClusterCatalogUrls { base: facts.base_url.to_owned() });
            }
            (_, None) => {}
        }
    }
}

#[cfg(test)]
mod tests;
