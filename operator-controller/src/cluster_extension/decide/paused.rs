//! What is decided while an extension is paused: no new revision is made, whatever the spec and the catalogs ask for;
//! the latest revision continues to roll out and to be repaired, which is the other loop's work.

use jiff::Timestamp;
use olm_api::names::{PAUSED_ANNOTATION, ROLLBACK_TO_ANNOTATION};

use super::{Decision, inputs_digest, is_made_from, resolve, rollback::is_done};
use crate::cluster_extension::{
    Context,
    annotations::{self, Pause},
    observe::Observed,
    plan::crds,
    report::{Report, StepError},
};

/// The record of the latest revision is brought up to date if it is the one that is wanted; else the report says what
/// waits.
pub(crate) async fn decide(
    cx: &Context,
    observed: &Observed<'_>,
    pause: Pause,
    report: Report,
) -> (Report, Option<Decision>) {
    let Observed { extension, account, revisions, .. } = observed;
    let end = match pause {
        Pause::Until(end) => Some(end),
        Pause::UntilRemoved => None,
    };
    let mut report = Report { resumes: end, ..report };
    if let Some(target) = annotations::rollback_to(extension) {
        report = resolve::inform(cx, observed, report).await;
        if !is_done(target, revisions) {
            report.notes.push(format!(
                "Waiting for the end of the pause: rollback to revision {target}, as {ROLLBACK_TO_ANNOTATION} asks."
            ));
        }
    } else {
        let chosen;
        (report, chosen) = resolve::choose(cx, observed, report).await;
        match chosen {
            Ok(chosen) => {
                let inputs = inputs_digest(cx, observed, &chosen.bundle);
                let latest = revisions.latest_active();
                if let Some(latest) = latest.filter(|latest| is_made_from(latest, &inputs, account)) {
                    report.notes.extend(crds::notes(extension, latest, revisions));
                    return (report, Some(Decision::Refresh { chosen, inputs }));
                }
                report.notes.push(format!(
                    "Waiting for the end of the pause: bundle {:?} with version {:?}.",
                    chosen.bundle.name,
                    chosen.bundle.display_version()
                ));
            }
            Err(error) => {
                let answer_at: Option<Timestamp> = match &error {
                    StepError::Resolution { answer_at, .. } => *answer_at,
                    _ => None,
                };
                report.resumes = end.into_iter().chain(answer_at).min();
                report
                    .notes
                    .push(format!("At the end of the pause this error will stop the roll-out: {error}"));
            }
        }
    }
    if revisions.latest_active().is_none() && revisions.installed().is_none() {
        return report.and(Err(StepError::Paused));
    }
    (report, Some(Decision::Keep { why: "the extension is paused".to_owned() }))
}

/// A sentence about the pause.
pub(crate) fn note(pause: Pause) -> String {
    let end = match pause {
        Pause::UntilRemoved => "until it is removed".to_owned(),
        Pause::Until(end) => format!("until {end}"),
    };
    format!(
        "Paused by the annotation {PAUSED_ANNOTATION} {end}: upgrades stop, what is installed is still repaired."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentence_names_the_end() {
        let end = "2026-11-21T16:00:00+02:00".parse().unwrap();
        assert_eq!(
            note(Pause::Until(end)),
            "Paused by the annotation extensions.olm.operatorframework.io/paused until 2026-11-21T14:00:00Z: upgrades stop, what is installed is still repaired."
        );
        assert!(note(Pause::UntilRemoved).contains("paused until it is removed: "));
    }
}
