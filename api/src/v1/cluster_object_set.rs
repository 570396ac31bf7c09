//! ClusterObjectSet: one revision of an extension, its objects, and how they roll out.
//!
//! The objects of a revision cannot change; whether it is active, its deadline and its probes can. The one
//! difference to upstream's schema is the number of objects a phase may hold.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::common::{
    DNS1123_LABEL_PATTERN, FIELD_PATH_PATTERN, immutable, label_selector, matches, rule, union_member,
};
use crate::conditions::Conditions;

/// Phases of one object set, at most.
pub const MAX_PHASES: usize = 20;
/// Objects of one phase, at most. Upstream stops at 50, which some published bundles exceed (51 CRDs).
pub const MAX_PHASE_OBJECTS: usize = 1_000;

const LABEL_MESSAGE: &str = "the value must consist of only lowercase alphanumeric characters and hyphens, and must start and end with an alphanumeric character.";
const FIELD_PATH_MESSAGE: &str = "must contain a valid field path. valid fields contain upper or lower-case alphanumeric characters separated by the \".\" character.";

/// The objects of the revision, and the state it should be in.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "olm.operatorframework.io",
    version = "v1",
    kind = "ClusterObjectSet",
    status = "ClusterObjectSetStatus",
    doc = "ClusterObjectSet is one revision of a set of objects that rolls out phase by phase.",
    shortname = "cos",
    category = "olm",
    derive = "Default",
    derive = "PartialEq",
    annotation("olm.operatorframework.io/generator", "standard"),
    printcolumn(
        name = "Available",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Available')].status"
    ),
    printcolumn(
        name = "Progressing",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Progressing')].status"
    ),
    printcolumn(name = "Revision", type_ = "integer", json_path = ".spec.revision"),
    printcolumn(
        name = "Version",
        type_ = "string",
        json_path = ".metadata.annotations.olm\\.operatorframework\\.io/bundle-version"
    ),
    printcolumn(
        name = "State",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].reason"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].message",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterObjectSetSpec {
    /// Whether the revision is rolled out and kept (`Active`) or torn down (`Archived`). An archived revision stays
    /// archived.
    #[x_kube(validation = rule(
        "oldSelf == 'Active' || oldSelf == 'Archived' && oldSelf == self",
        "cannot un-archive",
    ))]
    pub lifecycle_state: LifecycleState,

    /// The revision's number, from 1; a later revision of the same extension has a higher one. Immutable.
    #[schemars(range(min = 1))]
    #[x_kube(validation = immutable("revision is immutable"))]
    pub revision: i64,

    /// The objects, in the order in which they roll out: a phase begins when the one before it is complete. Immutable
    /// once set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_PHASES))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    #[x_kube(validation = rule("self == oldSelf || oldSelf.size() == 0", "phases is immutable"))]
    pub phases: Vec<Phase>,

    /// What happens to existing objects that belong to someone else. `Prevent`: they are left alone and the roll-out
    /// stops. `IfNoController`: they are adopted if no controller owns them. `None`: they are always adopted. Immutable.
    #[x_kube(validation = immutable("collisionProtection is immutable"))]
    pub collision_protection: CollisionProtection,

    /// Minutes the roll-out may take before it counts as failed. Unset: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 10, max = 720))]
    pub progress_deadline_minutes: Option<i32>,

    /// Conditions that selected objects must meet before their phase is complete.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 20), extend("x-kubernetes-list-type" = "atomic"))]
    pub progression_probes: Vec<ProgressionProbe>,
}

/// The state a revision should be in.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LifecycleState {
    /// Rolled out and kept.
    #[default]
    Active,
    /// Torn down, except for what a newer revision has taken over.
    Archived,
}

/// What happens to existing objects that belong to someone else.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CollisionProtection {
    /// They are left alone, and the roll-out reports the collision.
    #[default]
    Prevent,
    /// They are adopted if no controller owns them.
    IfNoController,
    /// They are always adopted.
    None,
}

/// Objects that roll out together.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Phase {
    /// The phase's name, unique in the object set.
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(validation = matches(DNS1123_LABEL_PATTERN, LABEL_MESSAGE))]
    pub name: String,

    /// The objects of the phase.
    #[schemars(length(max = MAX_PHASE_OBJECTS))]
    pub objects: Vec<PhaseObject>,

    /// Replaces the object set's collision protection for this phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collision_protection: Option<CollisionProtection>,
}

/// An object, in place or by reference.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = rule(
    "[has(self.object),has(self.ref)].filter(x,x==true).size() == 1",
    "exactly one of the fields in [object ref] must be set",
))]
pub struct PhaseObject {
    /// The object itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "embedded_object")]
    pub object: Option<serde_json::Value>,

    /// The key of a Secret that stores the object.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    pub ref_: Option<ObjectSourceRef>,

    /// Replaces the phase's collision protection for this object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collision_protection: Option<CollisionProtection>,
}

/// A key of a Secret that holds an object as JSON, possibly compressed with gzip.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "camelCase")]
pub struct ObjectSourceRef {
    /// The Secret's name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,

    /// The Secret's namespace. There is no default: without one the Secret is not found.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 63))]
    pub namespace: String,

