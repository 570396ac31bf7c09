//! File-based catalogs (FBC): the model of their blobs, as the rest of the program sees it.
//!
//! [`PackageContent`] is everything resolution needs to know about one package of one catalog; it is
//! small, because the large parts of bundles (CSV metadata, related images) are left out of it.

mod model;
mod reader;

pub use model::{
    Bundle, Channel, ChannelEntry, Deprecation, DeprecationEntry, Package, PackageContent, PackageReference,
    Property, SCHEMA_BUNDLE, SCHEMA_CHANNEL, SCHEMA_DEPRECATIONS, SCHEMA_PACKAGE,
};
pub use reader::{BoxFuture, CatalogError, CatalogReader, PackageSnapshot};
