//! OperatorGroup: the namespaces that the operators of a namespace serve.

use k8s_openapi::{
    api::core::v1::ObjectReference,
    apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, Time},
};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The namespaces, and in whose name operators are installed.
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "operators.coreos.com",
    version = "v1",
    kind = "OperatorGroup",
    namespaced,
    status = "OperatorGroupStatus",
    doc = "OperatorGroup selects the namespaces that the operators of its namespace serve.",
    shortname = "og",
    category = "olm",
    derive = "Default",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct OperatorGroupSpec {
    /// The labels of the namespaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,

    /// The names of the namespaces. With neither names nor a selector, all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub target_namespaces: Option<Vec<String>>,

    /// The ServiceAccount in whose name operators are installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,

    /// Whether the annotation with the provided APIs is left as it is.
    #[serde(default, rename = "staticProvidedAPIs", skip_serializing_if = "Option::is_none")]
    pub static_provided_apis: Option<bool>,

    /// Whether a failed operator may be upgraded.
    #[serde(default)]
    pub upgrade_strategy: UpgradeStrategy,
}

/// Whether a failed operator may be upgraded.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UpgradeStrategy {
    /// No.
    #[default]
    Default,
    /// Yes.
    TechPreviewUnsafeFailForward,
}

/// The namespaces that were found.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct OperatorGroupStatus {
    /// The names of the namespaces; the empty name alone is all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub namespaces: Vec<String>,

    /// The ServiceAccount in whose name operators are installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account_ref: Option<ObjectReference>,

    /// The time of the last change.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(required)]
    pub last_updated: Option<Time>,

    /// The conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// The first version, which is read only.
pub mod v1alpha2 {
    use super::{CustomResource, Deserialize, JsonSchema, LabelSelector, ObjectReference, Serialize, Time};

    /// The namespaces, and in whose name operators are installed.
    #[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
    #[kube(
        group = "operators.coreos.com",
        version = "v1alpha2",
        kind = "OperatorGroup",
        namespaced,
        status = "OperatorGroupStatus",
        doc = "OperatorGroup selects the namespaces that the operators of its namespace serve.",
        shortname = "og",
        category = "olm",
        derive = "Default",
        derive = "PartialEq"
    )]
    #[serde(rename_all = "camelCase")]
    pub struct OperatorGroupSpec {
        /// The labels of the namespaces.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub selector: Option<LabelSelector>,

        /// The names of the namespaces. With neither names nor a selector, all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub target_namespaces: Option<Vec<String>>,

        /// The ServiceAccount in whose name operators are installed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub service_account_name: Option<String>,

        /// Whether the annotation with the provided APIs is left as it is.
        #[serde(default, rename = "staticProvidedAPIs", skip_serializing_if = "Option::is_none")]
        pub static_provided_apis: Option<bool>,
    }

    /// The namespaces that were found.
    #[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
    #[serde(rename_all = "camelCase")]
    pub struct OperatorGroupStatus {
        /// The names of the namespaces; the empty name alone is all.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub namespaces: Vec<String>,

        /// The ServiceAccount in whose name operators are installed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub service_account_ref: Option<ObjectReference>,

        /// The time of the last change.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(required)]
        pub last_updated: Option<Time>,
    }
}
