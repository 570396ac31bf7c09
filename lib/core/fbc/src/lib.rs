//! File-based catalogs (FBC): the model of their blobs, as the rest of the program sees it.
//!
//! [`PackageContent`] is everything resolution needs to know about one package of one catalog; it is
//! small, because the large parts of bundles (CSV metadata, related images) are left out of it.
//!
//! Catalogs are read as streams: [`MetaReader`] gives the documents of a file as canonical lines, [`Index`]
//! says where the lines of a query are, [`Meta::write_record`] cuts a document down to what resolution
//! needs, [`IgnoreRules`] and [`walk_order`] say which files are read, and in what order. For serving, nothing
//! more is asked of a catalog.
//!
//! Catalogs are checked as authors need it: [`outline`] reads a whole one into its small parts, [`validate()`]
//! applies the rules of `opm validate`, [`Outline::warnings`] has those that are only documented.
//! [`Documents`] writes catalogs.
//!
//! Catalogs are made from bundles ([`RegistryV1Bundle`]) and from templates ([`template`]), and brought to newer
//! forms by [`migrate()`]; all of that works on [`Blob`]s.

mod base64;
mod blob;
mod canonical;
mod decode;
mod envelope;
mod error;
mod fields;
mod ignore;
mod index;
mod keys;
pub mod limits;
mod load;
mod meta;
mod migrate;
mod model;
mod names;
mod outline;
mod picture;
mod property;
mod raw;
mod reader;
mod record;
mod registry_v1;
mod selection;
pub mod template;
mod validate;
mod window;
mod write;
mod yaml;

pub use blob::{Blob, BlobError, BlobProperty, BundleBlob, RelatedImage};
pub use decode::DecodeError;
pub use envelope::Envelope;
pub use error::FbcError;
pub use fields::FieldError;
pub use ignore::{IGNORE_FILE, IgnoreRules, walk_order};
pub use index::{Index, Query};
pub use load::{CatalogFiles, FileError, LoadError, content_paths, each_document, outline};
pub use meta::{Meta, MetaReader};
pub use migrate::{MigrationError, MigrationLevel, UnknownLevel, migrate};
pub use model::{
    Bundle, Channel, ChannelEntry, Deprecation, DeprecationEntry, Package, PackageContent, PackageReference,
    Property, SCHEMA_BUNDLE, SCHEMA_CHANNEL, SCHEMA_DEPRECATIONS, SCHEMA_PACKAGE,
};
pub use names::is_subdomain;
pub use outline::{BundleOutline, Finding, ImageSyntax, Outline};
pub use picture::{PictureError, UpgradeGraph, View, dot, mermaid, svg};
pub use property::{
    PROPERTY_BUNDLE_OBJECT, PROPERTY_CHANNEL, PROPERTY_CONSTRAINT, PROPERTY_CSV_METADATA, PROPERTY_GVK,
    PROPERTY_GVK_REQUIRED, PROPERTY_PACKAGE, PROPERTY_PACKAGE_REQUIRED,
};
pub use reader::{BoxFuture, CatalogError, CatalogReader, PackageSnapshot};
pub use registry_v1::{BundleError, BundleTree, RegistryV1Bundle};
pub use selection::{Note, NoteKind, Part, Selection, SelectionError};
pub use validate::{ErrorTree, GraphError, Report, head, validate};
pub use window::WindowReader;
pub use write::{Documents, Form, WriteError, document_text};
