//! Events about revisions, and those that are published on their extension too.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource;
use olm_api::{
    ConditionType::{Available, Progressing, Succeeded},
    Reason,
    ownership::revision_of,
    v1::{ClusterExtension, ClusterObjectSet, ClusterObjectSetStatus},
};

use super::{Events, Notice, failure};
use crate::cluster_object_set::report::Obstacle;

/// What an extension says of its revisions, so that they do not say it as well.
const OF_ROLL_OUT: [&str; 2] = [Reason::RollingOut.as_str(), "RolledOut"];
/// Objects named in one Event.
const NAMED_MAX: usize = 10;

impl Events {
    /// Reports what changed of a revision's status; what only a person can remove is reported on its extension too. An
    /// Event that is not written fails no reconcile.
    pub(crate) async fn set(
        &self,
        set: &ClusterObjectSet,
        (before, after): (&ClusterObjectSetStatus, &ClusterObjectSetStatus),
        obstacle: Option<&Obstacle>,
    ) {
        let reference = set.object_ref(&());
        let obstructed = obstructed(before, after, obstacle);
        let has_extension = revision_of(&set.metadata).is_some();
        for notice in changes(before, after, obstructed.is_some()) {
            if !(has_extension && OF_ROLL_OUT.contains(&notice.reason)) {
                self.publish(notice, &reference).await;
            }
        }
        if let Some(notice) = obstructed {
            self.on_both(set, notice).await;
        }
    }

    /// Reports that objects were not as the revision says and are so again, on the revision and its extension.
    pub(crate) async fn repaired(&self, set: &ClusterObjectSet, objects: &[String]) {
        self.list(set, "DriftRepaired", "Restored after an outside change", objects).await;
    }

    /// Reports that objects were applied whose kind the cluster did not serve before.
    pub(crate) async fn arrived(&self, set: &ClusterObjectSet, objects: &[String]) {
        self.list(set, "KindArrived", "Applied because the cluster now serves their kinds", objects).await;
    }

    /// Reports that objects are left out.
    pub(crate) async fn left_out(&self, set: &ClusterObjectSet, objects: &[String]) {
        self.list(set, "LeftOut", "Left out because the cluster does not serve their kinds", objects).await;
    }

    /// Reports why a workload is not healthy.
    pub(crate) async fn unhealthy(&self, set: &ClusterObjectSet, reason: &'static str, note: &str) {
        self.on_both(set, Notice::warning(reason, note)).await;
    }

    async fn list(&self, set: &ClusterObjectSet, reason: &'static str, what: &str, objects: &[String]) {
        if objects.is_empty() {
            return;
        }
        let mut note = format!("{what}: {}", objects[..objects.len().min(NAMED_MAX)].join(", "));
        if objects.len() > NAMED_MAX {
            note.push_str(" and more");
        }
        self.on_both(set, Notice::normal(reason, note)).await;
    }

    /// Publishes an Event on a revision and on its extension.
    async fn on_both(&self, set: &ClusterObjectSet, notice: Notice) {
        self.publish(notice.clone(), &set.object_ref(&())).await;
        if let Some(owner) = revision_of(&set.metadata) {
            let extension = ObjectReference {
                api_version: Some(ClusterExtension::api_version(&()).into_owned()),
                kind: Some(ClusterExtension::kind(&()).into_owned()),
                name: Some(owner.name.to_owned()),
                uid: Some(owner.uid.to_owned()),
                ..ObjectReference::default()
            };
            self.publish(notice, &extension).await;
        }
    }
}

/// Reason and message of `Progressing`, if they are news.
fn news<'a>(
    before: &ClusterObjectSetStatus,
    after: &'a ClusterObjectSetStatus,
) -> Option<(&'a str, &'a str)> {
    let now = after.conditions.find(Progressing)?;
    let then = before.conditions.find(Progressing);
    let is_same = then.is_some_and(|then| (&then.reason, &then.message) == (&now.reason, &now.message));
    (!is_same).then_some((now.reason.as_str(), now.message.as_str()))
}

/// The news that something is in the way of a revision that only a person can remove.
fn obstructed(
    before: &ClusterObjectSetStatus,
    after: &ClusterObjectSetStatus,
    obstacle: Option<&Obstacle>,
) -> Option<Notice> {
    let (obstacle, (reason, message)) = obstacle.zip(news(before, after))?;
    // Past its deadline a revision says that.
    (reason == Reason::Retrying.as_str()).then(|| {
        let is_collision = matches!(obstacle, Obstacle::Collision { .. });
        Notice::warning(if is_collision { "Collision" } else { Reason::Retrying.as_str() }, message)
    })
}

