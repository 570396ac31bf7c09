//! ClusterExtension: an operator to install, and its state.
//!
//! The fields upstream calls experimental (`config`, `progressDeadlineMinutes`, `activeRevisions`,
//! `install.bundle.release`) are part of the one schema. The rules keep upstream's messages to the letter.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::common::{
    DNS1123_LABEL_PATTERN, DNS1123_SUBDOMAIN_PATTERN, RELEASE_PATTERN, SEMVER_PATTERN, VERSION_RANGE_PATTERN,
    immutable, label_selector, matches, rule, subdomain, union_member,
};
use crate::conditions::Conditions;

/// Upstream's words, with examples.
const INVALID_VERSION: &str =
    "invalid version expression: write a version such as 1.2.3, or a range such as 1.4.x or >=1.2.0 <2.0.0";

/// The package to install, the namespace, and the rules for upgrades.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "olm.operatorframework.io",
    version = "v1",
    kind = "ClusterExtension",
    status = "ClusterExtensionStatus",
    doc = "ClusterExtension installs an operator from the cluster's catalogs and keeps it up to date.",
    shortname = "cext",
    category = "olm",
    derive = "Default",
    derive = "PartialEq",
    annotation("olm.operatorframework.io/generator", "standard"),
    printcolumn(name = "Installed Bundle", type_ = "string", json_path = ".status.install.bundle.name"),
    printcolumn(name = "Version", type_ = "string", json_path = ".status.install.bundle.version"),
    printcolumn(
        name = "Installed",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Installed')].status"
    ),
    printcolumn(
        name = "Progressing",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Progressing')].status"
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].status"
    ),
    printcolumn(
        name = "Available Update",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='UpdateAvailable')].message"
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
pub struct ClusterExtensionSpec {
    /// The namespace in which the bundle's namespaced objects are installed and in which `serviceAccount` exists. It
    /// must exist: it is not created. Immutable.
    #[schemars(length(max = 63))]
    #[x_kube(validation = immutable("namespace is immutable"))]
    #[x_kube(validation = matches(DNS1123_LABEL_PATTERN, "namespace must be a valid DNS1123 label"))]
    pub namespace: String,

    /// The ServiceAccount in `namespace` that installs and manages the bundle's objects; it needs the permissions for
    /// all of them. It must exist: it is not created. Unset: the default ServiceAccount that the administrator has
    /// configured, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account: Option<ServiceAccountReference>,

    /// The source of the bundle.
    pub source: SourceConfig,

    /// Options of the installation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub install: Option<ClusterExtensionInstallConfig>,

    /// The bundle's configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<ClusterExtensionConfig>,

    /// Minutes that a new revision may take to roll out before it counts as failed. Unset: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 10, max = 720))]
    pub progress_deadline_minutes: Option<i32>,
}

/// A ServiceAccount in the extension's namespace.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct ServiceAccountReference {
    /// The name of the ServiceAccount. It can be removed, but not changed to another name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = immutable("name is immutable once set but may be cleared"))]
    #[x_kube(validation = subdomain("name"))]
    pub name: Option<String>,
}

/// The source of a bundle: a union, `sourceType` says which member is set.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = union_member(
    "sourceType", "Catalog", "catalog",
    "catalog is required when sourceType is Catalog, and forbidden otherwise",
))]
pub struct SourceConfig {
    /// The kind of source.
    pub source_type: SourceType,

    /// The package, and which of its bundles may be installed. Required when `sourceType` is `Catalog`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub catalog: Option<CatalogFilter>,
}

/// The kinds of source.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SourceType {
    /// The catalogs of the cluster.
    #[default]
    Catalog,
}

/// Chooses bundles of a package from the catalogs.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct CatalogFilter {
    /// The name of the package in the catalogs, such as `argocd-operator`. Immutable.
    #[schemars(length(max = 253))]
    #[x_kube(validation = immutable("packageName is immutable"))]
    #[x_kube(validation = subdomain("packageName"))]
    pub package_name: String,

    /// The version to install: an exact version such as `1.2.3`, or a range such as `1.14.x`, `>=1.11, <1.13` or
    /// `1.x || >=3.1`, of which the highest version is installed that the update paths allow. Unset: any version.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    #[x_kube(validation = matches(VERSION_RANGE_PATTERN, INVALID_VERSION))]
    pub version: Option<String>,

    /// The channels from which bundles may be installed. Unset or empty: all channels of the package.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "channels")]
    pub channels: Vec<String>,

    /// Selects the catalogs to install from, by their labels. Unset: all catalogs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "label_selector")]
    pub selector: Option<LabelSelector>,

    /// Whether upgrades must follow the catalog's upgrade graph. `CatalogProvided`: only upgrades that the package's
    /// author published. `SelfCertified`: to any version that the other fields allow, downgrades included; data may be
    /// lost, at your own risk.
    #[serde(default)]
    pub upgrade_constraint_policy: UpgradeConstraintPolicy,
}

