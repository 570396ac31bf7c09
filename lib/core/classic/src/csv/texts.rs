//! Reasons and messages of ClusterServiceVersions that users, consoles and scripts match on: upstream's, to the letter.

/// Reasons.
pub mod reason {
    /// Nothing has been looked at.
    pub const REQUIREMENTS_UNKNOWN: &str = "RequirementsUnknown";
    /// Something that the operator needs is not there.
    pub const REQUIREMENTS_NOT_MET: &str = "RequirementsNotMet";
    /// Everything that the operator needs is there.
    pub const ALL_REQUIREMENTS_MET: &str = "AllRequirementsMet";
    /// There is no OperatorGroup.
    pub const NO_GROUP: &str = "NoOperatorGroup";
    /// There are several OperatorGroups.
    pub const TOO_MANY_GROUPS: &str = "TooManyOperatorGroups";
    /// The OperatorGroup selects no namespace.
    pub const NO_TARGETS: &str = "NoTargetNamespaces";
    /// An install mode is listed twice.
    pub const INVALID_MODES: &str = "InvalidInstallModes";
    /// The operator cannot serve the namespaces of its OperatorGroup.
    pub const UNSUPPORTED_GROUP: &str = "UnsupportedOperatorGroup";
    /// The OperatorGroup may not provide the operator's APIs.
    pub const STATIC_GROUP: &str = "CannotModifyStaticOperatorGroupProvidedAPIs";
    /// Another OperatorGroup provides the operator's APIs.
    pub const GROUP_CONFLICT: &str = "InterOperatorGroupOwnerConflict";
    /// The operator that is replaced says that it must not be.
    pub const NOT_UPGRADEABLE: &str = "OperatorConditionNotUpgradeable";
    /// The install strategy cannot be used.
    pub const INVALID_STRATEGY: &str = "InvalidInstallStrategy";
    /// A webhook is not allowed.
    pub const INVALID_WEBHOOK: &str = "InvalidWebhookDescription";
    /// Another operator owns one of the APIs.
    pub const OWNER_CONFLICT: &str = "OwnerConflict";
    /// The installation failed, and is tried again.
    pub const INSTALL_FAILED: &str = "InstallComponentFailed";
    /// The installation failed, and is tried again when permissions change.
    pub const INSTALL_FAILED_NO_RETRY: &str = "InstallComponentFailedNoRetry";
    /// Everything has been installed; or it is healthy.
    pub const INSTALL_SUCCEEDED: &str = "InstallSucceeded";
    /// What has been installed is not healthy yet.
    pub const INSTALL_WAITING: &str = "InstallWaiting";
    /// What has been installed does not become healthy.
    pub const INSTALL_CHECK_FAILED: &str = "InstallCheckFailed";
    /// An APIService does not work.
    pub const API_SERVICE_FAILED: &str = "APIServiceInstallFailed";
    /// What an APIService needs is missing or wrong.
    pub const API_SERVICE_RESOURCES: &str = "APIServiceResourceIssue";
    /// What an APIService needs is installed again.
    pub const API_SERVICE_REINSTALL: &str = "APIServiceResourcesNeedReinstall";
    /// Certificates are due.
    pub const CERTIFICATES: &str = "NeedsCertRotation";
    /// Something has to be installed again.
    pub const REINSTALL: &str = "NeedsReinstall";
    /// Something is not healthy any more.
    pub const UNHEALTHY: &str = "ComponentUnhealthy";
    /// Permissions have changed.
    pub const CLUSTER_CHANGE: &str = "DetectedClusterChange";
    /// A newer version takes the place of this one.
    pub const BEING_REPLACED: &str = "BeingReplaced";
    /// A newer version has taken the place of this one.
    pub const REPLACED: &str = "Replaced";
    /// The object is a copy.
    pub const COPIED: &str = "Copied";
}

