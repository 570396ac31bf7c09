//! operator-controller: installs and upgrades cluster extensions from catalogs.
//!
//! Two loops, neither waiting for the other: the *extension loop* decides what should run and writes it as a
//! revision; the *object-set loop* makes revisions true and keeps them so. catalogd runs in the same process
//! and is read without HTTP. [`Operator`] is a value: built from a [`Config`], run until its shutdown.

mod admission;
mod advice;
mod cluster_extension;
mod cluster_object_set;
mod conditions;
mod config;
mod content;
mod crd_changes;
mod deletion_guard;
mod deletion_policy;
mod events;
mod facts;
mod interest;
mod leftovers;
mod metrics;
mod operator;
mod permissions;
pub mod plan;
mod preflight;
#[cfg(test)]
mod simulation;
mod update_policy;
mod webhook_certificates;

/// Thousands of simulated runs allocate as the program does.
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

pub use admission::objects as admission_objects;
pub use cluster_extension::{annotations::is_paused, decide::paused::waiting as waits_for_pause};
pub use conditions::remedy;
pub use config::{Config, GateError, Gates, MAX_CONCURRENT_RECONCILES};
pub use content::RemoteCatalogd;
pub use facts::{
    catalogs::selected as catalog_selected, policies::missing as missing_policies, settings::account,
};
pub use leftovers::leftovers;
pub use operator::{LEASE, Operator, OperatorError};
pub use permissions::{CATALOGD_PERMISSIONS, CLASSIC_PERMISSIONS, PERMISSIONS, Permission, Scope};
pub use webhook_certificates::{ProviderSetting, Settings as WebhookCertificates};