/// Whether upgrades must follow the catalog's upgrade graph.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UpgradeConstraintPolicy {
    /// Only upgrades that the package's author published.
    #[default]
    CatalogProvided,
    /// Any version that matches the other fields.
    SelfCertified,
}

/// Options of the installation.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = rule(
    "has(self.preflight)",
    "at least one of [preflight] are required when install is specified",
))]
pub struct ClusterExtensionInstallConfig {
    /// Checks before anything is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preflight: Option<PreflightConfig>,
}

/// Checks before anything is written.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = rule(
    "has(self.crdUpgradeSafety)",
    "at least one of [crdUpgradeSafety] are required when preflight is specified",
))]
pub struct PreflightConfig {
    /// The check that a new CRD does not break stored objects and clients of the old one.
    pub crd_upgrade_safety: CrdUpgradeSafetyPreflightConfig,
}

/// The check that a new CRD does not break stored objects and clients of the old one.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct CrdUpgradeSafetyPreflightConfig {
    /// Whether CRD upgrades are checked. `Strict`: an unsafe change of a CRD stops the upgrade. `None`: no check; data may be
    /// lost.
    pub enforcement: CrdUpgradeSafetyEnforcement,
}

/// Whether CRD upgrades are checked.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CrdUpgradeSafetyEnforcement {
    /// Not checked.
    None,
    /// Checked; an unsafe change stops the upgrade. The default.
    #[default]
    Strict,
}

/// A bundle's configuration: a union, `configType` says which member is set.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = union_member(
    "configType", "Inline", "inline",
    "inline is required when configType is Inline, and forbidden otherwise",
))]
pub struct ClusterExtensionConfig {
    /// The form of the configuration.
    pub config_type: ClusterExtensionConfigType,

    /// The configuration: an object that matches the bundle's configuration schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "inline_config")]
    pub inline: Option<serde_json::Value>,
}

/// The forms of a configuration.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClusterExtensionConfigType {
    /// Written in the extension itself.
    #[default]
    Inline,
}

/// The observed state of the extension.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ClusterExtensionStatus {
    /// The conditions of the extension: `Installed`, `Progressing`, `Available`, the four about deprecation,
    /// `UpdateAvailable`, and for GitOps tools `Ready`, `Reconciling`, `Stalled`.
    #[serde(default, skip_serializing_if = "Conditions::is_empty")]
    #[schemars(schema_with = "super::common::conditions")]
    pub conditions: Conditions,

    /// The installed bundle. Unset when none is installed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub install: Option<ClusterExtensionInstallStatus>,

    /// The revisions that are not archived, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub active_revisions: Vec<RevisionStatus>,
}

/// The installed bundle.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ClusterExtensionInstallStatus {
    /// The installed bundle.
    pub bundle: BundleMetadata,
}

/// Identifies a bundle of a package.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct BundleMetadata {
    /// The bundle's name in the catalog.
    // Upstream's message speaks of packageName here; users and scenarios know it so.
    #[x_kube(validation = subdomain("packageName"))]
    pub name: String,

    /// The bundle's version.
    #[x_kube(validation = matches(SEMVER_PATTERN, "version must be well-formed semver"))]
    pub version: String,

    /// The bundle's release, which distinguishes packagings of the same version. Unset: unknown; empty: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 20))]
    #[x_kube(validation = matches(
        RELEASE_PATTERN,
        "release must be empty or consist of dot-separated identifiers (numeric without leading zeros, or alphanumeric)",
    ))]
    pub release: Option<String>,
}

/// A revision of the extension and its conditions.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct RevisionStatus {
    /// The ClusterObjectSet's name.
    pub name: String,

    /// The ClusterObjectSet's conditions.
    #[serde(default, skip_serializing_if = "Conditions::is_empty")]
    #[schemars(schema_with = "super::common::conditions")]
    pub conditions: Conditions,
}

fn channels(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 256,
        "items": {
            "type": "string",
            "maxLength": 253,
            "x-kubernetes-validations": [
                matches(DNS1123_SUBDOMAIN_PATTERN, "channels entries must be valid DNS1123 subdomains"),
            ],
        },
    })
}

fn inline_config(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "minProperties": 1, "x-kubernetes-preserve-unknown-fields": true })
}
