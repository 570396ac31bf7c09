//! How a status is written.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use olm_api_classic::{ClusterServiceVersionStatus, ConditionRecord};

use super::Phase;

/// Phases that are kept.
const CONDITIONS_MAX: usize = 20;

/// A phase with its reason and message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) phase: Phase,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// Whether the status says something else than the target.
pub(super) fn differs(status: &ClusterServiceVersionStatus, target: &Target) -> bool {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    (text(&status.phase), text(&status.reason), text(&status.message))
        != (target.phase.as_str().to_owned(), target.reason.to_owned(), target.message.clone())
}

/// Sets phase, reason and message. The time of the transition changes with the phase, the history gets an entry with
/// another phase or reason.
pub(super) fn set(status: &mut ClusterServiceVersionStatus, target: &Target, now: Timestamp) {
    if !differs(status, target) {
        return;
    }
    let (phase, reason) = (Some(target.phase.as_str().to_owned()), Some(target.reason.to_owned()));
    if status.phase != phase {
        status.last_transition_time = Some(Time(now));
    }
    status.phase = phase;
    status.reason = reason;
    status.message = Some(target.message.clone());
    status.last_update_time = Some(Time(now));
    let last = status.conditions.last();
    if last.is_some_and(|last| last.phase == status.phase && last.reason == status.reason) {
        return;
    }
    status.conditions.push(ConditionRecord {
        phase: status.phase.clone(),
        reason: status.reason.clone(),
        message: status.message.clone(),
        last_update_time: status.last_update_time.clone(),
        last_transition_time: status.last_transition_time.clone(),
    });
    let surplus = status.conditions.len().saturating_sub(CONDITIONS_MAX);
    status.conditions.drain(..surplus);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_history_keeps_twenty_changes_of_phase_or_reason() {
        let mut status = ClusterServiceVersionStatus::default();
        let at = |second| Timestamp::from_second(second).unwrap();
        let target = |phase, message: &str| Target { phase, reason: "R", message: message.to_owned() };
        set(&mut status, &target(Phase::Pending, "a"), at(1));
        let before = status.clone();
        set(&mut status, &target(Phase::Pending, "a"), at(2));
        assert_eq!(status, before, "nothing changed, so nothing is written");
        set(&mut status, &target(Phase::Pending, "b"), at(3));
        assert_eq!(status.conditions.len(), 1);
        assert_eq!(status.last_transition_time, Some(Time(at(1))));
        assert_eq!(status.last_update_time, Some(Time(at(3))));
        for second in 4..40 {
            let phase = if second % 2 == 0 { Phase::Failed } else { Phase::Pending };
            set(&mut status, &target(phase, "c"), at(second));
        }
        assert_eq!(status.conditions.len(), 20);
        assert_eq!(status.conditions.last().unwrap().last_transition_time, Some(Time(at(39))));
    }
}
