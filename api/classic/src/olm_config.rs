//! OLMConfig: settings of OLM Classic, in the one object `cluster`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The settings.
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[kube(
    group = "operators.coreos.com",
    version = "v1",
    kind = "OLMConfig",
    plural = "olmconfigs",
    status = "OLMConfigStatus",
    doc = "OLMConfig has the settings of OLM Classic. Only the object named cluster counts.",
    category = "olm",
    derive = "Default",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct OLMConfigSpec {
    /// Features that can be turned on or off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub features: Option<Features>,
}

/// Features that can be turned on or off.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Features {
    /// Whether ClusterServiceVersions of operators for all namespaces are not copied into them.
    #[serde(default, rename = "disableCopiedCSVs", skip_serializing_if = "Option::is_none")]
    pub disable_copied_csvs: Option<bool>,

    /// The time after which packages are read again, for instance `12h`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^([0-9]+(\.[0-9]+)?(s|m|h))+$"))]
    pub package_server_sync_interval: Option<String>,
}

/// The state of the settings.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct OLMConfigStatus {
    /// The conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}
