//! ClusterServiceVersion: an installed version of an operator.

mod display;
mod install;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use display::{
    ActionDescriptor, ApiServiceDefinitions, ApiServiceDescription, CrdDescription,
    CustomResourceDefinitions, Icon, Link, Maintainer, Provider, RelatedImage, ResourceReference,
};
pub use install::{
    DeploymentPermissions, InstallMode, NamedInstallStrategy, StrategyDeployment, StrategyDetails,
    WebhookDescription, WebhookType,
};

/// The operator: how it is installed, what it provides and needs, and how it is shown to people.
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "operators.coreos.com",
    version = "v1alpha1",
    kind = "ClusterServiceVersion",
    namespaced,
    status = "ClusterServiceVersionStatus",
    doc = "ClusterServiceVersion is a version of an operator that is installed in a namespace.",
    shortname = "csv",
    shortname = "csvs",
    category = "olm",
    derive = "Default",
    derive = "PartialEq",
    printcolumn(
        name = "Display",
        type_ = "string",
        json_path = ".spec.displayName",
        description = "The name of the CSV"
    ),
    printcolumn(
        name = "Version",
        type_ = "string",
        json_path = ".spec.version",
        description = "The version of the CSV"
    ),
    printcolumn(
        name = "Release",
        type_ = "string",
        json_path = ".spec.release",
        description = "The release of this version of the CSV"
    ),
    printcolumn(
        name = "Replaces",
        type_ = "string",
        json_path = ".spec.replaces",
        description = "The name of a CSV that this one replaces"
    ),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase")
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterServiceVersionSpec {
    /// The Deployments and permissions.
    pub install: NamedInstallStrategy,

    /// The version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,

    /// The release of the version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 20),
        extend("x-kubernetes-validations" = [
            {
                "rule": r"self.matches('^[0-9A-Za-z-]+(\\.[0-9A-Za-z-]+)*$')",
                "message": "release version must be composed of dot-separated identifiers containing only alphanumerics and hyphens"
            },
            {
                "rule": "!self.split('.').exists(x, x.matches('^0[0-9]+$'))",
                "message": "numeric identifiers in release version must not have leading zeros"
            }
        ])
    )]
    pub release: Option<String>,

    /// The maturity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maturity: Option<String>,

    /// The custom resources that are provided and needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub customresourcedefinitions: Option<CustomResourceDefinitions>,

    /// The aggregated APIs that are provided and needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apiservicedefinitions: Option<ApiServiceDefinitions>,

    /// The webhooks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhookdefinitions: Option<Vec<WebhookDescription>>,

    /// Kinds of the cluster that have to be served.
    #[serde(default, rename = "nativeAPIs", skip_serializing_if = "Option::is_none")]
    pub native_apis: Option<Vec<GroupVersionKind>>,

    /// The lowest version of Kubernetes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_kube_version: Option<String>,

    /// The display name.
    pub display_name: String,

    /// The description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,

    /// Keywords for searches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keywords: Option<Vec<String>>,

    /// The maintainers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maintainers: Option<Vec<Maintainer>>,

    /// The provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<Provider>,

    /// Links.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub links: Option<Vec<Link>>,

    /// Icons.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icon: Option<Vec<Icon>>,

    /// The sets of namespaces that the operator can serve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub install_modes: Option<Vec<InstallMode>>,

    /// The name of the ClusterServiceVersion that this one replaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<String>,

    /// Labels for the console.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,

    /// Annotations for the console.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,

    /// Selects what belongs to the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,

    /// Whether custom resources are to be deleted with the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cleanup: Option<CleanupSpec>,

    /// The names of ClusterServiceVersions that updates pass over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skips: Option<Vec<String>>,

    /// The images that the operator uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub related_images: Option<Vec<RelatedImage>>,
}

/// Whether custom resources are to be deleted with the operator.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct CleanupSpec {
    /// Whether they are.
    pub enabled: bool,
}

/// A kind.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupVersionKind {
    /// The API group.
    pub group: String,
    /// The API version.
    pub version: String,
    /// The kind.
    pub kind: String,
}

/// How far the installation is.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ClusterServiceVersionStatus {
    /// The phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,

    /// The message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,

    /// The reason of the phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,

    /// The time of the last change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,

    /// The time of the last change of the phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,

    /// The phases so far, the newest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<ConditionRecord>,

    /// What the operator needs, and whether it is there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requirement_status: Vec<RequirementStatus>,

    /// The time when the certificates were made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certs_last_updated: Option<Time>,

    /// The time when the certificates are made anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certs_rotate_at: Option<Time>,

    /// Custom resources that are being deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cleanup: Option<CleanupStatus>,
}

/// A phase that the installation was in.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ConditionRecord {
    /// The phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The time of the last change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
    /// The time of the last change of the phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
}

/// Something that the operator needs.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct RequirementStatus {
    /// The API group.
    pub group: String,
    /// The API version.
    pub version: String,
    /// The kind.
    pub kind: String,
    /// The name.
    pub name: String,
    /// `Present`, `NotPresent`, `PresentNotSatisfied` or another word.
    pub status: String,
    /// The message.
    pub message: String,
    /// The UID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// What it needs in turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dependents: Vec<DependentStatus>,
}

/// Something that a requirement needs.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct DependentStatus {
    /// The API group.
    pub group: String,
    /// The API version.
    pub version: String,
    /// The kind.
    pub kind: String,
    /// `Satisfied` or `NotSatisfied`.
    pub status: String,
    /// The UID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// The message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Custom resources that are being deleted.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct CleanupStatus {
    /// By kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending_deletion: Vec<ResourceList>,
}

/// Custom resources of a kind.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceList {
    /// The API group.
    pub group: String,
    /// The kind.
    pub kind: String,
    /// The objects.
    pub instances: Vec<ResourceInstance>,
}

/// A custom resource.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceInstance {
    /// The name.
    pub name: String,
    /// The namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// A condition with two times.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct DatedCondition {
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
    pub last_update_time: Option<Time>,
    /// The time of the last change of the status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
}
