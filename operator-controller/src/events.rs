//! Kubernetes Events for what a person would want to know: derived from what changed in a status.

mod sets;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Client, Resource,
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use olm_api::{
    ConditionType::{Installed, Progressing},
    Reason,
    v1::{ClusterExtension, ClusterExtensionStatus},
};

use olm_runtime::bounded;
use olm_text::visible;

use crate::controllers::cluster_extension::Progress;

/// Most bytes of an Event's note; the API refuses longer ones.
const NOTE_BYTES_MAX: usize = 1024;

/// Publishes Events.
#[derive(Clone)]
pub(crate) struct Events {
    recorder: Recorder,
}

/// What is worth an Event.
#[derive(Debug, PartialEq, Eq)]
struct Told {
    reason: &'static str,
    warning: bool,
    note: String,
}

impl Events {
    pub(crate) fn new(client: Client, instance: &str) -> Self {
        let reporter =
            Reporter { controller: "operator-controller".to_owned(), instance: Some(instance.to_owned()) };
        Self { recorder: Recorder::new(client, reporter) }
    }

    /// Tells that an admission policy is not in force.
    pub(crate) async fn policy(&self, name: &str, text: &str) {
        let reference = ObjectReference {
            api_version: Some("admissionregistration.k8s.io/v1".to_owned()),
            kind: Some("ValidatingAdmissionPolicy".to_owned()),
            name: Some(name.to_owned()),
            ..ObjectReference::default()
        };
        let told = Told { reason: "PolicyNotInForce", warning: true, note: text.to_owned() };
        self.publish(told, &reference).await;
    }

    /// Tells that an object of an earlier installation is still in effect.
    pub(crate) async fn leftover(&self, about: &ObjectReference, text: &str) {
        let told = Told { reason: "LeftBehind", warning: true, note: text.to_owned() };
        self.publish(told, about).await;
    }

    /// Tells what changed from `before` to `after`. Failing to tell is no failure of the pass.
    pub(crate) async fn extension(
        &self,
        extension: &ClusterExtension,
        before: &ClusterExtensionStatus,
        after: &ClusterExtensionStatus,
        progress: &Progress,
    ) {
        let reference = extension.object_ref(&());
        for told in changes(before, after, progress) {
            self.publish(told, &reference).await;
        }
    }

    async fn publish(&self, told: Told, about: &ObjectReference) {
        let told = Told { note: visible(&told.note).into_owned(), ..told };
        // Events of one action are counted together under the first one's note.
        let action = format!("{} {:016x}", told.reason, fingerprint(&told.note));
        let event = Event {
            type_: if told.warning { EventType::Warning } else { EventType::Normal },
            reason: told.reason.to_owned(),
            note: Some(shortened(told.note)),
            action,
            secondary: None,
        };
        if let Err(error) = bounded(self.recorder.publish(&event, about)).await {
            tracing::debug!(%error, "event not published");
        }
    }
}

fn changes(
    before: &ClusterExtensionStatus,
    after: &ClusterExtensionStatus,
    progress: &Progress,
) -> Vec<Told> {
    let mut told = Vec::new();
    let failure = failing(after).filter(|now| failing(before).as_ref() != Some(now));
    if let Some(note) = progress.resolved.as_ref().filter(|_| progress.created.is_some() || failure.is_some())
    {
        told.push(Told { reason: "Resolved", warning: false, note: note.clone() });
    }
    if let Some(bundle) = &progress.created {
        let note = format!("Rolling out bundle {} with version {}", bundle.name, bundle.display_version());
        told.push(Told { reason: "RollingOut", warning: false, note });
    }
    if let Some(note) = &progress.rights_increased {
        told.push(Told { reason: "RightsIncreased", warning: false, note: note.clone() });
    }
    if let Some(note) = &progress.crossed {
        told.push(Told { reason: "CatalogChanged", warning: false, note: note.clone() });
    }
    let version = |status: &ClusterExtensionStatus| status.install.as_ref().map(|i| i.bundle.clone());
    match (version(before), version(after)) {
        (None, Some(now)) => {
            told.push(Told {
                reason: "Installed",
                warning: false,
                note: format!("Installed bundle {}", now.name),
            });
        }
        (Some(then), Some(now)) if then != now => {
            let note = format!("Upgraded from bundle {} to {}", then.name, now.name);
            told.push(Told { reason: "Upgraded", warning: false, note });
        }
        _ => {}
    }
    if let Some((reason, message)) = failure {
        told.push(Told { reason, warning: true, note: message });
    }
    let lost = before.conditions.is_true(Installed) && !after.conditions.is_true(Installed);
    if lost && version(after).is_none() && version(before).is_some() {
        told.push(Told { reason: "NotInstalled", warning: true, note: "No bundle installed".to_owned() });
    }
    told
}

