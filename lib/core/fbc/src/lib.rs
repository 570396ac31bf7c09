//! File-based catalogs (FBC): the model of their blobs, as the rest of the program sees it.
//!
//! [`PackageContent`] is everything resolution needs to know about one package of one catalog; it is
//! small, because the large parts of bundles (CSV metadata, related images) are left out of it.

//!
//! Catalogs are read as streams: [`MetaReader`] gives the documents of a file as canonical lines, [`Index`]
//! says where the lines of a query are, [`Meta::write_record`] cuts a document down to what resolution
//! needs, [`IgnoreRules`] and [`walk_order`] say which files are read, and in what order. Nothing is
//! validated beyond what serving needs.

mod blob;
mod canonical;
mod envelope;
mod error;
mod fields;
mod ignore;
mod index;
pub mod limits;
mod meta;
mod migrate;
mod model;
mod raw;
mod reader;
mod record;
mod registry_v1;
pub mod template;
mod window;
mod yaml;

pub use blob::{Blob, BlobError, BlobProperty, BundleBlob, RelatedImage};
pub use envelope::Envelope;
pub use error::FbcError;
pub use fields::FieldError;
pub use ignore::{IGNORE_FILE, IgnoreRules, walk_order};
pub use index::{Index, Query};
pub use meta::{Meta, MetaReader};
pub use migrate::{MigrationError, MigrationLevel, UnknownLevel, migrate};

pub use model::{
    Bundle, Channel, ChannelEntry, Deprecation, DeprecationEntry, Package, PackageContent, PackageReference,
    Property, SCHEMA_BUNDLE, SCHEMA_CHANNEL, SCHEMA_DEPRECATIONS, SCHEMA_PACKAGE,
};
pub use reader::{BoxFuture, CatalogError, CatalogReader, PackageSnapshot};
pub use registry_v1::{BundleError, BundleTree, RegistryV1Bundle};
pub use window::WindowReader;
