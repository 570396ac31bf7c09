//! OLM Classic as pure functions: what its controllers decide from what they know of the cluster and the time, and
//! what its registry API says of a catalog.
//!
//! - [`components`]: what belongs to an installed package.
//! - [`csv`]: the phases of ClusterServiceVersions, and what is installed for them.
//! - [`graph`]: the packages, channels and upgrade edges of a catalog, and the order of a channel's entries.
//! - [`group`]: the namespaces of OperatorGroups, and the APIs that they provide.
//! - [`packages`]: what PackageManifests show of a catalog.
//! - [`plan`]: the objects that InstallPlans make, and how far each plan is.
//! - [`resolve`]: which bundles the Subscriptions of a namespace install.
//! - [`subscription`]: what is shown of Subscriptions, and what follows from a resolution.
//! - [`source`]: what is shown of CatalogSources, and the objects that they need.
//! - [`registry_model`]: the answers of the registry API (`api.Registry`), made of file-based catalogs.

pub mod components;
pub mod csv;
pub mod graph;
pub mod group;
pub mod hashes;
pub mod limits;
pub mod packages;
pub mod plan;
pub mod registry_model;
pub mod resolve;
pub mod source;
pub mod subscription;
