//! ExtensionPlan: a change of an extension that waits, so that people can read and approve it.
//!
//! Only the controller writes plans. A plan never changes; another change is another plan.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::v1::common::{date_time, immutable};

/// Entries of a list of a plan, at most; the others are counted.
pub const PLAN_ENTRIES_MAX: usize = 1_000;
/// Field paths of one object, at most.
pub const PLAN_FIELDS_MAX: usize = 50;
/// Characters of a text of a plan, at most.
pub const PLAN_TEXT_MAX: usize = 1_024;

/// What a change of an extension would do.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "extensions.olm.operatorframework.io",
    version = "v1alpha1",
    kind = "ExtensionPlan",
    doc = "ExtensionPlan is a change of a ClusterExtension that waits. The controller writes it, and removes it when the change is rolled out or superseded.",
    shortname = "explan",
    category = "olm",
    derive = "PartialEq",
    annotation("olm.operatorframework.io/generator", "standard"),
    printcolumn(name = "Extension", type_ = "string", json_path = ".spec.extension.name"),
    printcolumn(name = "From", type_ = "string", json_path = ".spec.from.version"),
    printcolumn(name = "To", type_ = "string", json_path = ".spec.to.version"),
    printcolumn(name = "Created", type_ = "integer", json_path = ".spec.counts.created"),
    printcolumn(name = "Changed", type_ = "integer", json_path = ".spec.counts.changed"),
    printcolumn(name = "Deleted", type_ = "integer", json_path = ".spec.counts.deleted"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Digest", type_ = "string", json_path = ".spec.digest", priority = 1)
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = immutable("a plan is immutable"))]
pub struct ExtensionPlanSpec {
    /// The ClusterExtension that would change.
    pub extension: PlannedExtension,

    /// The digest of the plan, by which it is approved.
    #[schemars(length(max = 71), pattern("^sha256:[0-9a-f]{64}$"))]
    pub digest: String,

    /// The bundle that is installed; nothing before the first installation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<PlannedBundle>,

    /// The bundle that would be installed.
    pub to: PlannedBundle,

    /// The time since which the version has been possible.
    #[schemars(schema_with = "date_time")]
    pub first_possible: Time,

    /// The numbers of objects.
    pub counts: PlannedCounts,

    /// The ClusterExtensions that would be created first, because the bundle requires them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = PLAN_ENTRIES_MAX), inner(length(max = PLAN_TEXT_MAX)), extend("x-kubernetes-list-type" = "atomic"))]
    pub dependencies: Vec<String>,

    /// The objects that would be created, changed and deleted, with the paths of the fields that change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = PLAN_ENTRIES_MAX), extend("x-kubernetes-list-type" = "atomic"))]
    pub objects: Vec<PlannedObject>,

    /// The findings on CustomResourceDefinitions that would change or go.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = PLAN_ENTRIES_MAX), extend("x-kubernetes-list-type" = "atomic"))]
    pub crds: Vec<PlannedCrd>,

    /// The permissions that the operator would gain, by the danger that comes with them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = PLAN_ENTRIES_MAX), extend("x-kubernetes-list-type" = "atomic"))]
    pub permissions: Vec<GainedPermissions>,

    /// The images of workloads that would change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = PLAN_ENTRIES_MAX), extend("x-kubernetes-list-type" = "atomic"))]
    pub images: Vec<PlannedImage>,

    /// The webhook configurations that would be created, changed or deleted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = PLAN_ENTRIES_MAX), inner(length(max = PLAN_TEXT_MAX)), extend("x-kubernetes-list-type" = "atomic"))]
    pub webhooks: Vec<String>,

    /// The workloads whose Pods would be replaced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = PLAN_ENTRIES_MAX), inner(length(max = PLAN_TEXT_MAX)), extend("x-kubernetes-list-type" = "atomic"))]
    pub restarts: Vec<String>,

    /// Entries of all lists that were left out because the plan would be too large; `olm diff` shows them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted: i64,