/// Messages without a variable part.
pub mod message {
    /// Of a new object.
    pub const UNKNOWN: &str = "requirements not yet checked";
    /// Without an OperatorGroup.
    pub const NO_GROUP: &str = "csv in namespace with no operatorgroups";
    /// With several OperatorGroups.
    pub const TOO_MANY_GROUPS: &str =
        "csv created in namespace with multiple operatorgroups, can't pick one automatically";
    /// With an OperatorGroup that selects nothing.
    pub const NO_TARGETS: &str = "no targetNamespaces are matched operatorgroups namespace selection";
    /// With a static OperatorGroup.
    pub const STATIC_GROUP: &str = "static provided api operatorgroup cannot be modified by these apis";
    /// With an OperatorGroup in conflict.
    pub const GROUP_CONFLICT: &str = "intersecting operatorgroups provide the same apis";
    /// Of requirements that are not met.
    pub const NOT_MET: &str = "one or more requirements couldn't be found";
    /// Of a CustomResourceDefinition of another operator.
    pub const CRD_CONFLICT: &str = "conflicting CRD owner in namespace";
    /// Of an APIService of another operator.
    pub const UNADOPTABLE: &str = "unable to adopt APIService";
    /// Of requirements that are met.
    pub const ALL_MET: &str = "all requirements found, attempting install";
    /// After the installation.
    pub const INSTALLED: &str = "waiting for install components to report healthy";
    /// Of a Deployment that cannot be computed.
    pub const INCALCULABLE: &str = "calculated deployment install is bad";
    /// After five minutes.
    pub const TIMEOUT: &str = "install timeout";
    /// Of a healthy operator.
    pub const SUCCEEDED: &str = "install strategy completed with no errors";
    /// Of certificates, while the operator runs.
    pub const CERTIFICATES: &str = "CSV owns resources that require a cert refresh";
    /// Of certificates, while it does not.
    pub const CERTIFICATES_FAILED: &str = "owned APIServices need cert refresh";
    /// Of requirements that were met.
    pub const NO_LONGER_MET: &str = "requirements no longer met";
    /// Of requirements of a failed operator.
    pub const STILL_NOT_MET: &str = "requirements not met";
    /// After a change of OperatorGroups.
    pub const GROUP_SUPPORTED: &str = "InstallModes now support target namespaces";
    /// After the end of a conflict.
    pub const NO_CONFLICT: &str = "OperatorGroup no longer intersecting with conflicting owner";
    /// After a change of a static OperatorGroup.
    pub const STATIC_SUPPORTED: &str =
        "static OperatorGroup and intersecting groups now support providedAPIs";
    /// Of APIServices.
    pub const API_SERVICES: &str = "apiServices not installed";
    /// Of webhooks.
    pub const WEBHOOKS: &str = "webhooks not installed";
    /// After a change of permissions.
    pub const CLUSTER_CHANGE: &str = "Cluster resources changed state";
    /// Of a version that has been replaced.
    pub const REPLACED: &str =
        "has been replaced by a newer ClusterServiceVersion that has successfully installed.";
    /// Error of a version that is replaced by nothing.
    pub const NO_SUCCESSOR: &str = "marked as replacement, but no replacement CSV found in cluster";
    /// Of copies that are all there.
    pub const COPIES_COMPLETE: &str = "Copied CSVs are enabled and present across the cluster";
    /// Of copies that are not all there.
    pub const COPIES_MISSING: &str = "Copied CSVs are enabled and at least one copied CSVs is missing";
    /// Of copies that are not wanted and not there.
    pub const COPIES_GONE: &str = "Copied CSVs are disabled and no unexpected copied CSVs were found for operators installed in AllNamespace mode";
    /// Of copies that are there and not wanted.
    pub const COPIES_LEFT: &str = "Copied CSVs are disabled and at least one unexpected copied CSV was found for an operator installed in AllNamespace mode";
    /// Of a conversion webhook of an operator that does not serve all namespaces alone.
    pub const CONVERSION_MODES: &str =
        "unable to manage conversion webhook: CSVs with conversion webhooks must support only AllNamespaces";
    /// Of a conversion webhook for nothing.
    pub const CONVERSION_NOTHING: &str =
        "unable to manager conversion webhook: conversion webhook must have at least one CRD specified";
    /// Of a CustomResourceDefinition that cannot be converted.
    pub const CONVERSION_UNKNOWN_FIELDS: &str =
        "crd.Spec.PreserveUnknownFields must be false to let API Server call webhook to do the conversion";
    /// Of a conversion that is not as it is to be.
    pub const CONVERSION_MISSING: &str = "conversionWebhook not ready";
    /// Of a webhook whose description has changed, or is gone.
    pub const WEBHOOK_OUTDATED: &str =
        "the webhook configurations are not those of the ClusterServiceVersion";
    /// Two webhooks of one name.
    pub const WEBHOOK_TWICE: &str = "CSV contains repeated WebhookDescription name";
    /// A webhook for all API groups.
    pub const WEBHOOK_ALL: &str = "webhook rules cannot include all groups";
    /// A webhook for OLM's own objects.
    pub const WEBHOOK_OLM: &str = "webhook rules cannot include the OLM group";
    /// A webhook for webhooks.
    pub const WEBHOOK_WEBHOOKS: &str = "webhook rules cannot include MutatingWebhookConfiguration or ValidatingWebhookConfiguration resources";
}

/// Message of an operator that must not be replaced.
pub fn not_upgradeable(cause: &str) -> String {
    format!("operator is not upgradeable: {cause}")
}

/// Message of a strategy that cannot be used.
pub fn invalid_strategy(cause: &str) -> String {
    format!("install strategy invalid: {cause}")
}

/// Message of an installation that failed.
pub fn install_failed(cause: &str) -> String {
    format!("install strategy failed: {cause}")
}

/// Message of a version that is being replaced.
pub fn being_replaced(by: &str) -> String {
    format!("being replaced by csv: {by}")
}

/// Message of a failed version that is being replaced.
pub fn fail_forward(by: &str) -> String {
    format!("Fail Forward is enabled, allowing Failed csv to be replaced by csv: {by}")
}

/// Message of a Deployment that cannot become healthy.
pub fn check_failed(cause: &str) -> String {
    format!("install failed: {cause}")
}

/// Message of a Deployment that is not healthy.
pub fn installing(cause: &str) -> String {
    format!("installing: {cause}")
}

/// Message of an APIService that does not work.
pub fn api_service_failed(cause: &str) -> String {
    format!("APIService install failed: {cause}")
}

/// Message of a webhook that cannot be written.
pub fn webhook_failed(cause: &str) -> String {
    format!("Webhook install failed: {cause}")
}

/// Message of a conversion webhook for what the operator does not own.
pub fn conversion_foreign(csv: &str, crd: &str) -> String {
    format!("csv {csv} does not own CRD {crd}")
}

/// Message of a conversion webhook for what something else converts.
pub fn conversion_taken(crd: &str, namespace: &str, service: &str) -> String {
    let by = if service.is_empty() { "a URL".to_owned() } else { format!("Service {namespace}/{service}") };
    format!(
        "CustomResourceDefinition {crd} is converted by {by}, which belongs to something else: set its spec.conversion.strategy to None if that is not used any more"
    )
}

/// Message of a copy.
pub fn copied(namespace: &str) -> String {
    format!("The operator is running in {namespace} but is managing this namespace")
}

/// Several errors in one text, as Go's aggregate prints them.
pub fn aggregated(errors: &[String]) -> String {
    match errors {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}
