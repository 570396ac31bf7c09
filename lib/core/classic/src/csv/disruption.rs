//! Whether an API does not answer because its Pods are on their way: a node is drained, or a version rolls out.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

/// The age at which a Pod is not on its way any more.
const AGE_MAX: SignedDuration = SignedDuration::from_mins(5);
/// Why containers wait that are about to start.
const STARTING: [&str; 2] = ["ContainerCreating", "PodInitializing"];
/// Why containers wait that do not start by themselves.
const FAILING: [&str; 5] = [
    "ImagePullBackOff",
    "ErrImagePull",
    "CrashLoopBackOff",
    "CreateContainerConfigError",
    "InvalidImageName",
];

/// Whether one of the Pods is on its way, or about to go.
pub fn is_disrupted(pods: &[Pod], now: Timestamp) -> bool {
    pods.iter().any(|pod| is_on_its_way(pod, now))
}

fn is_on_its_way(pod: &Pod, now: Timestamp) -> bool {
    let age = pod.metadata.creation_timestamp.as_ref().map(|created| now.duration_since(created.0));
    if age.is_none_or(|age| age > AGE_MAX) {
        return false;
    }
    let Some(status) = &pod.status else { return true };
    let reasons: Vec<&str> = status
        .init_container_statuses
        .iter()
        .chain(&status.container_statuses)
        .flatten()
        .filter_map(waits_for)
        .collect();
    let scheduled = status.conditions.iter().flatten().find(|one| one.type_ == "PodScheduled");
    let is_unschedulable = scheduled.is_some_and(|one| one.reason.as_deref() == Some("Unschedulable"));
    if is_unschedulable || reasons.iter().any(|reason| FAILING.contains(reason)) {
        return false;
    }
    let is_being_scheduled =
        status.phase.as_deref() == Some("Pending") && scheduled.is_none_or(|one| one.status != "True");
    pod.metadata.deletion_timestamp.is_some()
        || is_being_scheduled
        || reasons.iter().any(|reason| STARTING.contains(reason))
}

fn waits_for(container: &ContainerStatus) -> Option<&str> {
    container.state.as_ref()?.waiting.as_ref()?.reason.as_deref()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(deleted: bool, status: &Value) -> Pod {
        let mut metadata = json!({"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z"});
        if deleted {
            metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }
        serde_json::from_value(json!({"metadata": metadata, "status": status})).unwrap()
    }

    fn waiting(reason: &str) -> Value {
        let container = json!({
            "name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"waiting": {"reason": reason}},
        });
        json!({
            "phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}],
            "containerStatuses": [container],
        })
    }

    #[test]
    fn pods_on_their_way_are_a_disruption_and_those_that_fail_are_none() {
        let soon: Timestamp = "2026-01-01T00:04:59Z".parse().unwrap();
        let later: Timestamp = "2026-01-01T00:05:01Z".parse().unwrap();
        let running = json!({"phase": "Running", "conditions": [{"type": "PodScheduled", "status": "True"}]});
        let unschedulable = json!({"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"},
        ]});
        let mut rows = vec![
            (pod(false, &running), false),
            (pod(true, &running), true),
            (pod(false, &json!({"phase": "Pending"})), true),
            (pod(false, &unschedulable), false),
        ];
        rows.extend(STARTING.map(|reason| (pod(false, &waiting(reason)), true)));
        rows.extend(FAILING.map(|reason| (pod(false, &waiting(reason)), false)));
        rows.extend(FAILING.map(|reason| (pod(true, &waiting(reason)), false)));
        for (pod, wanted) in rows {
            assert_eq!(is_disrupted(std::slice::from_ref(&pod), soon), wanted, "{pod:?}");
            assert!(!is_disrupted(&[pod], later), "after five minutes it is a failure");
        }
        assert!(!is_disrupted(&[], soon));
        assert!(is_disrupted(&[pod(false, &running), pod(true, &running)], soon), "one is enough");
    }
}
