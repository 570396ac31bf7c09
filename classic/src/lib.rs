//! olm-classic: the APIs of OLM Classic on the parts of OLM v1.
//!
//! One process has three roles, or several processes have one each ([`Role`]): *catalog* reads CatalogSources and serves
//! their content, *packages* shows it as PackageManifests, *olm* installs operators. What a catalog offers is read from
//! [`Contents`] by all of them.

mod cluster_service_versions;
mod command;
mod components;
mod contents;
mod install_plans;
mod objects;
mod olm_configs;
mod operator_groups;
mod operators;
mod packages;
mod program;
mod readings;
mod registry;
mod role;
mod sources;
mod subscriptions;

pub use command::Command;
pub use contents::{Content, Contents, SourceKey};
pub use packages::{Packages, registration as package_registration};
pub use program::{Classic, ClassicError};
pub use role::{Role, Roles};
