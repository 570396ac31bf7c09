//! Kubernetes Events for what a person would want to know: derived from what changed in a status.

mod sets;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Client, Resource};
use olm_api::{
    ConditionType::{Installed, Progressing, Stalled},
    Reason,
    names::{ADDED_PERMISSIONS_ANNOTATION, CATALOG_ANNOTATION, INPUTS_DIGEST_ANNOTATION},
    v1::{ClusterExtension, ClusterExtensionStatus},
};

use olm_runtime::EventPublisher;

use crate::cluster_extension::{BundleRecord, Report, Revisions};

#[derive(Clone)]
pub(crate) struct Events {
    publisher: EventPublisher,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Notice {
    reason: &'static str,
    warning: bool,
    note: String,
}

impl Notice {
    fn normal(reason: &'static str, note: impl Into<String>) -> Self {
        Self { reason, warning: false, note: note.into() }
    }

    fn warning(reason: &'static str, note: impl Into<String>) -> Self {
        Self { reason, warning: true, note: note.into() }
    }
}

impl Events {
    pub(crate) fn new(client: Client, instance: &str) -> Self {
        Self { publisher: EventPublisher::new(client, "operator-controller", Some(instance)) }
    }

    /// Reports that an admission policy is not in force.
    pub(crate) async fn policy(&self, name: &str, text: &str) {
        let reference = ObjectReference {
            api_version: Some("admissionregistration.k8s.io/v1".to_owned()),
            kind: Some("ValidatingAdmissionPolicy".to_owned()),
            name: Some(name.to_owned()),
            ..ObjectReference::default()
        };
        self.publish(Notice::warning("PolicyNotInForce", text), &reference).await;
    }

    /// Reports that an object of an earlier installation is still in effect.
    pub(crate) async fn leftover(&self, about: &ObjectReference, text: &str) {
        self.publish(Notice::warning("LeftBehind", text), about).await;
    }

    /// Reports what changed from `before` to `after`. An Event that is not written fails no reconcile.
    pub(crate) async fn extension(
        &self,
        extension: &ClusterExtension,
        before: &ClusterExtensionStatus,
        after: &ClusterExtensionStatus,
        report: &Report,
    ) {
        let reference = extension.object_ref(&());
        for notice in changes(before, after, report) {
            self.publish(notice, &reference).await;
        }
    }

    async fn publish(&self, Notice { reason, warning, note }: Notice, about: &ObjectReference) {
        self.publisher.publish(about, warning, reason, &note).await;
    }
}

fn changes(before: &ClusterExtensionStatus, after: &ClusterExtensionStatus, report: &Report) -> Vec<Notice> {
    let mut notices = Vec::new();
    let failure = failing(after).filter(|now| failing(before).as_ref() != Some(now));
    let begun = begun(before, after, report);
    // What is rolled out is not said to be resolved as well.
    if let Some(note) = report.resolved.as_ref().filter(|_| begun.is_empty() && failure.is_some()) {
        notices.push(Notice::normal("Resolved", note));
    }
    for Begun { bundle, catalog, added_permissions } in begun {
        let from = catalog.map(|catalog| format!(" from catalog {catalog}")).unwrap_or_default();
        let version = bundle.display_version();
        notices.push(Notice::normal(
            "RollingOut",
            format!("Rolling out bundle {} with version {version}{from}", bundle.name),
        ));
        notices.extend(added_permissions.map(|note| Notice::normal("PermissionsIncreased", note)));
    }
    notices.extend(report.crossed.as_ref().map(|note| Notice::normal("CatalogChanged", note)));
    let version = |status: &ClusterExtensionStatus| status.install.as_ref().map(|i| i.bundle.clone());
    match (version(before), version(after)) {
        (None, Some(now)) => {
            notices.push(Notice::normal("Installed", format!("Installed bundle {}", now.name)));
        }
        (Some(then), Some(now)) if then != now => {
            let note = format!("Upgraded from bundle {} to {}", then.name, now.name);
            notices.push(Notice::normal("Upgraded", note));
        }
        // Another revision of the same bundle.
        (Some(_), Some(_)) if is(before, Reason::RollingOut) && is(after, Reason::Succeeded) => {
            let message = after.conditions.find(Progressing).map_or("", |condition| &condition.message);
            notices.push(Notice::normal("RolledOut", message));
        }
        _ => {}
    }
    if let Some((reason, message)) = failure.filter(|_| !is_of_revision(after, report)) {
        notices.push(Notice::warning(reason.as_str(), message));
    }
    let lost = before.conditions.is_true(Installed) && !after.conditions.is_true(Installed);
    if lost && version(after).is_none() && version(before).is_some() {
        notices.push(Notice::warning("NotInstalled", "No bundle installed"));
    }
    notices
}

/// Whether a status shows this reason of `Progressing`.
fn is(status: &ClusterExtensionStatus, reason: Reason) -> bool {
    status.conditions.find(Progressing).is_some_and(|condition| condition.reason == reason.as_str())
}

/// Whether the failure that a status shows is something in the way of a revision, which its own controller knows better
/// and reports on the extension too.
fn is_of_revision(after: &ClusterExtensionStatus, report: &Report) -> bool {
    let is_retried = failing(after).is_some_and(|(reason, _)| reason == Reason::Retrying);
    is_retried && report.error().is_none() && after.conditions.is_true(Stalled)
}

/// A revision that a status shows for the first time.
struct Begun<'a> {
    bundle: &'a BundleRecord,
    catalog: Option<&'a str>,
    added_permissions: Option<&'a str>,
}

