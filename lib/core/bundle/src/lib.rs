//! The reader of registry+v1 bundles: `manifests/` and `metadata/` around one ClusterServiceVersion (CSV).
//!
//! [`Bundle::read`] reads a bundle as it is installed, [`first_manifests`] and [`first_metadata`] as opm does for
//! catalogs. Whatever renders, checks, compares or catalogs a bundle starts from them. Nothing here reads folders or clusters: a bundle is its files.

mod budget;
mod catalog;
mod csv;
mod declared;
mod error;
mod files;
mod limits;
mod load;
mod metadata;
mod properties;
mod quantity;
mod time;
pub mod typed;

/// The kind of the manifest that describes the operator.
pub const CSV_KIND: &str = "ClusterServiceVersion";

pub use catalog::{Manifest, MetadataDocument, first_manifests, first_metadata};
pub use csv::{
    CONVERSION, Csv, Deployment, InstallMode, MUTATING, OLM_PROPERTIES, Permission, PolicyRule, VALIDATING,
    Webhook,
};
pub use error::ReadError;
pub use files::BundleFiles;
pub use limits::{MEMORY_BYTES_MAX, usual_memory};
pub use load::{Bundle, defines_crd};
pub use metadata::{ANNOTATIONS, PACKAGE_ANNOTATION, elements, labels, scalar_text};
pub use properties::annotated_properties;
pub use quantity::binary_quantity;
