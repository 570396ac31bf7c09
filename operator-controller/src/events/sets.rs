//! Events about revisions, and what of it is told about their extension too.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource;
use olm_api::{
    ConditionType::{Available, Progressing, Succeeded},
    Reason,
    ownership::revision_of,
    v1::{ClusterExtension, ClusterObjectSet, ClusterObjectSetStatus},
};

use super::{Events, Told, failure_reason};

/// Objects named in one Event.
const NAMED_MAX: usize = 10;

impl Events {
    /// Tells what changed of a revision's status. Failing to tell is no failure of the pass.
    pub(crate) async fn set(
        &self,
        set: &ClusterObjectSet,
        before: &ClusterObjectSetStatus,
        after: &ClusterObjectSetStatus,
    ) {
        let reference = set.object_ref(&());
        for told in changes(before, after) {
            self.publish(told, &reference).await;
        }
    }

    /// Tells that objects were not as the revision says and are so again, on the revision and its extension.
    pub(crate) async fn repaired(&self, set: &ClusterObjectSet, objects: &[String]) {
        self.on_both(set, "DriftRepaired", "Brought back to what the revision says", objects).await;
    }

    /// Tells that objects were applied whose kind the cluster did not serve before.
    pub(crate) async fn arrived(&self, set: &ClusterObjectSet, objects: &[String]) {
        self.on_both(set, "KindArrived", "Applied, since the cluster serves their kinds now", objects).await;
    }

    /// Tells that objects are left out.
    pub(crate) async fn left_out(&self, set: &ClusterObjectSet, objects: &[String]) {
        self.on_both(set, "LeftOut", "Left out because the cluster does not serve their kinds", objects)
            .await;
    }

    async fn on_both(&self, set: &ClusterObjectSet, reason: &'static str, what: &str, objects: &[String]) {
        if objects.is_empty() {
            return;
        }
        let mut note = format!("{what}: {}", objects[..objects.len().min(NAMED_MAX)].join(", "));
        if objects.len() > NAMED_MAX {
            note.push_str(" and more");
        }
        let told = || Told { reason, warning: false, note: note.clone() };
        self.publish(told(), &set.object_ref(&())).await;
        if let Some(owner) = revision_of(&set.metadata) {
            let extension = ObjectReference {
                api_version: Some(ClusterExtension::api_version(&()).into_owned()),
                kind: Some(ClusterExtension::kind(&()).into_owned()),
                name: Some(owner.name.to_owned()),
                uid: Some(owner.uid.to_owned()),
                ..ObjectReference::default()
            };
            self.publish(told(), &extension).await;
        }
    }
}

fn changes(before: &ClusterObjectSetStatus, after: &ClusterObjectSetStatus) -> Vec<Told> {
    let mut told = Vec::new();
    let progressing = |status: &ClusterObjectSetStatus| {
        status.conditions.find(Progressing).map(|c| (c.reason.clone(), c.message.clone()))
    };
    let (then, now) = (progressing(before), progressing(after));
    if let Some((reason, message)) = now.as_ref().filter(|now| then.as_ref() != Some(*now)) {
        if let Some(reason) = failure_reason(reason, message) {
            told.push(Told { reason, warning: true, note: message.clone() });
        }
        for quiet in [Reason::RollingOut, Reason::Archived] {
            if reason == quiet.as_str() {
                told.push(Told { reason: quiet.as_str(), warning: false, note: message.clone() });
            }
        }
    }
    if after.conditions.is_true(Succeeded) && !before.conditions.is_true(Succeeded) {
        let note = now.map(|(_, message)| message).unwrap_or_default();
        told.push(Told { reason: "RolledOut", warning: false, note });
    }
    let unhealthy = after.conditions.find(Available).filter(|c| c.reason == Reason::ProbeFailure.as_str());
    if let Some(condition) = unhealthy.filter(|_| before.conditions.is_true(Available)) {
        told.push(Told { reason: "ProbeFailure", warning: true, note: condition.message.clone() });
    }
    told
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
        let rows: [(&ClusterObjectSetStatus, &ClusterObjectSetStatus, &[&str]); 10] = [
            (&new, &rolling, &["RollingOut"]),
            (&rolling, &rolling, &[]),
            (&rolling, &collided, &["Collision"]),
            (&collided, &retrying, &["Retrying"]),
            (&new, &blocked, &["Blocked"]),
            (&rolling, &late, &["ProgressDeadlineExceeded"]),
            (&rolling, &done, &["RolledOut"]),
            (&done, &done, &[]),
            (&done, &sick, &["ProbeFailure"]),
            (&done, &gone, &["Archived"]),
        ];
        for (before, after, wanted) in rows {
            let reasons: Vec<_> = changes(before, after).into_iter().map(|told| told.reason).collect();
            assert_eq!(reasons, wanted, "{before:?} {after:?}");
        }
    }
}