/// The revisions of ours that a status shows for the first time. They were made in this reconcile, or in one whose status
/// was not written.
fn begun<'a>(
    before: &ClusterExtensionStatus,
    after: &ClusterExtensionStatus,
    report: &'a Report,
) -> Vec<Begun<'a>> {
    let shows = |status: &ClusterExtensionStatus, name: &str| {
        status.active_revisions.iter().any(|revision| revision.name == name)
    };
    let is_new = |name: &str| shows(after, name) && !shows(before, name);
    let known = report.revisions.iter().flat_map(Revisions::active);
    let known = known
        // What was taken over was rolled out by another program.
        .filter(|revision| revision.annotation(INPUTS_DIGEST_ANNOTATION).is_some() && is_new(&revision.name))
        .map(|revision| Begun {
            bundle: &revision.bundle,
            catalog: revision.annotation(CATALOG_ANNOTATION),
            added_permissions: revision.annotation(ADDED_PERMISSIONS_ANNOTATION),
        });
    let created = report.created().into_iter().filter(|created| is_new(&created.name));
    let created = created.map(|created| Begun {
        bundle: &created.bundle,
        catalog: created.catalog.as_deref(),
        added_permissions: created.added_permissions.as_deref(),
    });
    known.chain(created).collect()
}

/// Reason and message of the failure that a status shows.
fn failing(status: &ClusterExtensionStatus) -> Option<(Reason, String)> {
    let condition = status.conditions.find(Progressing)?;
    Some((failure(&condition.reason)?, condition.message.clone()))
}

