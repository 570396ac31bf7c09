//! What a reconcile of a ClusterObjectSet found out and how it ended, in one value. Status, Events and the time of the
//! next reconcile are made of it.

pub(crate) mod status;

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use olm_api::{
    ConditionStatus, ConditionType, Reason,
    v1::{ClusterObjectSet, LifecycleState, ObservedPhase},
};
use olm_object::ObjectKey;
use olm_objectset::{Finding, FindingKind, Workload};
use olm_runtime::ClientError;

use crate::{advice::advice, cluster_object_set::observe::content::ContentError};

/// How a reconcile ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Something was recorded on the revision, whose event causes the next reconcile.
    Recorded,
    /// The controller of its extension decides first whether an earlier program made it.
    AwaitsTakeover,
    /// The status claims a deletion policy that is not the revision's: that is taken back before anything else happens.
    PolicyTakenBack,
    /// An error before anything was found out, which is tried again.
    Unprepared(String),
    /// A person must act; nothing is tried until then.
    Blocked(String),
    /// The content must not be used, and nothing announces that it was put right.
    Unusable(ContentError),
    /// An error that is tried again.
    Retrying(String),
    /// An error that is tried again, although only a person can remove what is in the way.
    Stuck {
        /// The error.
        message: String,
        obstacle: Obstacle,
    },
    /// Objects are missing or not healthy.
    Incomplete {
        /// The message of the first failed probes, as upstream reports it.
        failures: Vec<String>,
        /// The objects that are not healthy, in the order of the phase.
        unhealthy: Vec<Unhealthy>,
        /// What is waited for before probes could say anything, in our words.
        waits: Vec<String>,
        /// Whether an object is waited for that is being deleted.
        awaits_deletion: bool,
    },
    /// All objects exist and are healthy.
    Complete,
    /// Teardown is under way.
    Archiving,
    /// Teardown is over.
    Archived,
}

impl Outcome {
    /// What is in the way, if only a person can remove it.
    pub(crate) fn obstacle(&self) -> Option<&Obstacle> {
        if let Self::Stuck { obstacle, .. } = self { Some(obstacle) } else { None }
    }

    /// The objects that are not healthy.
    pub(crate) fn unhealthy(&self) -> &[Unhealthy] {
        if let Self::Incomplete { unhealthy, .. } = self { unhealthy } else { &[] }
    }

    /// What went wrong, if something did that the status reports.
    pub(crate) fn error(&self) -> Option<String> {
        match self {
            Self::Blocked(text) | Self::Retrying(text) | Self::Stuck { message: text, .. } => {
                Some(text.clone())
            }
            Self::Unusable(error) => Some(error.to_string()),
            _ => None,
        }
    }
}

/// An object that is not healthy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unhealthy {
    pub(crate) object: ObjectKey,
    /// The messages of its probes.
    pub(crate) failures: Vec<String>,
    /// The way to its Pods, where it is a workload.
    pub(crate) workload: Option<Box<Workload>>,
    /// What its Pods report, once they were asked.
    pub(crate) finding: Option<Finding>,
}

impl Unhealthy {
    /// The kind of failure that its Pods report; nothing while they are only starting.
    pub(crate) fn failure(&self) -> Option<FindingKind> {
        self.finding.as_ref().map(|finding| finding.kind).filter(|kind| *kind != FindingKind::Starting)
    }
}

impl fmt::Display for Unhealthy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", short_name(&self.object))?;
        match &self.finding {
            Some(finding) => finding.fmt(f),
            None => f.write_str(&self.failures.join(" and ")),
        }
    }
}

/// `<Kind> <namespace>/<name>`, for people.
pub(crate) fn short_name(object: &ObjectKey) -> String {
    let ObjectKey { kind, namespace, name, .. } = object;
    if namespace.is_empty() { format!("{kind} {name}") } else { format!("{kind} {namespace}/{name}") }
}

impl From<ContentError> for Outcome {
    fn from(error: ContentError) -> Self {
        if error.is_blocking() { Self::Unusable(error) } else { Self::Retrying(error.to_string()) }
    }
}