/// Tells notes apart; stable, so that a repeated one is counted and not told again.
fn fingerprint(note: &str) -> u64 {
    // FNV-1a: short, and free of the process's random seed.
    note.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Reason and message of the failure that a status shows.
fn failing(status: &ClusterExtensionStatus) -> Option<(&'static str, String)> {
    let condition = status.conditions.find(Progressing)?;
    Some((failure_reason(&condition.reason, &condition.message)?, condition.message.clone()))
}

/// The reason of an Event about a failure, from reason and message of `Progressing`; `None` if it is none.
fn failure_reason(reason: &str, message: &str) -> Option<&'static str> {
    if reason == Reason::Retrying.as_str() && message.starts_with("revision object collisions") {
        return Some("Collision");
    }
    let failures =
        [Reason::Retrying, Reason::Blocked, Reason::InvalidConfiguration, Reason::ProgressDeadlineExceeded];
    failures.into_iter().find(|failure| failure.as_str() == reason).map(Reason::as_str)
}

fn shortened(mut note: String) -> String {
    if note.len() > NOTE_BYTES_MAX {
        note.truncate(note.floor_char_boundary(NOTE_BYTES_MAX - 3));
        note.push_str("...");
    }
    note
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use olm_api::{
        ConditionStatus, ConditionUpdate,
        v1::{BundleMetadata, ClusterExtensionInstallStatus},
    };

    use super::*;

    fn installed(version: &str) -> ClusterExtensionStatus {
        let bundle = BundleMetadata { name: format!("op.{version}"), version: version.into(), release: None };
        ClusterExtensionStatus {
            install: Some(ClusterExtensionInstallStatus { bundle }),
            ..Default::default()
        }
    }

    fn reasons(before: &ClusterExtensionStatus, after: &ClusterExtensionStatus) -> Vec<&'static str> {
        changes(before, after, &Progress::default()).into_iter().map(|t| t.reason).collect()
    }

    #[test]
    fn installation_and_upgrade_are_told_once() {
        let none = ClusterExtensionStatus::default();
        assert_eq!(reasons(&none, &installed("1.0.0")), ["Installed"]);
        assert_eq!(reasons(&installed("1.0.0"), &installed("1.1.0")), ["Upgraded"]);
        assert!(reasons(&installed("1.1.0"), &installed("1.1.0")).is_empty());
    }

    #[test]
    fn an_increase_of_rights_is_told() {
        let progress = Progress { rights_increased: Some("more".to_owned()), ..Progress::default() };
        let told = changes(&installed("1.0.0"), &installed("1.0.0"), &progress);
        let told: Vec<_> = told.iter().map(|told| (told.reason, told.note.as_str())).collect();
        assert_eq!(told, [("RightsIncreased", "more")]);
    }

    #[test]
    fn a_failure_is_told_when_it_appears_or_changes() {
        let failing = |message: &str| {
            let mut status = installed("1.0.0");
            let update =
                ConditionUpdate::new(Progressing, ConditionStatus::False, Reason::Blocked, message, None);
            status.conditions.set(update, Timestamp::UNIX_EPOCH);
            status
        };
        assert_eq!(reasons(&installed("1.0.0"), &failing("a")), ["Blocked"]);
        assert!(reasons(&failing("a"), &failing("a")).is_empty());
        assert_eq!(reasons(&failing("a"), &failing("b")), ["Blocked"]);
    }

    #[test]
    fn notes_fit_the_api() {
        assert!(shortened("ü".repeat(2000)).len() <= NOTE_BYTES_MAX);
    }
}