    /// The key in the Secret's data.
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}

/// Conditions that selected objects must meet.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ProgressionProbe {
    /// The objects to check.
    pub selector: ObjectSelector,

    /// The assertions; all must hold.
    #[schemars(length(min = 1, max = 20), extend("x-kubernetes-list-type" = "atomic"))]
    pub assertions: Vec<Assertion>,
}

/// Selects objects: a union, `type` says which member is set.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = union_member(
    "type", "GroupKind", "groupKind", "groupKind is required when type is GroupKind, and forbidden otherwise",
))]
#[x_kube(validation = union_member(
    "type", "Label", "label", "label is required when type is Label, and forbidden otherwise",
))]
pub struct ObjectSelector {
    /// The kind of selection.
    #[serde(rename = "type")]
    pub type_: SelectorType,

    /// The objects' API group and kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_kind: Option<GroupKind>,

    /// The objects' labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "label_selector")]
    #[x_kube(validation = rule(
        "(has(self.matchExpressions) && !has(self.matchLabels)) || (!has(self.matchExpressions) && has(self.matchLabels))",
        "exactly one of matchLabels or matchExpressions must be set",
    ))]
    pub label: Option<LabelSelector>,
}

/// The kind of selection.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SelectorType {
    /// By API group and kind.
    #[default]
    GroupKind,
    /// By label.
    Label,
}

/// An API group and a kind in it.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "camelCase")]
pub struct GroupKind {
    /// The API group, empty for the core group.
    pub group: String,
    /// The kind.
    pub kind: String,
}

/// An assertion about an object: a union, `type` says which member is set.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = union_member(
    "type", "ConditionEqual", "conditionEqual",
    "conditionEqual is required when type is ConditionEqual, and forbidden otherwise",
))]
#[x_kube(validation = union_member(
    "type", "FieldsEqual", "fieldsEqual",
    "fieldsEqual is required when type is FieldsEqual, and forbidden otherwise",
))]
#[x_kube(validation = union_member(
    "type", "FieldValue", "fieldValue",
    "fieldValue is required when type is FieldValue, and forbidden otherwise",
))]
pub struct Assertion {
    /// The kind of assertion.
    #[serde(rename = "type")]
    pub type_: AssertionType,

    /// A condition has a status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub condition_equal: Option<ConditionEqual>,

    /// Two fields have the same value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fields_equal: Option<FieldsEqual>,

    /// A field has a value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field_value: Option<FieldValue>,
}

/// The kinds of assertion.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AssertionType {
    /// A condition has a status.
    #[default]
    ConditionEqual,
    /// Two fields have the same value.
    FieldsEqual,
    /// A field has a value.
    FieldValue,
}

/// A condition has a status.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ConditionEqual {
    /// The condition's type.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 200))]
    pub type_: String,

    /// The status it must have.
    pub status: AssertedStatus,
}

/// The status a condition must have.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AssertedStatus {
    /// `True`.
    #[default]
    True,
    /// `False`.
    False,
}

/// Two fields have the same value.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct FieldsEqual {
    /// The path of one field, such as `spec.replicas`.
    #[schemars(length(min = 1, max = 200))]
    #[x_kube(validation = matches(FIELD_PATH_PATTERN, FIELD_PATH_MESSAGE))]
    pub field_a: String,

    /// The path of the other field.
    #[schemars(length(min = 1, max = 200))]
    #[x_kube(validation = matches(FIELD_PATH_PATTERN, FIELD_PATH_MESSAGE))]
    pub field_b: String,
}

/// A field has a value.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct FieldValue {
    /// The field's path, such as `status.phase`.
    #[schemars(length(min = 1, max = 200))]
    #[x_kube(validation = matches(FIELD_PATH_PATTERN, FIELD_PATH_MESSAGE))]
    pub field_path: String,

    /// The value it must have.
    #[schemars(length(min = 1, max = 200))]
    pub value: String,
}

/// The observed state of the revision.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ClusterObjectSetStatus {
    /// The conditions of the revision: `Available`, `Progressing`, `Succeeded`, and for GitOps tools `Ready`,
    /// `Reconciling`, `Stalled`.
    #[serde(default, skip_serializing_if = "Conditions::is_empty")]
    #[schemars(schema_with = "super::common::conditions")]
    pub conditions: Conditions,

    /// The content of each phase when it was first read; content that differs later stops the roll-out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_PHASES))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    #[x_kube(validation = rule("self == oldSelf || oldSelf.size() == 0", "observedPhases is immutable"))]
    pub observed_phases: Vec<ObservedPhase>,
}

/// The content of a phase when it was first read.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ObservedPhase {
    /// The phase's name.
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(validation = matches(DNS1123_LABEL_PATTERN, LABEL_MESSAGE))]
    pub name: String,

    /// The digest of the phase's objects before anything was added to them: `sha256:<hex>`.
    #[schemars(length(min = 1, max = 256))]
    #[x_kube(validation = matches("^[a-z0-9]+:[a-f0-9]+$", "digest must be in the format '<algorithm>:<hex>'"))]
    pub digest: String,
}

fn embedded_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-embedded-resource": true,
        "x-kubernetes-preserve-unknown-fields": true,
    })
}
