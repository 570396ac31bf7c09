//! CatalogSource: packages of operators that subscriptions of a namespace, or of all, can name.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{Affinity, Toleration},
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{Condition, Time},
    },
};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Icon;

/// The content of the catalog, and how it is served.
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "operators.coreos.com",
    version = "v1alpha1",
    kind = "CatalogSource",
    namespaced,
    status = "CatalogSourceStatus",
    doc = "CatalogSource is a catalog of operators: an image, an address of a registry server, or a ConfigMap.",
    shortname = "catsrc",
    category = "olm",
    derive = "Default",
    derive = "PartialEq",
    printcolumn(
        name = "Display",
        type_ = "string",
        json_path = ".spec.displayName",
        description = "The pretty name of the catalog"
    ),
    printcolumn(
        name = "Type",
        type_ = "string",
        json_path = ".spec.sourceType",
        description = "The type of the catalog"
    ),
    printcolumn(
        name = "Publisher",
        type_ = "string",
        json_path = ".spec.publisher",
        description = "The publisher of the catalog"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct CatalogSourceSpec {
    /// The type of the source: `grpc` with an image or an address, `configmap` or `internal` with a ConfigMap.
    pub source_type: String,

    /// The weight among catalogs when dependencies are resolved: higher ones are preferred. The default is 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i64>,

    /// The name of a ConfigMap of the same namespace with the content. For the types `configmap` and `internal`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map: Option<String>,

    /// The `host:port` of a registry server. For the type `grpc`, instead of an image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,

    /// The image with the content. For the type `grpc`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,

    /// Settings of the Pod that serves the image, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grpc_pod_config: Option<GrpcPodConfig>,

    /// How a newer image under the same tag is found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_strategy: Option<UpdateStrategy>,

    /// The names of Secrets of the same namespace with credentials for the image's registry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,

    /// The display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,

    /// The description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,

    /// The display name of the publisher.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publisher: Option<String>,

    /// The icon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icon: Option<Icon>,
}

/// Settings of a catalog's Pod.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct GrpcPodConfig {
    /// Replaces the Pod's node selector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<BTreeMap<String, String>>,

    /// Replaces the Pod's tolerations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tolerations: Option<Vec<Toleration>>,

    /// Replaces the Pod's affinity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,

    /// The Pod's priority class; the empty text is the cluster's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,

    /// How far the Pod is restricted; by default as far as the namespace's Pod security label demands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security_context_config: Option<SecurityContextConfig>,

    /// The memory that the server is to stay within: the Pod requests that much.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_target: Option<Quantity>,

    /// Folders of the image with content, when another server than the image's own serves it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extract_content: Option<ExtractContent>,
}

/// How far a catalog's Pod is restricted.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum SecurityContextConfig {
    /// Not at all.
    Legacy,
    /// As the restricted Pod security standard demands.
    Restricted,
}

/// Folders of a catalog image.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ExtractContent {
    /// The folder with the cache of the content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_dir: Option<String>,

    /// The folder with the content.
    pub catalog_dir: String,
}

/// How a newer image is found.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct UpdateStrategy {
    /// The registry is asked again and again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry_poll: Option<RegistryPoll>,
}

/// How often the registry is asked.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct RegistryPoll {
    /// The time between two checks, for instance `45m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<String>,
}

/// The state of the catalog.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct CatalogSourceStatus {
    /// The reason why the catalog is in trouble, or nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,

    /// What is wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,

    /// The ConfigMap with the content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_reference: Option<ConfigMapReference>,

    /// The Service that clients use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry_service: Option<RegistryService>,

    /// The state of the connection to the registry server.
    #[serde(default, rename = "connectionState", skip_serializing_if = "Option::is_none")]
    pub connection_state: Option<ConnectionState>,

    /// The time when the registry was last asked for a newer image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latest_image_registry_poll: Option<Time>,

    /// The state of the image template, and of the catalog.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// A ConfigMap in the version that was read.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ConfigMapReference {
    /// The name.
    pub name: String,

    /// The namespace.
    pub namespace: String,

    /// The UID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,

    /// The resource version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,

    /// The time when this was noted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
}

/// A Service in front of a registry server.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct RegistryService {
    /// `grpc`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,

    /// The name of the Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_name: Option<String>,

    /// The namespace of the Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_namespace: Option<String>,

    /// The port of the Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<String>,

    /// The time when it was first there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Time>,
}

/// The state of a connection.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ConnectionState {
    /// The `host:port` of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,

    /// `IDLE`, `CONNECTING`, `READY`, `TRANSIENT_FAILURE` or `SHUTDOWN`.
    pub last_observed_state: String,

    /// The time of the last change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_connect: Option<Time>,
}
