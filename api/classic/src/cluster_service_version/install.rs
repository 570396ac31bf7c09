//! How an operator is installed.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::{admissionregistration::v1::RuleWithOperations, apps::v1::DeploymentSpec, rbac::v1::PolicyRule},
    apimachinery::pkg::{apis::meta::v1::LabelSelector, util::intstr::IntOrString},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The strategy with its details.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct NamedInstallStrategy {
    /// `deployment`: there is no other one.
    pub strategy: String,
    /// The Deployments and permissions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<StrategyDetails>,
}

/// Deployments and permissions.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct StrategyDetails {
    /// The Deployments.
    pub deployments: Vec<StrategyDeployment>,
    /// Permissions in the namespaces that are served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permissions: Option<Vec<DeploymentPermissions>>,
    /// Permissions in all namespaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_permissions: Option<Vec<DeploymentPermissions>>,
}

/// A Deployment.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct StrategyDeployment {
    /// The name.
    pub name: String,
    /// The spec.
    pub spec: DeploymentSpec,
    /// Labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<BTreeMap<String, String>>,
}

/// The permissions of a ServiceAccount.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentPermissions {
    /// The ServiceAccount.
    pub service_account_name: String,
    /// The permissions.
    pub rules: Vec<PolicyRule>,
}

/// A set of namespaces that an operator can or cannot serve.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct InstallMode {
    /// `OwnNamespace`, `SingleNamespace`, `MultiNamespace` or `AllNamespaces`.
    #[serde(rename = "type")]
    pub type_: String,
    /// Whether it can.
    pub supported: bool,
}

/// A webhook.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct WebhookDescription {
    /// The beginning of the configuration's name.
    pub generate_name: String,
    /// The type.
    #[serde(rename = "type")]
    pub type_: WebhookType,
    /// The Deployment of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployment_name: Option<String>,
    /// The port of the Service.
    #[serde(default = "https_port")]
    #[schemars(range(min = 1, max = 65535))]
    pub container_port: i32,
    /// The port of the Pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_port: Option<IntOrString>,
    /// The operations and resources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<Vec<RuleWithOperations>>,
    /// `Fail` or `Ignore`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_policy: Option<String>,
    /// `Exact` or `Equivalent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub match_policy: Option<String>,
    /// The labels of the objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object_selector: Option<LabelSelector>,
    /// The side effects.
    pub side_effects: String,
    /// The seconds that the webhook may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<i32>,
    /// The versions of AdmissionReview that the webhook understands.
    pub admission_review_versions: Vec<String>,
    /// `Never` or `IfNeeded`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reinvocation_policy: Option<String>,
    /// The path of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook_path: Option<String>,
    /// The CustomResourceDefinitions whose objects the webhook converts.
    #[serde(default, rename = "conversionCRDs", skip_serializing_if = "Option::is_none")]
    pub conversion_crds: Option<Vec<String>>,
}

fn https_port() -> i32 {
    443
}

/// The types of webhook.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum WebhookType {
    /// It validates.
    ValidatingAdmissionWebhook,
    /// It changes.
    MutatingAdmissionWebhook,
    /// It converts between versions of a custom resource.
    ConversionWebhook,
}
