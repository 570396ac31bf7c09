//! What goes on while an extension is paused: no new revision is made, whatever the spec and the catalogs ask for;
//! the revision that is there goes on rolling out and being repaired, which is the other loop's work.

use std::time::Duration;

use jiff::Timestamp;
use olm_api::names::{PAUSED_ANNOTATION, ROLLBACK_TO_ANNOTATION};
use olm_runtime::AccountRef;

use crate::cluster_extension::annotations;
use crate::cluster_extension::annotations::Pause;
use crate::cluster_extension::decide::rollback::is_done;
use crate::cluster_extension::decide::{Proposal, Steps, is_made_from};
use crate::cluster_extension::observe::revisions::Revisions;
use crate::cluster_extension::plan::crds as crd_changes;
use crate::cluster_extension::report::{Progress, StepError};

/// Longest wait for the end of a pause without a look in between: timers of years are not to be relied upon.
const LOOK_MAX: Duration = Duration::from_hours(24);

impl Steps<'_> {
    /// Whether the extension is paused; what there is to say about it goes to `progress`.
    pub(crate) fn paused(&self, progress: &mut Progress) -> bool {
        let Some(pause) = annotations::pause(self.extension, self.now) else { return false };
        if let Pause::Until(end) = pause {
            progress.look_again = Some(until(self.now, end));
        }
        progress.notes.push(sentence(pause));
        true
    }

    /// What a pass may do while paused: bring the revision that is wanted up to date, or tell what waits.
    ///
    /// # Errors
    /// Nothing is there yet that could go on.
    pub(crate) async fn hold(
        &self,
        account: &AccountRef,
        revisions: &Revisions,
        progress: &mut Progress,
    ) -> Result<Proposal, StepError> {
        let end = progress.look_again;
        if let Some(target) = annotations::rollback_to(self.extension) {
            if !is_done(target, revisions) {
                progress.notes.push(format!(
                    "What {ROLLBACK_TO_ANNOTATION} asks for waits for the end of the pause: revision {target}."
                ));
            }
        } else {
            let chosen = self.choose(revisions, progress).await;
            // A wait of the resolution does not make the pause longer.
            progress.look_again = end.into_iter().chain(progress.look_again).min();
            match chosen {
                Ok(chosen) => {
                    let inputs = self.inputs_digest(account, &chosen.bundle);
                    if let Some(latest) = revisions.latest_active()
                        && is_made_from(latest, &inputs, account)
                    {
                        progress.notes.extend(crd_changes::notes(self.extension, latest, revisions));
                        return Ok(Proposal::Refresh { chosen, inputs });
                    }
                    progress.notes.push(format!(
                        "What the spec and the catalogs ask for now waits for the end of the pause: bundle {:?} with version {:?}.",
                        chosen.bundle.name,
                        chosen.bundle.display_version()
                    ));
                }
                Err(error) => {
                    progress
                        .notes
                        .push(format!("At the end of the pause this will stand in the way: {error}"));
                }
            }
        }
        if revisions.latest_active().is_none() && revisions.installed().is_none() {
            return Err(StepError::Paused);
        }
        Ok(Proposal::Keep { why: "the extension is paused".to_owned() })
    }
}

fn until(now: Timestamp, end: Timestamp) -> Duration {
    // A second more than needed does no harm, one less would be a pass for nothing.
    let wait = Duration::try_from(end.duration_since(now)).unwrap_or_default() + Duration::from_secs(1);
    wait.min(LOOK_MAX)
}

fn sentence(pause: Pause) -> String {
    let end = match pause {
        Pause::UntilRemoved => "until it is removed".to_owned(),
        Pause::Until(end) => format!("until {end}"),
    };
    format!(
        "Paused by the annotation {PAUSED_ANNOTATION} {end}: no new revision is made, what is installed goes on being repaired."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_pause_is_looked_for_when_it_comes_and_at_least_daily() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let now = at("2026-11-21T14:00:00Z");
        assert_eq!(until(now, at("2026-11-21T14:01:00Z")), Duration::from_secs(61));
        assert_eq!(until(now, at("2126-11-21T14:00:00Z")), LOOK_MAX);
    }

    #[test]
    fn the_sentence_names_the_end() {
        let end = "2026-11-21T16:00:00+02:00".parse().unwrap();
        assert_eq!(
            sentence(Pause::Until(end)),
            "Paused by the annotation extensions.olm.operatorframework.io/paused until 2026-11-21T14:00:00Z: no new revision is made, what is installed goes on being repaired."
        );
        assert!(sentence(Pause::UntilRemoved).contains("paused until it is removed: "));
    }
}
