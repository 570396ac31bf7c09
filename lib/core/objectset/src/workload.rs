//! Why a Deployment, StatefulSet, DaemonSet or Job is not healthy: what it reports itself, what its Pods report, or what
//! keeps them from being created.
//!
//! The caller lists the Pods by [`Workload::selector`] and gives the JSON of the answer to [`Workload::pods`]. Only Pods
//! that the workload controls count: a selector alone proves nothing. All texts that are read are untrusted: they are
//! printed on one line, escaped and cut, and the messages of containers that ended, which may be the end of a log, are
//! not read at all.

mod events;
mod pods;
#[cfg(test)]
mod tests;
mod webhook;

use std::fmt;

use olm_object::{ObjectKey, text};
use olm_text::{cut, one_line};
use serde_json::Value;

pub use pods::PodReport;
pub use webhook::Webhook;

/// Longest label selector, in bytes: it becomes part of a URL.
const SELECTOR_BYTES_MAX: usize = 2_048;
/// Characters of an untrusted message that are shown.
const MESSAGE_CHARACTERS: usize = 300;

/// A Deployment, StatefulSet, DaemonSet or Job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    key: ObjectKey,
    uid: String,
    selector: String,
    /// What it reports itself.
    reported: Option<Finding>,
    lacks_pods: bool,
}

/// Why a workload or a Pod is not healthy. The order is that of importance.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Its kind.
    pub kind: FindingKind,
    /// The message, on one line.
    pub text: String,
    /// The admission webhook that the message is about.
    pub webhook: Option<Webhook>,
}

/// Kinds of findings, in the words that Kubernetes has for them; the most telling first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FindingKind {
    /// Pods cannot be created.
    FailedCreate,
    /// A container used more memory than its limit.
    OomKilled,
    /// A container ends again and again.
    CrashLoopBackOff,
    /// An image cannot be pulled.
    ImagePullBackOff,
    /// A container cannot be started for another reason.
    ContainerNotStarted,
    /// No node takes the Pod.
    FailedScheduling,
    /// The Pod or the Job failed.
    Failed,
    /// Nothing is wrong yet: containers start.
    Starting,
}

impl FindingKind {
    /// The word that Kubernetes has for it.
    pub fn as_str(self) -> &'static str {
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

impl Finding {
    fn new(kind: FindingKind, text: String) -> Self {
        Self { kind, text, webhook: None }
    }

    /// Pods cannot be created, for the reason that the API server gives.
    fn failed_create(message: &str) -> Self {
        Self {
            kind: FindingKind::FailedCreate,
            text: untrusted(message),
            webhook: Webhook::unanswered(message),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.kind.as_str())?;
        if let Some(webhook) = &self.webhook {
            write!(f, "{webhook} does not answer: ")?;
        }
        f.write_str(&self.text)
    }
}

impl Workload {
    /// Reads a workload; `None` where the object is none, or its selector cannot be asked with.
    pub fn of(object: &Value) -> Option<Self> {
        let key = ObjectKey::of(object);
        let is_workload = match key.group.as_str() {
            "apps" => ["DaemonSet", "Deployment", "StatefulSet"].contains(&key.kind.as_str()),
            "batch" => key.kind == "Job",
            _ => false,
        };
        let selector = is_workload.then(|| selector(object.pointer("/spec/selector")?)).flatten()?;
        let uid = text(object, "/metadata/uid").to_owned();
        let lacks_pods = lacks_pods(&key.kind, object);
        Some(Self { key, uid, selector, reported: reported(object), lacks_pods })
    }

    /// The label selector of its Pods, as a query takes it.
    pub fn selector(&self) -> &str {
        &self.selector
    }

    /// The field selector of the core Events that report why its Pods cannot be created; `None` where it has all its
    /// Pods, or has a condition for it.
    pub fn events(&self) -> Option<String> {
        self.lacks_pods.then(|| format!("involvedObject.uid={},reason={}", self.uid, events::FAILED_CREATE))
    }

    /// What its Pods report, of a PodList as JSON; empty where it cannot be read.
    pub fn pods(&self, list: &[u8]) -> Vec<PodReport> {
        pods::reports(list, &self.key, &self.uid)
    }

    /// The most telling of what it reports itself, what its Pods report, and what an EventList, as JSON, reports of Pods
    /// that cannot be created.
    pub fn finding(&self, pods: &[PodReport], events: Option<&[u8]>) -> Option<Finding> {
        let of_pods = pods.iter().filter_map(|pod| pod.located(&self.key.namespace));
        let newest = pods.iter().map(|pod| pod.created.as_str()).max();
        let of_events = events.and_then(|events| events::failed_create(events, &self.uid, newest));
        self.reported.iter().cloned().chain(of_pods).chain(of_events).min()
    }
}

/// What the conditions of a Deployment or a Job say about its Pods.
fn reported(object: &Value) -> Option<Finding> {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array)?;
    let holds =
        |type_: &str| conditions.iter().find(|c| text(c, "/type") == type_ && text(c, "/status") == "True");
    if let Some(condition) = holds("ReplicaFailure") {
        return Some(Finding::failed_create(text(condition, "/message")));
    }
    let condition = holds("Failed")?;
    let [reason, message] = ["/reason", "/message"].map(|field| untrusted(text(condition, field)));
    Some(Finding::new(FindingKind::Failed, format!("{reason}: {message}")))
}

/// Whether the controller of a StatefulSet, DaemonSet or Job has still to create Pods. Deployments have a condition for it.
fn lacks_pods(kind: &str, object: &Value) -> bool {
    let number = |field: &str| object.pointer(field).and_then(Value::as_i64);
    let status = |field: &str| number(&format!("/status/{field}")).unwrap_or(0);
    match kind {
        "StatefulSet" => status("replicas") < number("/spec/replicas").unwrap_or(1),
        "DaemonSet" => {
            let is_seen = number("/status/observedGeneration") == number("/metadata/generation");
            !is_seen || status("currentNumberScheduled") < status("desiredNumberScheduled")
        }
        "Job" => {
            let parallel = number("/spec/parallelism").unwrap_or(1);
            let left = number("/spec/completions").map(|all| all.saturating_sub(status("succeeded")));
            status("active") < left.map_or(parallel, |left| left.min(parallel))
        }
        _ => false,
    }
}

/// An untrusted text on one line, cut.
fn untrusted(text: &str) -> String {
    cut(&one_line(text), MESSAGE_CHARACTERS).into_owned()
}

/// A label selector as a query takes it; `None` where it selects everything, or is too long.
fn selector(selector: &Value) -> Option<String> {
    let mut parts = Vec::new();
    for (key, value) in selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten() {
        parts.push(format!("{key}={}", value.as_str()?));
    }
    for one in selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
        let (key, values) = (text(one, "/key"), one.get("values").and_then(Value::as_array));
        let values: Vec<&str> = values.into_iter().flatten().filter_map(Value::as_str).collect();
        parts.push(match text(one, "/operator") {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "Exists" => key.to_owned(),
            "DoesNotExist" => format!("!{key}"),
            _ => return None,
        });
    }
    let selector = parts.join(",");
    (!selector.is_empty() && selector.len() <= SELECTOR_BYTES_MAX).then_some(selector)
}
