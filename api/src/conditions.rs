//! Conditions: the types and reasons this API knows, and the list a status carries.
//!
//! Transition times come from the caller, so that the same input gives the same status. A condition keeps
//! its transition time while its status stays the same. Messages are cut to what the API server takes, and whatever
//! is not visible in them is written out: they quote catalogs, bundles, registries.

use std::ops::Deref;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use olm_text::visible;
use serde::{Deserialize, Serialize};

/// The longest message a condition may carry, in bytes, the note that it was cut included. The schema
/// allows as many characters.
pub const MAX_MESSAGE_BYTES: usize = 32_768;

/// The end of a message that was cut.
pub const TRUNCATION_SUFFIX: &str = "\n\n... [message truncated]";

macro_rules! names {
    ($(#[$meta:meta])* $name:ident { $($(#[$variant_meta:meta])* $variant:ident,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$variant_meta])* $variant,)+ }

        impl $name {
            /// Every value, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The value that the API carries as `text`.
            pub fn named(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.as_str() == text)
            }

            /// The text the API carries.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => stringify!($variant)),+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

names! {
    /// The condition types of the three kinds.
    ConditionType {
        /// ClusterExtension: a bundle is installed.
        Installed,
        /// All kinds: the desired state is being worked on, or has been reached.
        Progressing,
        /// ClusterObjectSet, mirrored on ClusterExtension: the objects exist and pass their probes.
        Available,
        /// ClusterObjectSet: the revision has rolled out once; never changes back.
        Succeeded,
        /// ClusterCatalog: the content is served.
        Serving,
        /// ClusterExtension: any of the next three.
        Deprecated,
        /// ClusterExtension: the package is deprecated.
        PackageDeprecated,
        /// ClusterExtension: a channel it uses is deprecated.
        ChannelDeprecated,
        /// ClusterExtension: the installed bundle is deprecated.
        BundleDeprecated,
        /// ClusterExtension, on platforms with a ClusterVersion: whether the installed bundle supports the platform's
        /// next minor version. Present only if the bundle declares a highest platform version.
        Upgradeable,
        /// ClusterExtension: the catalogs have a newer version that the update paths lead to, whether or not
        /// `spec.source.catalog.version` allows it; the message is that version. Present only if a bundle is installed.
        UpdateAvailable,
        /// ClusterObjectSet and ClusterExtension: the policy that the reason names is in force, so a deletion keeps what
        /// it says. Present only if a policy other than `Delete` is set, or is still being undone.
        DeletionPolicy,
        /// UpdatePolicy: its texts can be read.
        Valid,
        /// ClusterExtension: its deletion would delete custom resources, and the guard does not let it pass; the message
        /// counts them. Present only while the guard is set.
        DeletionGuarded,
        /// All kinds, for GitOps tools: the object matches its spec.
        Ready,
        /// All kinds, for GitOps tools: work continues. Present only during that time.
        Reconciling,
        /// All kinds, for GitOps tools: someone has to act. Present only during that time.
        Stalled,
    }
}

names! {
    /// The reasons conditions give.
    Reason {
        /// It worked.
        Succeeded,
        /// It did not work, and nothing is installed.
        Failed,
        /// Nothing is installed yet, and nothing has failed.
        Absent,
        /// Objects are being rolled out.
        RollingOut,
        /// An error that is retried.
        Retrying,
        /// An error that someone has to fix.
        Blocked,
        /// The bundle's configuration is not valid.
        InvalidConfiguration,
        /// The roll-out took longer than its deadline allows.
        ProgressDeadlineExceeded,
        /// Something in use is deprecated.
        Deprecated,
        /// Nothing in use is deprecated.
        NotDeprecated,
        /// Whether something is deprecated is not known.
        DeprecationStatusUnknown,
        /// `Ready` of a ClusterObjectSet: it has rolled out, and its objects are kept as it says.
        Active,
        /// The revision is archived.
        Archived,
        /// All objects exist and pass their probes.
        ProbesSucceeded,
        /// Some object does not pass its probes.
        ProbeFailure,
        /// Healthy, but the admission policies that protect its ServiceAccount are missing or changed.
        Unguarded,
        /// The state is not known because of an error.
        Reconciling,
        /// The bundle does not support the platform's next minor version.
        IncompatibleWithNextPlatformVersion,
        /// The bundle declares an invalid platform version.
        InvalidPlatformVersion,
        /// The bundle supports the platform's next minor version.
        CompatibleWithNextPlatformVersion,
        /// The catalogs have a newer version.
        NewerVersion,
        /// The catalogs have no newer version.
        NewestVersion,
        /// The catalog's content is served.
        Available,
        /// The catalog's content is not served. Of `UpdateAvailable`: the catalogs do not say.
        Unavailable,
        /// The catalog's content is not served because its spec says so.
        UserSpecifiedUnavailable,
        /// `Stalled` of a ClusterExtension: a plan waits for approval.
        ApprovalRequired,
        /// `Reconciling` of a ClusterExtension: a plan waits for a time, or for other extensions.
        Waiting,
        /// The texts of a policy can be read.
        Valid,
        /// A text of a policy cannot be read.
        Invalid,
        /// Deletion policy: everything is deleted.
        Delete,
        /// Deletion policy: CustomResourceDefinitions stay.
        RetainCRDs,
        /// Deletion policy: everything stays.
        Orphan,
        /// Deletion guard: there are custom resources.
        CustomResources,
        /// Deletion guard: there are none.
        NoCustomResources,
        /// Deletion guard: they could not be counted.
        NotCounted,
    }
}

names! {
    /// Whether a condition holds.
    ConditionStatus {
        /// It holds.
        True,
        /// It does not hold.
        False,
        /// It cannot be known.
        Unknown,
    }
}

/// The new state of a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionUpdate {
    /// Its type.
    pub type_: ConditionType,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// Why, for programs.
    pub reason: Reason,
    /// Why, human-readable. Cut when longer than [`MAX_MESSAGE_BYTES`].
    pub message: String,
    /// The `metadata.generation` that the condition was set for.
    pub observed_generation: Option<i64>,
}

impl ConditionUpdate {
    /// A statement about the generation `observed_generation`.
    pub fn new(
        type_: ConditionType,
        status: ConditionStatus,
        reason: Reason,
        message: impl Into<String>,
        observed_generation: Option<i64>,
    ) -> Self {
        Self { type_, status, reason, message: message.into(), observed_generation }
    }
}

/// The conditions of a status, one of each type, in the order they were first set.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(transparent)]
pub struct Conditions(Vec<Condition>);

impl Conditions {
    /// Whether there is no condition.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The condition of a type.
    pub fn find(&self, type_: ConditionType) -> Option<&Condition> {
        self.0.iter().find(|condition| condition.type_ == type_.as_str())
    }

    /// Status and reason of a condition.
    pub fn state(&self, type_: ConditionType) -> Option<(&str, &str)> {
        self.find(type_).map(|found| (found.status.as_str(), found.reason.as_str()))
    }

    /// Whether the condition of a type is there and has this status.
    pub fn has_status(&self, type_: ConditionType, status: ConditionStatus) -> bool {
        self.find(type_).is_some_and(|condition| condition.status == status.as_str())
    }

    /// Whether the condition of a type is there and holds.
    pub fn is_true(&self, type_: ConditionType) -> bool {
        self.has_status(type_, ConditionStatus::True)
    }

    /// Sets the condition of a type. `now` becomes its transition time if the status is another than before.
    /// Returns whether anything changed.
    pub fn set(&mut self, update: ConditionUpdate, now: Timestamp) -> bool {
        self.put(
            Condition {
                type_: update.type_.as_str().to_owned(),
                status: update.status.as_str().to_owned(),
                reason: update.reason.as_str().to_owned(),
                message: update.message,
                observed_generation: update.observed_generation,
                last_transition_time: Time(now),
            },
            now,
        )
    }

    /// Sets a condition copied from another object, with the generation of this one. As with
    /// [`Conditions::set`], the transition time is this object's, not the other's.
    pub fn mirror(
        &mut self,
        condition: &Condition,
        observed_generation: Option<i64>,
        now: Timestamp,
    ) -> bool {
        self.put(Condition { observed_generation, ..condition.clone() }, now)
    }

    /// Sets every condition of `newer`; those it does not name stay. Returns whether anything changed.
    pub fn merge(&mut self, newer: &Conditions, now: Timestamp) -> bool {
        let mut changed = false;
        for condition in newer {
            changed |= self.put(condition.clone(), now);
        }
        changed
    }

    /// Removes the condition of a type. Returns whether there was one.
    pub fn remove(&mut self, type_: ConditionType) -> bool {
        let before = self.0.len();
        self.0.retain(|condition| condition.type_ != type_.as_str());
        self.0.len() != before
    }

    fn put(&mut self, mut new: Condition, now: Timestamp) -> bool {
        new.message = truncate(visible(&new.message).into_owned());
        // The API carries whole seconds; a finer time here would never equal what is read back.
        new.last_transition_time = Time(whole_seconds(now));
        let Some(old) = self.0.iter_mut().find(|old| old.type_ == new.type_) else {
            self.0.push(new);
            return true;
        };
        if old.status == new.status {
            new.last_transition_time = old.last_transition_time.clone();
        }
        let changed = *old != new;
        *old = new;
        changed
    }
}

/// The activity on an object that is not ready, for GitOps tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity<'a> {
    /// It is ready, or nothing happens.
    None,
    /// Work continues, for this reason.
    Reconciling(Reason, &'a str),
    /// Someone has to act, for this reason.
    Stalled(Reason, &'a str),
}

/// Writes the conditions of an object, all about one generation and at one time.
#[derive(Debug)]
pub struct ConditionWriter<'a> {
    /// The conditions.
    pub conditions: &'a mut Conditions,
    /// `metadata.generation` of the object.
    pub generation: Option<i64>,
    /// The transition time of conditions whose status changes.
    pub now: Timestamp,
}

impl ConditionWriter<'_> {
    /// Sets the condition of a type.
    pub fn put(&mut self, type_: ConditionType, status: ConditionStatus, reason: Reason, message: &str) {
        self.conditions.set(ConditionUpdate::new(type_, status, reason, message, self.generation), self.now);
    }

    /// Copies a condition of another object.
    pub fn mirror(&mut self, condition: &Condition) {
        self.conditions.mirror(condition, self.generation, self.now);
    }

    /// Sets `Ready`, and `Reconciling` or `Stalled` while they apply: what GitOps tools read.
    pub fn summarize(&mut self, is_ready: bool, reason: Reason, message: &str, activity: Activity<'_>) {
        let status = if is_ready { ConditionStatus::True } else { ConditionStatus::False };
        self.put(ConditionType::Ready, status, reason, message);
        let (set, others): (_, &[ConditionType]) = match activity {
            Activity::None => (None, &[ConditionType::Stalled, ConditionType::Reconciling]),
            Activity::Reconciling(reason, message) => {
                (Some((ConditionType::Reconciling, reason, message)), &[ConditionType::Stalled])
            }
            Activity::Stalled(reason, message) => {
                (Some((ConditionType::Stalled, reason, message)), &[ConditionType::Reconciling])
            }
        };
        if let Some((type_, reason, message)) = set {
            self.put(type_, ConditionStatus::True, reason, message);
        }
        for type_ in others {
            self.conditions.remove(*type_);
        }
    }
}

impl Deref for Conditions {
    type Target = [Condition];

    fn deref(&self) -> &[Condition] {
        &self.0
    }
}

impl From<Vec<Condition>> for Conditions {
    fn from(conditions: Vec<Condition>) -> Self {
        Self(conditions)
    }
}

impl<'a> IntoIterator for &'a Conditions {
    type Item = &'a Condition;
    type IntoIter = std::slice::Iter<'a, Condition>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

/// Cuts a message to [`MAX_MESSAGE_BYTES`], at a character's end, and says so.
pub fn truncate(mut message: String) -> String {
    if message.len() > MAX_MESSAGE_BYTES {
        let end = message.floor_char_boundary(MAX_MESSAGE_BYTES - TRUNCATION_SUFFIX.len());
        message.truncate(end);
        message.push_str(TRUNCATION_SUFFIX);
    }
    message
}

/// A sentence and what to do, on one line: `kubectl get` shows the first line of a message and no other.
pub fn with_remedy(sentence: &str, remedy: &str) -> String {
    format!("{}. {remedy}", sentence.trim_end_matches('.'))
}

fn whole_seconds(now: Timestamp) -> Timestamp {
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

#[cfg(test)]
mod tests;