/// The other news of a revision.
fn changes(
    before: &ClusterObjectSetStatus,
    after: &ClusterObjectSetStatus,
    is_obstructed: bool,
) -> Vec<Notice> {
    let mut notices = Vec::new();
    if let Some((reason, message)) = news(before, after).filter(|_| !is_obstructed) {
        notices.extend(failure(reason).map(|reason| Notice::warning(reason.as_str(), message)));
        let quiet = [Reason::RollingOut, Reason::Archived].into_iter().find(|one| one.as_str() == reason);
        notices.extend(quiet.map(|reason| Notice::normal(reason.as_str(), message)));
    }
    if after.conditions.is_true(Succeeded) && !before.conditions.is_true(Succeeded) {
        let message = after.conditions.find(Progressing).map_or("", |condition| condition.message.as_str());
        notices.push(Notice::normal("RolledOut", message));
    }
    let unhealthy = after.conditions.find(Available).filter(|c| c.reason == Reason::ProbeFailure.as_str());
    if let Some(condition) = unhealthy.filter(|_| before.conditions.is_true(Available)) {
        notices.push(Notice::warning("ProbeFailure", &condition.message));
    }
    notices
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use olm_api::{ConditionStatus, ConditionType, ConditionUpdate};

    use super::*;

    fn status(conditions: &[(ConditionType, ConditionStatus, Reason, &str)]) -> ClusterObjectSetStatus {
        let mut status = ClusterObjectSetStatus::default();
        for (type_, value, reason, message) in conditions {
            let update = ConditionUpdate::new(*type_, *value, *reason, *message, None);
            status.conditions.set(update, Timestamp::UNIX_EPOCH);
        }
        status
    }

    #[test]
    fn each_step_of_a_revision_is_told_once() {
        use ConditionStatus::{False, True};
        let new = status(&[]);
        let rolling = status(&[(Progressing, True, Reason::RollingOut, "Revision 1 is rolling out.")]);
        let collided = status(&[(
            Progressing,
            True,
            Reason::Retrying,
            "revision object collisions in phase 0\nObject x",
        )]);
        let retrying = status(&[(Progressing, True, Reason::Retrying, "forbidden")]);
        let blocked = status(&[(Progressing, False, Reason::Blocked, "b")]);
        let late = status(&[(Progressing, False, Reason::ProgressDeadlineExceeded, "late")]);
        let done = status(&[
            (Progressing, True, Reason::Succeeded, "Revision 1 has rolled out."),
            (Available, True, Reason::ProbesSucceeded, "fine"),
            (Succeeded, True, Reason::Succeeded, "s"),
        ]);
        let mut sick = done.clone();
        let update = ConditionUpdate::new(Available, False, Reason::ProbeFailure, "sick", None);
        sick.conditions.set(update, Timestamp::UNIX_EPOCH);
        let gone = status(&[(Progressing, False, Reason::Archived, "revision is archived")]);
        let rows: [(&ClusterObjectSetStatus, &ClusterObjectSetStatus, &[&str]); 9] = [
            (&new, &rolling, &["RollingOut"]),
            (&rolling, &rolling, &[]),
            (&collided, &retrying, &["Retrying"]),
            (&new, &blocked, &["Blocked"]),
            (&rolling, &late, &["ProgressDeadlineExceeded"]),
            (&rolling, &done, &["RolledOut"]),
            (&done, &done, &[]),
            (&done, &sick, &["ProbeFailure"]),
            (&done, &gone, &["Archived"]),
        ];
        for (before, after, wanted) in rows {
            let reasons: Vec<_> =
                changes(before, after, false).into_iter().map(|notice| notice.reason).collect();
            assert_eq!(reasons, wanted, "{before:?} {after:?}");
        }
        let (forbidden, collision) =
            (Obstacle::Forbidden, Obstacle::Collision { with_set: false, remedy: String::new() });
        for (before, after, obstacle, wanted) in [
            (&rolling, &collided, Some(&collision), Some("Collision")),
            // Not by its text.
            (&rolling, &collided, Some(&forbidden), Some("Retrying")),
            (&rolling, &collided, None, None),
            (&collided, &collided, Some(&collision), None),
            (&rolling, &late, Some(&collision), None),
        ] {
            let reason = obstructed(before, after, obstacle).map(|notice| notice.reason);
            assert_eq!(reason, wanted, "{after:?}");
        }
    }
}
