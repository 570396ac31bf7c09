//! What the status of a ClusterCatalog says, as a function of what happened.
//!
//! `Serving` and `Progressing` are upstream's to the letter. `Ready` (with `Reconciling` or `Stalled`) is for
//! tools that know only those: it holds while content of the source that the spec names is served, also
//! while a later look at that source fails.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use olm_api::{
    Activity,
    ConditionStatus::{False, True},
    ConditionType::{Progressing, Serving},
    ConditionWriter, Reason,
    v1::{
        CatalogSourceType, ClusterCatalogStatus, ClusterCatalogUrls, ResolvedCatalogSource,
        ResolvedImageSource,
    },
    with_remedy,
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
    let mut status = before.clone();
    let generation = facts.generation;
    report(&mut ConditionWriter { conditions: &mut status.conditions, generation, now }, facts);
    content(&mut status, facts);
    status
}

fn report(writer: &mut ConditionWriter<'_>, facts: &Facts<'_>) {
    let is_current = facts.served.is_some_and(|served| served.current);
    match facts.outcome {
        Outcome::Succeeded => {
            writer.put(Serving, True, Reason::Available, SERVING);
            writer.put(Progressing, True, Reason::Succeeded, UNPACKED);
            writer.summarize(true, Reason::Succeeded, SERVING, Activity::None);
        }
        // Upstream's conditions have no words for a pull and stay as they are.
        Outcome::Pulling { message } if is_current => {
            let message = format!("{SERVING}; pulling {message}");
            writer.summarize(true, Reason::Succeeded, &message, Activity::None);
        }
        Outcome::Pulling { message } => {
            let message = format!("Pulling {message}");
            let activity = Activity::Reconciling(Reason::Reconciling, &message);
            writer.summarize(false, Reason::Reconciling, &message, activity);
        }
        Outcome::Failed { message, terminal, advice } => {
            let (progressing, reason) =
                if terminal { (False, Reason::Blocked) } else { (True, Reason::Retrying) };
            writer.put(Progressing, progressing, reason, message);
            if facts.served.is_none() && writer.conditions.is_true(Serving) {
                // What an earlier process served is gone, and could not be fetched again.
                writer.put(Serving, False, Reason::Unavailable, CONTENT_LOST);
            }
            if is_current {
                let message = format!("{SERVING}; checking the source again failed: {message}");
                writer.summarize(true, Reason::Succeeded, &message, Activity::None);
                return;
            }
            let message = advice.map_or_else(|| message.to_owned(), |advice| with_remedy(message, advice));
            // It is retried all the same, but cannot succeed before someone acts: alerts tell by the reason.
            let (reason, activity) = if terminal || advice.is_some() {
                (Reason::Blocked, Activity::Stalled(Reason::Blocked, &message))
            } else {
                (reason, Activity::Reconciling(reason, &message))
            };
            writer.summarize(false, reason, &message, activity);
        }
        Outcome::Unavailable => {
            let reason = Reason::UserSpecifiedUnavailable;
            writer.put(Serving, False, reason, USER_UNAVAILABLE);
            writer.put(Progressing, True, Reason::Succeeded, USER_UNAVAILABLE);
            writer.summarize(true, reason, USER_UNAVAILABLE, Activity::None);
        }
        Outcome::Deleted => {
            writer.put(Serving, False, Reason::Unavailable, "");
            writer.summarize(false, Reason::Unavailable, "", Activity::None);
        }
    }
}

/// Sets the fields of the served content and its address.
fn content(status: &mut ClusterCatalogStatus, facts: &Facts<'_>) {
    match (facts.outcome, facts.served) {
        (Outcome::Unavailable | Outcome::Deleted, _) => {
            status.resolved_source = None;
            status.urls = None;
            status.last_unpacked = None;
        }
        (_, Some(served)) => {
            // A leader that unpacks the same content once more changes nothing about it.
            let before = status.resolved_source.as_ref().map(|source| digest_of(&source.image.ref_));
            if before != Some(digest_of(served.reference)) || status.last_unpacked.is_none() {
                status.last_unpacked = Some(Time(served.unpacked_at));
            }
            status.resolved_source = Some(ResolvedCatalogSource {
                type_: CatalogSourceType::Image,
                image: ResolvedImageSource { ref_: served.reference.to_owned() },
            });
            status.urls = Some(ClusterCatalogUrls { base: facts.base_url.to_owned() });
        }
        (_, None) => {}
    }
}

#[cfg(test)]
mod tests;
