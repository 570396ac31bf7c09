//! The custom resources of OLM Classic, group `operators.coreos.com`: types, names, CRDs; and PackageManifest, group
//! `packages.operators.coreos.com`, which is served and not stored.
//!
//! The types are the source: `config/classic/crd/*.yaml` is generated from them. Their fields, limits and columns are
//! upstream's; an object that upstream wrote is read and written back without a loss.

// Printer columns share keys.
#![allow(clippy::duplicated_attributes)]

mod catalog_source;
mod cluster_service_version;
pub mod crds;
mod install_plan;
pub mod names;
mod olm_config;
mod operator;
mod operator_condition;
mod operator_group;
mod packages;
mod subscription;

pub use catalog_source::{
    CatalogSource, CatalogSourceSpec, CatalogSourceStatus, ConfigMapReference, ConnectionState,
    ExtractContent, GrpcPodConfig, RegistryPoll, RegistryService, SecurityContextConfig, UpdateStrategy,
};
pub use cluster_service_version::{
    ActionDescriptor, ApiServiceDefinitions, ApiServiceDescription, CleanupSpec, CleanupStatus,
    ClusterServiceVersion, ClusterServiceVersionSpec, ClusterServiceVersionStatus, ConditionRecord,
    CrdDescription, CustomResourceDefinitions, DatedCondition, DependentStatus, DeploymentPermissions,
    GroupVersionKind, Icon, InstallMode, Link, Maintainer, NamedInstallStrategy, Provider, RelatedImage,
    RequirementStatus, ResourceInstance, ResourceList, ResourceReference, StrategyDeployment,
    StrategyDetails, WebhookDescription, WebhookType,
};
pub use install_plan::{
    BundleLookup, InstallPlan, InstallPlanCondition, InstallPlanSpec, InstallPlanStatus, Step, StepResource,
};
pub use olm_config::{Features, OLMConfig, OLMConfigSpec, OLMConfigStatus};
pub use operator::{Components, Operator, OperatorSpec, OperatorStatus, RichReference};
pub use operator_condition::{
    OperatorCondition, OperatorConditionSpec, OperatorConditionStatus, Override, v1 as operator_condition_v1,
};
pub use operator_group::{
    OperatorGroup, OperatorGroupSpec, OperatorGroupStatus, UpgradeStrategy,
    v1alpha2 as operator_group_v1alpha2,
};
pub use packages::{
    CsvDescription, Deprecation, PackageChannel, PackageEntry, PackageManifest, PackageManifestSpec,
    PackageManifestStatus,
};
pub use subscription::{
    CatalogHealth, InstallPlanReference, LegacyCondition, Subscription, SubscriptionConfig, SubscriptionSpec,
    SubscriptionStatus,
};
