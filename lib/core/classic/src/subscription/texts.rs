//! Conditions, reasons, states and messages of Subscriptions that users, consoles and scripts match on: upstream's, to the
//! letter, and the conditions that are shown beside them.

/// State: the current ClusterServiceVersion does not exist yet.
pub const UPGRADE_PENDING: &str = "UpgradePending";
/// State: the current ClusterServiceVersion exists.
pub const AT_LATEST_KNOWN: &str = "AtLatestKnown";
/// State: the InstallPlan failed in a namespace that goes on after failures.
pub const UPGRADE_FAILED: &str = "UpgradeFailed";

/// Condition: a catalog that the namespace sees is missing or unhealthy.
pub const CATALOGS_UNHEALTHY: &str = "CatalogSourcesUnhealthy";
/// Reason when there is no catalog.
pub const NO_CATALOGS: &str = "NoCatalogSourcesFound";
/// Reason when a catalog is missing or unhealthy.
pub const UNHEALTHY_CATALOG: &str = "UnhealthyCatalogSourceFound";
/// Reason when all are healthy.
pub const ALL_CATALOGS_HEALTHY: &str = "AllCatalogSourcesHealthy";
/// Reason when there are more catalogs than before.
pub const CATALOGS_ADDED: &str = "CatalogSourcesAdded";
/// Reason when catalogs are other ones than before, or healthy or not since.
pub const CATALOGS_UPDATED: &str = "CatalogSourcesUpdated";
/// Reason when there are fewer catalogs than before.
pub const CATALOGS_DELETED: &str = "CatalogSourcesDeleted";
/// Message when all are healthy.
pub const CATALOGS_HEALTHY: &str = "all available catalogsources are healthy";
/// Message when there is none.
pub const CATALOG_REQUIRED: &str = "dependency resolution requires at least one catalogsource";

/// Condition: the InstallPlan is gone.
pub const PLAN_MISSING: &str = "InstallPlanMissing";
/// Its reason.
pub const PLAN_NOT_FOUND: &str = "ReferencedInstallPlanNotFound";
/// Condition: the InstallPlan is not finished.
pub const PLAN_PENDING: &str = "InstallPlanPending";
/// Its reason before the InstallPlan has a phase.
pub const PLAN_NOT_RECONCILED: &str = "InstallPlanNotYetReconciled";
/// Condition and reason: the InstallPlan failed.
pub const PLAN_FAILED: &str = "InstallPlanFailed";

/// Condition, and reason of the Event: there is no solution.
pub const RESOLUTION_FAILED: &str = "ResolutionFailed";
/// Reason: the constraints contradict each other.
pub const NOT_SATISFIABLE: &str = "ConstraintsNotSatisfiable";
/// Reason: something prevents the resolution.
pub const RESOLUTION_PREVENTED: &str = "ErrorPreventedResolution";

/// Condition: bundles are being pulled.
pub const UNPACKING: &str = "BundleUnpacking";
/// Its reason.
pub const UNPACKING_IN_PROGRESS: &str = "UnpackingInProgress";
/// Condition, reason, and reason of the Event: a bundle cannot be pulled.
pub const UNPACK_FAILED: &str = "BundleUnpackFailed";
/// Reason: a bundle cannot be used.
pub const UNPACKING_PREVENTED: &str = "ErrorPreventedUnpacking";
/// Reason: the InstallPlan cannot be made.
pub const PLAN_NOT_MADE: &str = "EnsureInstallPlanFailed";

/// Condition: the package is deprecated.
pub const PACKAGE_DEPRECATED: &str = "PackageDeprecated";
/// Condition: the channel is deprecated.
pub const CHANNEL_DEPRECATED: &str = "ChannelDeprecated";
/// Condition: the installed bundle is deprecated.
pub const BUNDLE_DEPRECATED: &str = "BundleDeprecated";
/// Condition: one of these is.
pub const DEPRECATED: &str = "Deprecated";

/// Condition beside upstream's: whether the operator is installed as the Subscription asks.
pub const READY: &str = "Ready";
/// Condition beside upstream's: nothing goes on without a person.
pub const STALLED: &str = "Stalled";

/// Message of a catalog that a Subscription names and that does not exist.
pub fn catalog_missing(namespace: &str, name: &str) -> String {
    format!("targeted catalogsource {namespace}/{name} missing")
}

/// Message of a catalog that a Subscription names and that is not healthy.
pub fn catalog_unhealthy(namespace: &str, name: &str) -> String {
    format!("targeted catalogsource {namespace}/{name} unhealthy")
}

/// Message of other unhealthy catalogs, each with its namespace.
pub fn other_catalogs_unhealthy(catalogs: &[String]) -> String {
    format!("catalogsource {} unhealthy", catalogs.join(", "))
}

/// Message when a namespace does not have one OperatorGroup.
pub fn groups_found(count: usize) -> String {
    format!("found {count} operatorGroups, expected 1")
}

/// Message of a bundle that cannot be pulled. What follows is ours: there is no Job to wait for, or to delete.
pub fn unpack_failed(reason: &str, cause: &str) -> String {
    format!(
        "Bundle unpacking failed - {reason}: {cause}. The pull is tried again with growing waits, and at once when the \
         CatalogSource or its pull Secrets change."
    )
}

/// Message of an InstallPlan that cannot be made.
pub fn plan_not_made(cause: &str) -> String {
    format!("error ensuring InstallPlan: {cause}")
}