    /// The plan that was there before, and how this one differs from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supersedes: Option<SupersededPlan>,
}

#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// A ClusterExtension.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct PlannedExtension {
    /// Its name.
    #[schemars(length(max = 253))]
    pub name: String,
    /// Its UID.
    #[schemars(length(max = 64))]
    pub uid: String,
}

/// A bundle of a plan.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct PlannedBundle {
    /// Its version, the release included.
    #[schemars(length(max = PLAN_TEXT_MAX))]
    pub version: String,
    /// Its name.
    #[schemars(length(max = PLAN_TEXT_MAX))]
    pub bundle: String,
    /// The catalog that has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = PLAN_TEXT_MAX))]
    pub catalog: Option<String>,
    /// Its image.
    #[schemars(length(max = PLAN_TEXT_MAX))]
    pub image: String,
}

/// The numbers of objects of a plan.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct PlannedCounts {
    /// Objects that would be created.
    pub created: i64,
    /// Objects that would change.
    pub changed: i64,
    /// Objects that would be deleted.
    pub deleted: i64,
    /// Objects that would stay as they are.
    pub kept: i64,
}

/// What would become of an object.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlannedChange {
    /// It would be created.
    #[default]
    Create,
    /// Fields of it would change.
    Change,
    /// It would be deleted.
    Delete,
}

/// An object of a plan.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct PlannedObject {
    /// What would become of it.
    pub change: PlannedChange,
    /// Its API group and version.
    #[schemars(length(max = PLAN_TEXT_MAX))]
    pub api_version: String,
    /// Its kind.
    #[schemars(length(max = PLAN_TEXT_MAX))]
    pub kind: String,
    /// Its namespace; nothing for objects of the cluster.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = PLAN_TEXT_MAX))]
    pub namespace: String,
    /// Its name.
    #[schemars(length(max = PLAN_TEXT_MAX))]
    pub name: String,
    /// The paths of the fields that would change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = PLAN_FIELDS_MAX), inner(length(max = PLAN_TEXT_MAX)), extend("x-kubernetes-list-type" = "atomic"))]
    pub fields: Vec<String>,
    /// A note on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = PLAN_TEXT_MAX))]
    pub note: Option<String>,
}

/// The findings on one CustomResourceDefinition.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct PlannedCrd {
    /// Its name.
    #[schemars(length(max = PLAN_TEXT_MAX))]
    pub name: String,
    /// The findings, a sentence or an accepted change each.
    #[schemars(length(max = PLAN_FIELDS_MAX), inner(length(max = PLAN_TEXT_MAX)), extend("x-kubernetes-list-type" = "atomic"))]
    pub findings: Vec<String>,
}

/// Permissions that a ServiceAccount would gain.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct GainedPermissions {
    /// Namespace and name of the ServiceAccount.
    #[schemars(length(max = PLAN_TEXT_MAX))]
    pub service_account: String,
    /// The danger that comes with them; nothing where none is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = PLAN_TEXT_MAX))]
    pub danger: Option<String>,
    /// The permissions.
    #[schemars(length(max = PLAN_ENTRIES_MAX), inner(length(max = PLAN_TEXT_MAX)), extend("x-kubernetes-list-type" = "atomic"))]
    pub permissions: Vec<String>,
}

/// An image of a workload.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct PlannedImage {
    /// The workload and its container.
    #[schemars(length(max = PLAN_TEXT_MAX))]
    pub container: String,
    /// The image that runs now.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = PLAN_TEXT_MAX))]
    pub from: Option<String>,
    /// The image that would run.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = PLAN_TEXT_MAX))]
    pub to: Option<String>,
}

/// A plan that another one has taken the place of.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct SupersededPlan {
    /// Its digest.
    #[schemars(length(max = 71))]
    pub digest: String,
    /// How the later plan differs from it, a clause each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = PLAN_FIELDS_MAX), inner(length(max = PLAN_TEXT_MAX)), extend("x-kubernetes-list-type" = "atomic"))]
    pub differences: Vec<String>,
}
