//! OperatorCondition: how an operator and its administrator tell OLM whether it may be upgraded.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The conditions of the operator, and those that the administrator has set instead.
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "operators.coreos.com",
    version = "v2",
    kind = "OperatorCondition",
    namespaced,
    status = "OperatorConditionStatus",
    doc = "OperatorCondition carries what an operator reports to OLM.",
    shortname = "condition",
    category = "olm",
    derive = "Default",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct OperatorConditionSpec {
    /// The ServiceAccounts that may write the object.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub service_accounts: Vec<String>,

    /// The operator's Deployments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deployments: Vec<String>,

    /// The conditions that the administrator has set: they win.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<Override>,

    /// The conditions that the operator has set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// A condition that an administrator has set: the time may be left out.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Override {
    /// The type.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// The reason.
    pub reason: String,
    /// The message.
    pub message: String,
    /// The generation that the condition is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The time of the last change of the status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
}

/// The operator's conditions as OLM took them in.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct OperatorConditionStatus {
    /// The conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// The first version, in which operators wrote the status.
pub mod v1 {
    use super::{CustomResource, Deserialize, JsonSchema, OperatorConditionStatus, Override, Serialize};

    /// The conditions that the administrator has set.
    #[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
    #[kube(
        group = "operators.coreos.com",
        version = "v1",
        kind = "OperatorCondition",
        namespaced,
        status = "OperatorConditionStatus",
        doc = "OperatorCondition carries what an operator reports to OLM.",
        shortname = "condition",
        category = "olm",
        derive = "Default",
        derive = "PartialEq"
    )]
    #[serde(rename_all = "camelCase")]
    pub struct OperatorConditionSpec {
        /// The ServiceAccounts that may write the object.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub service_accounts: Vec<String>,

        /// The operator's Deployments.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub deployments: Vec<String>,

        /// The conditions that the administrator has set: they win.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub overrides: Vec<Override>,
    }
}