impl From<ClientError> for Outcome {
    fn from(error: ClientError) -> Self {
        let message = error.to_string();
        match advice(&error) {
            Some(advice) => Self::Stuck { message, obstacle: Obstacle::Missing(advice) },
            None => Self::Retrying(message),
        }
    }
}

/// What keeps a revision from being carried out until a person acts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// Objects have another owner.
    Collision {
        /// Whether one of them belongs to a ClusterObjectSet, which may be a sibling that is not known yet.
        with_set: bool,
        /// The owner in words, and the remedy.
        remedy: String,
    },
    /// The API server does not allow it.
    Forbidden,
    /// Stored objects do not allow a CRD to be written.
    StoredObjects,
    /// The ServiceAccount or the namespace is missing: the remedy.
    Missing(String),
}

impl Obstacle {
    /// What to do, in one sentence.
    fn advice(&self) -> &str {
        match self {
            Self::Collision { remedy, .. } => remedy,
            Self::Forbidden => {
                "Give the ServiceAccount this permission (\"olm bundle rbac\" prints the permissions that a bundle needs), or change the policy or quota that the message names."
            }
            Self::StoredObjects => {
                "Change or delete the stored objects that the message names, or let the extension choose the version that was installed before."
            }
            Self::Missing(advice) => advice,
        }
    }
}

/// What a reconcile found out, and how it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) outcome: Outcome,
    /// Digests of the content, once it was read and is what was recorded.
    pub(crate) content: Option<Vec<ObservedPhase>>,
    /// Whether the objects have the form that the deletion policy asks for, once that was checked.
    pub(crate) policy: Option<Result<(), String>>,
    /// When a webhook certificate is checked again.
    pub(crate) certificates: Option<Timestamp>,
    /// Sentences for `Ready` about changes that are not seen.
    pub(crate) unseen: Vec<String>,
    /// Since when an object has not been healthy, as last reported.
    pub(crate) unhealthy_since: Option<Timestamp>,
}

impl From<Outcome> for Report {
    fn from(outcome: Outcome) -> Self {
        Self {
            outcome,
            content: None,
            policy: None,
            certificates: None,
            unseen: Vec::new(),
            unhealthy_since: None,
        }
    }
}

impl Report {
    /// Why the deletion policy is not in force, if it was checked.
    pub(crate) fn policy_error(&self) -> Option<&str> {
        self.policy.as_ref()?.as_ref().err().map(String::as_str)
    }
}

/// Whether the roll-out may still take its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deadline {
    /// There is none, or it no longer counts.
    None,
    /// It lies ahead.
    At(Timestamp),
    /// It has passed.
    Passed {
        /// How many minutes the revision had.
        minutes: i32,
    },
}

/// The deadline of a revision at `now`.
pub(crate) fn deadline(set: &ClusterObjectSet, now: Timestamp) -> Deadline {
    let created = set.metadata.creation_timestamp.as_ref();
    let (Some(minutes), Some(created)) = (set.spec.progress_deadline_minutes, created) else {
        return Deadline::None;
    };
    if has_succeeded(set) || set.spec.lifecycle_state == LifecycleState::Archived {
        return Deadline::None;
    }
    let at = created.0 + SignedDuration::from_mins(i64::from(minutes));
    if now >= at { Deadline::Passed { minutes } } else { Deadline::At(at) }
}

/// Since when the status says that objects are not healthy.
pub(crate) fn unhealthy_since(set: &ClusterObjectSet) -> Option<Timestamp> {
    let available = set.status.as_ref()?.conditions.find(ConditionType::Available)?;
    (available.status == ConditionStatus::False.as_str()).then_some(available.last_transition_time.0)
}

/// Whether the status says that the revision has rolled out.
pub(crate) fn has_succeeded(set: &ClusterObjectSet) -> bool {
    set.status.as_ref().is_some_and(|s| s.conditions.is_true(ConditionType::Succeeded))
}

/// Whether the status says that the revision missed its deadline.
pub(crate) fn is_late(set: &ClusterObjectSet) -> bool {
    let late = (ConditionStatus::False.as_str(), Reason::ProgressDeadlineExceeded.as_str());
    set.status.as_ref().is_some_and(|s| s.conditions.state(ConditionType::Progressing) == Some(late))
}