/// The reason of `Progressing` if it is that of a failure.
fn failure(reason: &str) -> Option<Reason> {
    let failures =
        [Reason::Retrying, Reason::Blocked, Reason::InvalidConfiguration, Reason::ProgressDeadlineExceeded];
    Reason::named(reason).filter(|reason| failures.contains(reason))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use jiff::Timestamp;
    use olm_api::{
        ConditionStatus, ConditionUpdate,
        names::{ADDED_PERMISSIONS_ANNOTATION, BUNDLE_NAME, CATALOG_ANNOTATION, INPUTS_DIGEST_ANNOTATION},
        v1::{BundleMetadata, ClusterExtensionInstallStatus, ClusterObjectSet, RevisionStatus},
    };
    use serde_json::json;

    use super::*;
    use crate::cluster_extension::{
        report::StepError,
        report::{Created, Outcome},
    };

    fn installed(version: &str) -> ClusterExtensionStatus {
        let bundle = BundleMetadata { name: format!("op.{version}"), version: version.into(), release: None };
        ClusterExtensionStatus {
            install: Some(ClusterExtensionInstallStatus { bundle }),
            ..Default::default()
        }
    }

    fn reasons(before: &ClusterExtensionStatus, after: &ClusterExtensionStatus) -> Vec<&'static str> {
        changes(before, after, &Report::default()).into_iter().map(|t| t.reason).collect()
    }

    #[test]
    fn installation_and_upgrade_are_told_once() {
        let none = ClusterExtensionStatus::default();
        assert_eq!(reasons(&none, &installed("1.0.0")), ["Installed"]);
        assert_eq!(reasons(&installed("1.0.0"), &installed("1.1.0")), ["Upgraded"]);
        assert!(reasons(&installed("1.1.0"), &installed("1.1.0")).is_empty());
    }

    #[test]
    fn another_revision_of_the_same_bundle_is_told() {
        let showing = |version, reason| {
            let mut status = installed(version);
            let update = ConditionUpdate::new(Progressing, ConditionStatus::True, reason, "so", None);
            status.conditions.set(update, Timestamp::UNIX_EPOCH);
            status
        };
        let rolling = showing("1.0.0", Reason::RollingOut);
        assert_eq!(reasons(&rolling, &showing("1.0.0", Reason::Succeeded)), ["RolledOut"]);
        assert_eq!(reasons(&rolling, &showing("1.1.0", Reason::Succeeded)), ["Upgraded"]);
        assert!(reasons(&showing("1.0.0", Reason::Retrying), &rolling).is_empty());
    }

    /// A status that shows these revisions.
    fn showing(names: &[&str]) -> ClusterExtensionStatus {
        let shown = |name: &&str| RevisionStatus { name: (*name).to_owned(), ..RevisionStatus::default() };
        ClusterExtensionStatus { active_revisions: names.iter().map(shown).collect(), ..installed("1.0.0") }
    }

    /// Revision 2 as it is read again, made by this program or taken over.
    fn read_again(ours: bool) -> Revisions {
        let mut annotations = BTreeMap::from([(BUNDLE_NAME.to_owned(), "op.2.0.0".to_owned())]);
        annotations.insert(ADDED_PERMISSIONS_ANNOTATION.to_owned(), "more".to_owned());
        annotations.insert(CATALOG_ANNOTATION.to_owned(), "ours".to_owned());
        if ours {
            annotations.insert(INPUTS_DIGEST_ANNOTATION.to_owned(), "digest".to_owned());
        }
        let set: ClusterObjectSet = serde_json::from_value(json!({
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterObjectSet",
            "metadata": {"name": "op-2", "annotations": annotations},
            "spec": {"revision": 2, "lifecycleState": "Active", "collisionProtection": "Prevent", "phases": []},
        }))
        .unwrap();
        Revisions::read(std::iter::once(set))
    }

    #[test]
    fn a_roll_out_and_what_it_may_do_is_told_once_however_often_the_status_could_not_be_written() {
        let (before, after) = (showing(&["op-1"]), showing(&["op-1", "op-2"]));
        let bundle = BundleRecord { name: "op.2.0.0".to_owned(), ..BundleRecord::default() };
        let (catalog, added_permissions) = (Some("ours".to_owned()), Some("more".to_owned()));
        let made = Created { name: "op-2".to_owned(), bundle, catalog, added_permissions };
        let outcome = Outcome::Created(made);
        let making = Report { outcome, resolved: Some("Resolved".to_owned()), ..Report::default() };
        let after_failure = Report { revisions: Some(read_again(true)), ..Report::default() };
        for report in [&making, &after_failure] {
            let notices = changes(&before, &after, report);
            let notices: Vec<_> = notices.iter().map(|one| (one.reason, one.note.as_str())).collect();
            let rolling_out = "Rolling out bundle op.2.0.0 with version  from catalog ours";
            assert_eq!(notices, [("RollingOut", rolling_out), ("PermissionsIncreased", "more")]);
        }
        assert!(changes(&after, &after, &after_failure).is_empty());
        let taken_over = Report { revisions: Some(read_again(false)), ..Report::default() };
        assert!(changes(&before, &after, &taken_over).is_empty());
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
        let resolved = Report { resolved: Some("Resolved bundle a".to_owned()), ..Report::default() };
        let notices = changes(&installed("1.0.0"), &failing("a"), &resolved);
        assert_eq!(notices.iter().map(|notice| notice.reason).collect::<Vec<_>>(), ["Resolved", "Blocked"]);
    }

    #[test]
    fn what_is_in_the_way_of_a_revision_is_left_to_its_controller() {
        let retrying = |stalled: bool| {
            let mut status = installed("1.0.0");
            let mut put = |type_, reason| {
                let update = ConditionUpdate::new(type_, ConditionStatus::True, reason, "in the way", None);
                status.conditions.set(update, Timestamp::UNIX_EPOCH);
            };
            put(Progressing, Reason::Retrying);
            if stalled {
                put(Stalled, Reason::Blocked);
            }
            status
        };
        let error =
            Report { outcome: Outcome::Failed(StepError::Revisions("e".into())), ..Report::default() };
        for (stalled, report, wanted) in [
            (false, Report::default(), vec!["Retrying"]),
            (true, Report::default(), vec![]),
            (true, error, vec!["Retrying"]),
        ] {
            let notices = changes(&installed("1.0.0"), &retrying(stalled), &report);
            assert_eq!(notices.iter().map(|notice| notice.reason).collect::<Vec<_>>(), wanted);
        }
    }
}
