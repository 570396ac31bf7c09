//! What the Pods of a workload report.

use olm_object::ObjectKey;
use serde::Deserialize;

use super::{Finding, FindingKind, untrusted};

/// A Pod of a workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodReport {
    /// Its name.
    pub name: String,
    /// Its phase.
    pub phase: String,
    /// Why it does not run; `None` where it does.
    pub finding: Option<Finding>,
    /// When it was created, as the API server writes times.
    pub(super) created: String,
}

impl PodReport {
    /// Its finding, with the name of the Pod.
    pub(super) fn located(&self, namespace: &str) -> Option<Finding> {
        let Finding { kind, text, webhook } = self.finding.clone()?;
        Some(Finding { kind, text: format!("Pod {namespace}/{}: {text}", self.name), webhook })
    }
}

#[derive(Deserialize)]
struct PodList {
    #[serde(default)]
    items: Vec<Pod>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Pod {
    metadata: Metadata,
    status: Status,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    name: String,
    creation_timestamp: String,
    owner_references: Vec<OwnerReference>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct OwnerReference {
    kind: String,
    name: String,
    uid: String,
    controller: bool,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    phase: String,
    reason: String,
    message: String,
    conditions: Vec<Condition>,
    init_container_statuses: Vec<Container>,
    container_statuses: Vec<Container>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Condition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
    reason: String,
    message: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Container {
    name: String,
    image: String,
    ready: bool,
    restart_count: u32,
    state: State,
    last_state: State,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct State {
    waiting: Option<Waiting>,
    running: Option<serde::de::IgnoredAny>,
    terminated: Option<Terminated>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Waiting {
    reason: String,
    message: String,
}

/// Not its message: that is the end of the container's log, which may hold secrets.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Terminated {
    reason: String,
    exit_code: i32,
}

/// The Pods in a list, as JSON, that the workload controls.
pub(super) fn reports(list: &[u8], workload: &ObjectKey, uid: &str) -> Vec<PodReport> {
    let Ok(list) = serde_json::from_slice::<PodList>(list) else { return Vec::new() };
    let own = list.items.iter().filter(|pod| is_controlled(pod, workload, uid));
    own.map(|pod| PodReport {
        name: untrusted(&pod.metadata.name),
        phase: untrusted(&pod.status.phase),
        finding: of_pod(pod).map(|(kind, text)| Finding::new(kind, text)),
        created: pod.metadata.creation_timestamp.clone(),
    })
    .collect()
}

/// Whether the workload made the Pod. Those of a Deployment belong to its ReplicaSets, which have its name and a hash.
fn is_controlled(pod: &Pod, workload: &ObjectKey, uid: &str) -> bool {
    let Some(owner) = pod.metadata.owner_references.iter().find(|owner| owner.controller) else {
        return false;
    };
    if workload.kind != "Deployment" {
        return owner.uid == uid;
    }
    let hash = owner.name.strip_prefix(&workload.name).and_then(|rest| rest.strip_prefix('-'));
    owner.kind == "ReplicaSet" && hash.is_some_and(|hash| !hash.is_empty() && !hash.contains('-'))
}

fn of_pod(pod: &Pod) -> Option<(FindingKind, String)> {
    let Status { phase, reason, message, conditions, init_container_statuses, container_statuses } =
        &pod.status;
    let containers = init_container_statuses.iter().chain(container_statuses).filter_map(of_container).min();
    let unscheduled = || {
        let condition = conditions.iter().find(|c| c.type_ == "PodScheduled" && c.status == "False")?;
        let reason = if condition.message.is_empty() { &condition.reason } else { &condition.message };
        Some((FindingKind::FailedScheduling, untrusted(reason)))
    };
    let failed = || {
        (phase == "Failed" && !reason.is_empty())
            .then(|| (FindingKind::Failed, format!("{}: {}", untrusted(reason), untrusted(message))))
    };
    [containers, unscheduled(), failed()].into_iter().flatten().min()
}

fn of_container(container: &Container) -> Option<(FindingKind, String)> {
    let Container { image, ready, restart_count, state, last_state, .. } = container;
    let name = untrusted(&container.name);
    let ended = |ended: &Terminated| {
        let reason =
            if ended.reason.is_empty() { String::new() } else { format!(" ({})", untrusted(&ended.reason)) };
        format!("exit code {}{reason}", ended.exit_code)
    };
    let last = state.terminated.as_ref().or(last_state.terminated.as_ref());
    let failure = last.filter(|last| last.exit_code != 0);
    let waiting = state.waiting.as_ref();
    let is_looping = waiting.is_some_and(|waiting| waiting.reason == "CrashLoopBackOff");
    // Between two of its ends a container runs for a while: it is the same state.
    if is_looping || (!ready && *restart_count > 0 && failure.is_some()) {
        return Some(match failure {
            Some(last) if last.reason == "OOMKilled" => out_of_memory(&name),
            Some(last) => (
                FindingKind::CrashLoopBackOff,
                format!("container {name} ends again and again, last with {}", ended(last)),
            ),
            None => (FindingKind::CrashLoopBackOff, format!("container {name} ends again and again")),
        });
    }
    if let Some(last) = state.terminated.as_ref().filter(|last| last.exit_code != 0) {
        let failed = || (FindingKind::Failed, format!("container {name} ended with {}", ended(last)));
        return Some(if last.reason == "OOMKilled" { out_of_memory(&name) } else { failed() });
    }
    let because = |waiting: &Waiting| match waiting.message.as_str() {
        "" => untrusted(&waiting.reason),
        message => untrusted(message),
    };
    match waiting {
        Some(waiting) => Some(match waiting.reason.as_str() {
            "ErrImagePull"
            | "ImagePullBackOff"
            | "ErrImageNeverPull"
            | "InvalidImageName"
            | "ImageInspectError"
            | "RegistryUnavailable" => {
                let image = untrusted(image);
                let text =
                    format!("image {image} of container {name} cannot be pulled: {}", because(waiting));
                (FindingKind::ImagePullBackOff, text)
            }
            "" | "ContainerCreating" | "PodInitializing" => {
                (FindingKind::Starting, format!("container {name} is being created"))
            }
            reason => {
                let reason = untrusted(reason);
                let text = format!("container {name} cannot be started: {reason}: {}", because(waiting));
                (FindingKind::ContainerNotStarted, text)
            }
        }),
        None if !ready && state.running.is_some() => {
            Some((FindingKind::Starting, format!("container {name} is running and not ready")))
        }
        None => None,
    }
}

fn out_of_memory(container: &str) -> (FindingKind, String) {
    (FindingKind::OomKilled, format!("container {container} used more memory than its limit"))
}
