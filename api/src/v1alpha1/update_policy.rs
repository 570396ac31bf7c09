//! UpdatePolicy: when, how far and with whose consent the extensions that it selects are updated.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    conditions::Conditions,
    v1::common::{DNS1123_SUBDOMAIN_PATTERN, VERSION_RANGE_PATTERN, label_selector, matches},
};

/// Windows of one policy, at most.
pub const WINDOWS_MAX: usize = 32;
/// Catalogs that one policy names, at most.
pub const POLICY_CATALOGS_MAX: usize = 64;
/// Characters of a schedule, at most.
pub const SCHEDULE_MAX: usize = 256;
/// Characters of the name of a time zone, at most.
pub const TIME_ZONE_MAX: usize = 64;
/// Characters of a duration, at most.
pub const DURATION_MAX: usize = 32;
/// Characters of a version range, at most: as many as an extension's may have.
pub const RANGE_MAX: usize = 64;

/// A duration as Go writes it, hours to seconds, without sign.
const DURATION_PATTERN: &str = "^([0-9]+h)?([0-9]+m)?([0-9]+s)?$";
const DURATION_MESSAGE: &str = "must be a duration such as 30m, 4h or 1h30m";

/// The extensions that the policy is for, and what holds for their updates.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "extensions.olm.operatorframework.io",
    version = "v1alpha1",
    kind = "UpdatePolicy",
    plural = "updatepolicies",
    status = "UpdatePolicyStatus",
    doc = "UpdatePolicy says when, how far and with whose consent the ClusterExtensions that it selects are updated.",
    shortname = "uppol",
    category = "olm",
    derive = "Default",
    derive = "PartialEq",
    annotation("olm.operatorframework.io/generator", "standard"),
    printcolumn(name = "Priority", type_ = "integer", json_path = ".spec.priority"),
    printcolumn(name = "Approval", type_ = "string", json_path = ".spec.approval"),
    printcolumn(name = "Selected", type_ = "integer", json_path = ".status.selected"),
    printcolumn(
        name = "Valid",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Valid\")].status"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Valid\")].message",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
pub struct UpdatePolicySpec {
    /// The ClusterExtensions that the policy selects by their labels; all of them when it is empty. Of several policies
    /// that select an extension one is in force: the one with the highest priority, then the first by name.
    #[schemars(schema_with = "label_selector")]
    pub selector: LabelSelector,

    /// The priority among policies that select the same extension: the highest number wins.
    #[serde(default)]
    #[schemars(range(min = i32::MIN, max = i32::MAX))]
    pub priority: i32,

    /// Whether a person has to approve a plan before it is rolled out.
    #[serde(default)]
    pub approval: Approval,

    /// Whether the first installation of an extension is held by the policy too. Otherwise only updates are.
    #[serde(default)]
    pub installs: bool,

    /// When updates may begin. Without a window of kind Allow they may at any time; during a window of kind Deny they may
    /// not, whatever else is open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = WINDOWS_MAX), extend("x-kubernetes-list-type" = "atomic"))]
    pub windows: Vec<UpdateWindow>,

    /// How long a version has to have been possible before it is rolled out, such as 72h. Unset: no time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = DURATION_MAX))]
    #[x_kube(validation = matches(DURATION_PATTERN, DURATION_MESSAGE))]
    pub minimum_age: Option<String>,

    /// The ClusterCatalogs from which versions may come. All of them when there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = POLICY_CATALOGS_MAX), extend("x-kubernetes-list-type" = "set"))]
    #[schemars(inner(length(min = 1, max = 253), pattern(DNS1123_SUBDOMAIN_PATTERN)))]
    pub catalogs: Vec<String>,

    /// The range of versions that may be rolled out, in the form of spec.source.catalog.version of a ClusterExtension. What
    /// is installed stays, also outside of the range.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = RANGE_MAX))]
    #[x_kube(validation = matches(VERSION_RANGE_PATTERN, "invalid version expression"))]
    pub versions: Option<String>,

    /// How many of the selected extensions roll out at the same time. Unset: all of them may.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<Concurrency>,

    /// What happens to a revision that misses its deadline (spec.progressDeadlineMinutes of the ClusterExtension).
    #[serde(default)]
    pub on_failure: OnFailure,
}

/// What happens to a revision that misses its deadline.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// It stays, and still rolls out if that becomes possible.
    #[default]
    Stay,
    /// The revision that was installed before takes its place, if that endangers no stored objects.
    Return,
}

/// Whether a person has to approve a plan.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Approval {
    /// No plan needs approval.
    #[default]
    Automatic,
    /// Every plan needs approval.
    Manual,
    /// A plan needs approval if it gives the operator more dangerous permissions, changes the major version, or has
    /// findings on CustomResourceDefinitions.
    OnRisk,
}

/// A span of time that comes again and again.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct UpdateWindow {
    /// Whether updates may begin during the window, or may not.
    pub kind: WindowKind,

    /// When the window opens: minute, hour, day of the month, month and day of the week, as cron has them. Times that do not
    /// exist on a day count as the next one that does; of times that occur twice on a day the first counts.
    #[schemars(length(min = 9, max = SCHEDULE_MAX))]
    pub schedule: String,

    /// How long the window is open, such as 4h: at most 7 days.
    #[schemars(length(min = 2, max = DURATION_MAX))]
    #[x_kube(validation = matches(DURATION_PATTERN, DURATION_MESSAGE))]
    pub duration: String,

    /// The time zone of the schedule, as the IANA database names it, such as Europe/Berlin.
    #[serde(default = "utc")]
    #[schemars(length(min = 1, max = TIME_ZONE_MAX))]
    pub time_zone: String,
}

fn utc() -> String {
    "UTC".to_owned()
}

/// What a window does.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WindowKind {
    /// Updates may begin while it is open.
    #[default]
    Allow,
    /// Updates may not begin while it is open.
    Deny,
}

/// A limit on roll-outs at the same time.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Concurrency {
    /// Extensions that may roll out at the same time.
    #[schemars(range(min = 1, max = 1000))]
    pub max: i32,

    /// Whether no other extension begins while one of them has missed the deadline of its roll-out.
    #[serde(default)]
    pub halt_on_failure: bool,
}

/// The observed state of the policy.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct UpdatePolicyStatus {
    /// The generation that the status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Extensions for which the policy is in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selected: Option<i32>,

    /// The conditions of the policy: `Valid`.
    #[serde(default, skip_serializing_if = "Conditions::is_empty")]
    #[schemars(schema_with = "crate::v1::common::conditions")]
    pub conditions: Conditions,
}
