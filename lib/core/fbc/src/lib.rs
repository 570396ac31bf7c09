//! File-based catalogs (FBC): the model of their blobs, as the rest of the program sees it.
//!
//! [`PackageContent`] is everything resolution needs to know about one package of one catalog; it is
//! small, because the large parts of bundles (CSV metadata, related images) are left out of it.
//!
//! Catalogs are read as streams: [`MetaReader`] gives the documents of a file as canonical lines, [`Index`]
//! says where the lines of a query are, [`Meta::write_record`] cuts a document down to what resolution
//! needs, [`content_paths`] says which files are read, and in what order. For serving, nothing
//! more is asked of a catalog; its authors' commands are in the crate `olm-opm`.

mod envelope;
mod error;
mod files;
mod ignore;
mod index;
pub mod limits;
mod meta;
mod model;
mod property;
mod record;
mod window;
pub mod yaml;

pub use envelope::Envelope;
pub use error::{CatalogError, FbcError};
pub use files::{CatalogFiles, FileError, content_paths};
pub use ignore::walk_order;
pub use index::{Index, Query};
pub use meta::{Meta, MetaReader};
pub use model::{
    Bundle, Channel, ChannelEntry, Deprecation, DeprecationEntry, Package, PackageContent, PackageReference,
    Property, SCHEMA_BUNDLE, SCHEMA_CHANNEL, SCHEMA_DEPRECATIONS, SCHEMA_PACKAGE,
};
pub use property::{
    PROPERTY_BUNDLE_OBJECT, PROPERTY_CHANNEL, PROPERTY_CONSTRAINT, PROPERTY_CSV_METADATA, PROPERTY_GVK,
    PROPERTY_GVK_REQUIRED, PROPERTY_KUBERNETES_VERSION, PROPERTY_MAX_OPENSHIFT_VERSION, PROPERTY_PACKAGE,
    PROPERTY_PACKAGE_REQUIRED,
};
pub use window::WindowReader;
