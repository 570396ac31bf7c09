//! Subscription: a package that is to be installed in a namespace and kept up to date.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{
        Affinity, EnvFromSource, EnvVar, ObjectReference, ResourceRequirements, Toleration, Volume,
        VolumeMount,
    },
    apimachinery::pkg::apis::meta::v1::{LabelSelector, Time},
};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The package, and how it is updated.
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "operators.coreos.com",
    version = "v1alpha1",
    kind = "Subscription",
    namespaced,
    status = "SubscriptionStatus",
    doc = "Subscription keeps an operator of a catalog installed and up to date.",
    shortname = "sub",
    shortname = "subs",
    category = "olm",
    derive = "Default",
    derive = "PartialEq",
    printcolumn(
        name = "Package",
        type_ = "string",
        json_path = ".spec.name",
        description = "The package subscribed to"
    ),
    printcolumn(
        name = "Source",
        type_ = "string",
        json_path = ".spec.source",
        description = "The catalog source for the specified package"
    ),
    printcolumn(
        name = "Channel",
        type_ = "string",
        json_path = ".spec.channel",
        description = "The channel of updates to subscribe to"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct SubscriptionSpec {
    /// The name of the package.
    pub name: String,

    /// The name of the CatalogSource.
    pub source: String,

    /// The namespace of the CatalogSource.
    pub source_namespace: String,

    /// The channel; any when it is empty, the default one first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,

    /// The ClusterServiceVersion to begin with.
    #[serde(default, rename = "startingCSV", skip_serializing_if = "Option::is_none")]
    pub starting_csv: Option<String>,

    /// `Automatic`, or `Manual`: a person approves each InstallPlan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub install_plan_approval: Option<String>,

    /// Changes to the operator's Deployments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<SubscriptionConfig>,
}

/// Changes to the Pods of an operator's Deployments.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct SubscriptionConfig {
    /// Has no effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,

    /// The Pods' node selector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<BTreeMap<String, String>>,

    /// Tolerations that are added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tolerations: Option<Vec<Toleration>>,

    /// Resources of every container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,

    /// Sources of environment variables that are added to every container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env_from: Option<Vec<EnvFromSource>>,

    /// Environment variables that are set in every container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<Vec<EnvVar>>,

    /// Volumes that are added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volumes: Option<Vec<Volume>>,

    /// Mounts that are added to every container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_mounts: Option<Vec<VolumeMount>>,

    /// Affinity, which replaces that of the bundle part by part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,

    /// Annotations that are added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,
}

/// How far the subscription is.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct SubscriptionStatus {
    /// The ClusterServiceVersion that is being installed, or is installed.
    #[serde(default, rename = "currentCSV", skip_serializing_if = "Option::is_none")]
    pub current_csv: Option<String>,

    /// The ClusterServiceVersion that is installed.
    #[serde(default, rename = "installedCSV", skip_serializing_if = "Option::is_none")]
    pub installed_csv: Option<String>,

    /// The InstallPlan, as older clients read it.
    #[serde(default, rename = "installplan", skip_serializing_if = "Option::is_none")]
    pub install_plan: Option<InstallPlanReference>,

    /// `UpgradeAvailable`, `UpgradePending`, `AtLatestKnown` or nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,

    /// The reason of the state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,

    /// The number of the InstallPlan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub install_plan_generation: Option<i64>,

    /// The InstallPlan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub install_plan_ref: Option<ObjectReference>,

    /// The health of every catalog that the namespace sees.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub catalog_health: Vec<CatalogHealth>,

    /// The conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<LegacyCondition>,

    /// The time of the last change. Absent before the first.
    // The schema requires it: upstream writes null times as absent ones, but never without this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(required)]
    pub last_updated: Option<Time>,
}

/// An InstallPlan, as older clients read it.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct InstallPlanReference {
    /// The API version.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The name.
    pub name: String,
    /// The UID.
    pub uuid: String,
}

/// The health of a catalog.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct CatalogHealth {
    /// The CatalogSource.
    pub catalog_source_ref: ObjectReference,
    /// The time of the last change.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(required)]
    pub last_updated: Option<Time>,
    /// Whether the catalog is healthy.
    pub healthy: bool,
}

/// A condition as this kind has it since before there was a common form.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct LegacyCondition {
    /// The type.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// The reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The time of the last write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_heartbeat_time: Option<Time>,
    /// The time of the last change of the status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
}
