//! What is decided while an extension is paused: no new revision is made, whatever the spec and the catalogs ask for;
//! the latest revision continues to roll out and to be repaired, which is the other loop's work.

use jiff::Timestamp;
use olm_api::{
    ConditionType::Ready,
    Conditions,
    names::{PAUSED_ANNOTATION, ROLLBACK_TO_ANNOTATION},
};

use super::{Decision, inputs_digest, is_made_from, resolve, returning, rollback::is_done};
use crate::cluster_extension::{
    Context,
    annotations::{self, Pause},
    observe::Observed,
    plan::crds,
    report::{Report, StepError},
};

/// What a line of `Ready` begins with that names what is done when the pause ends.
const WAITING: &str = "Waiting for the end of the pause: ";

/// What `Ready` says that a paused extension waits for.
pub fn waiting(conditions: &Conditions) -> Option<&str> {
    conditions.find(Ready)?.message.lines().find_map(|line| line.strip_prefix(WAITING))
}

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
            report
                .notes
                .push(format!("{WAITING}rollback to revision {target}, as {ROLLBACK_TO_ANNOTATION} asks."));
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
                let waits = || {
                    let (name, version) = (&chosen.bundle.name, chosen.bundle.display_version());
                    format!("{WAITING}bundle {name:?} with version {version:?}.")
                };
                report.notes.push(returning::note(observed, &chosen.bundle).unwrap_or_else(waits));
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
    fn what_waits_is_found_in_the_summary() {
        let ready = |message: &str| {
            let ready = serde_json::json!([{
                "type": "Ready", "status": "True", "reason": "Succeeded", "message": message,
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }]);
            serde_json::from_value::<Conditions>(ready).unwrap()
        };
        let message =
            format!("Revision 1.0.0 has rolled out.\n{WAITING}bundle \"b\" with version \"2.0.0\".");
        assert_eq!(waiting(&ready(&message)), Some("bundle \"b\" with version \"2.0.0\"."));
        assert_eq!(waiting(&ready("Revision 1.0.0 has rolled out.")), None);
        assert_eq!(waiting(&Conditions::default()), None);
    }

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
