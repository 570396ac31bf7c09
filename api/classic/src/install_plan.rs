//! InstallPlan: the objects that a resolution wants, and how far their creation is.

use k8s_openapi::{api::core::v1::ObjectReference, apimachinery::pkg::apis::meta::v1::Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The ClusterServiceVersions that are installed by the plan, and whether they may be.
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[kube(
    group = "operators.coreos.com",
    version = "v1alpha1",
    kind = "InstallPlan",
    namespaced,
    status = "InstallPlanStatus",
    doc = "InstallPlan lists the objects that install a set of ClusterServiceVersions.",
    shortname = "ip",
    category = "olm",
    derive = "Default",
    derive = "PartialEq",
    printcolumn(
        name = "CSV",
        type_ = "string",
        json_path = ".spec.clusterServiceVersionNames[0]",
        description = "The first CSV in the list of clusterServiceVersionNames"
    ),
    printcolumn(
        name = "Approval",
        type_ = "string",
        json_path = ".spec.approval",
        description = "The approval mode"
    ),
    printcolumn(name = "Approved", type_ = "boolean", json_path = ".spec.approved")
)]
#[serde(rename_all = "camelCase")]
pub struct InstallPlanSpec {
    /// Has no effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,

    /// Has no effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_namespace: Option<String>,

    /// The names of the ClusterServiceVersions.
    pub cluster_service_version_names: Vec<String>,

    /// `Automatic` or `Manual`.
    pub approval: String,

    /// Whether the plan is carried out.
    pub approved: bool,

    /// The number of the plan in its namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
}

/// How far the plan is.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct InstallPlanStatus {
    /// `Planning`, `RequiresApproval`, `Installing`, `Complete` or `Failed`.
    pub phase: String,

    /// The conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<InstallPlanCondition>,

    /// The CatalogSources that the plan was made from.
    pub catalog_sources: Vec<String>,

    /// The objects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plan: Vec<Step>,

    /// The bundles that are read for the plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bundle_lookups: Vec<BundleLookup>,

    /// The ServiceAccount in whose name the objects are created, if the group of the namespace names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attenuated_service_account_ref: Option<ObjectReference>,

    /// The time when the plan was first carried out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,

    /// What is wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// A condition of a plan.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct InstallPlanCondition {
    /// The type.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// `True`, `False` or `Unknown`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// The time of the last write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
    /// The time of the last change of the status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// The reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// An object of a plan.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// The ClusterServiceVersion that needs the object.
    pub resolving: String,
    /// The object.
    pub resource: StepResource,
    /// Whether the plan can be complete without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optional: Option<bool>,
    /// `Unknown`, `NotPresent`, `Present`, `Created`, `WaitingForApi` or `UnsupportedResource`.
    pub status: String,
}

/// The object of a step, and where it comes from.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct StepResource {
    /// The name of the CatalogSource.
    pub source_name: String,
    /// The namespace of the CatalogSource.
    pub source_namespace: String,
    /// The API group.
    pub group: String,
    /// The API version.
    pub version: String,
    /// The kind.
    pub kind: String,
    /// The name.
    pub name: String,
    /// The object as JSON, or a reference to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest: Option<String>,
}

/// A bundle that is read for a plan.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct BundleLookup {
    /// The bundle's image.
    pub path: String,
    /// The bundle's name.
    pub identifier: String,
    /// The bundle that it replaces.
    pub replaces: String,
    /// The CatalogSource.
    pub catalog_source_ref: ObjectReference,
    /// The conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<crate::cluster_service_version::DatedCondition>,
    /// The bundle's properties as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub properties: Option<String>,
}
