//! What the Pods of a workload report.

use std::fmt;

use olm_object::ObjectKey;
use serde::Deserialize;

use super::foreign;

/// Why a workload is not healthy. The order is that of importance.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    pub(crate) kind: FindingKind,
    /// The Pod and what it reports, on one line.
    pub(crate) text: String,
}

/// Kinds of findings, in the words that Kubernetes has for them; the most telling first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum FindingKind {
    FailedCreate,
    OomKilled,
    CrashLoopBackOff,
    ImagePullBackOff,
    ContainerNotStarted,
    FailedScheduling,
    Failed,
    /// Nothing is wrong yet: containers start.
    Starting,
}

impl FindingKind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::FailedCreate => "FailedCreate",
            Self::OomKilled => "OOMKilled",
            Self::CrashLoopBackOff => "CrashLoopBackOff",
            Self::ImagePullBackOff => "ImagePullBackOff",
            Self::ContainerNotStarted => "ContainerNotStarted",
            Self::FailedScheduling => "FailedScheduling",
            Self::Failed => "Failed",
            Self::Starting => "Starting",
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.as_str(), self.text)
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

/// The most telling finding in a list of Pods, as JSON, about those that the workload controls.
pub(super) fn worst(list: &[u8], workload: &ObjectKey, uid: &str) -> Option<Finding> {
    let list: PodList = serde_json::from_slice(list).ok()?;
    let own = list.items.iter().filter(|pod| is_controlled(pod, workload, uid));
    own.filter_map(|pod| {
        let (kind, text) = of_pod(pod)?;
        let name = foreign(&pod.metadata.name);
        Some(Finding { kind, text: format!("Pod {}/{name}: {text}", workload.namespace) })
    })
    .min()
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
        Some((FindingKind::FailedScheduling, foreign(reason)))
    };
    let failed = || {
        (phase == "Failed" && !reason.is_empty())
            .then(|| (FindingKind::Failed, format!("{}: {}", foreign(reason), foreign(message))))
    };
    [containers, unscheduled(), failed()].into_iter().flatten().min()
}

fn of_container(container: &Container) -> Option<(FindingKind, String)> {
    let Container { image, ready, restart_count, state, last_state, .. } = container;
    let name = foreign(&container.name);
    let ended = |ended: &Terminated| {
        let reason =
            if ended.reason.is_empty() { String::new() } else { format!(" ({})", foreign(&ended.reason)) };
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
        "" => foreign(&waiting.reason),
        message => foreign(message),
    };
    match waiting {
        Some(waiting) => Some(match waiting.reason.as_str() {
            "ErrImagePull"
            | "ImagePullBackOff"
            | "ErrImageNeverPull"
            | "InvalidImageName"
            | "ImageInspectError"
            | "RegistryUnavailable" => {
                let image = foreign(image);
                let text =
                    format!("image {image} of container {name} cannot be pulled: {}", because(waiting));
                (FindingKind::ImagePullBackOff, text)
            }
            "" | "ContainerCreating" | "PodInitializing" => {
                (FindingKind::Starting, format!("container {name} is being created"))
            }
            reason => {
                let reason = foreign(reason);
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
