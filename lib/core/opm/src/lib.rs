//! Commands of catalog authors, as opm has them, and what `opm serve` needs to know of a catalog before it serves it.
//!
//! Catalogs are checked: [`outline`] reads a whole one into its small parts, [`validate()`] applies the rules of
//! `opm validate`, [`Outline::warnings`] has those that are only documented. [`UpgradeGraph`] draws their channels.
//!
//! Catalogs are made from bundles ([`RegistryV1Bundle`]) and from templates ([`template`]), and brought to newer
//! forms by [`migrate()`]; all of that works on [`Blob`]s. [`Selection`] takes parts of a catalog, [`Documents`]
//! writes catalogs.

mod blob;
mod decode;
mod difference;
mod edges;
pub mod encode;
mod images;
pub mod limits;
mod load;
mod migrate;
mod objects;
mod outline;
mod picture;
mod profile;
mod registry_v1;
mod search;
mod selection;
// A structure a paragraph.
#[rustfmt::skip]
mod structures;
mod suite;
pub mod template;
mod validate;
mod write;

pub use blob::{Blob, BlobProperty, BundleBlob, RelatedImage};
pub use decode::{DecodeError, FieldError};
pub use difference::{CatalogDifference, Entries, PackageChange, PackageDifference};
pub use images::{BundleImages, manifest_images};
pub use load::{LoadError, each_document, outline};
pub use migrate::{MigrationError, MigrationLevel, migrate};
pub use outline::{BundleOutline, Finding, ImageSyntax, Outline};
pub use picture::{PictureError, UpgradeGraph, View, mermaid, svg};
pub use profile::{Api, Profile};
pub use registry_v1::{BundleError, RegistryV1Bundle};
pub use search::{Hit, SearchIndex};
pub use selection::{Note, NoteKind, Part, Selection, SelectionError};
pub use suite::{Suite, SuiteFinding};
pub use validate::{ErrorTree, GraphError, Report, head, validate};
pub use write::{Documents, Form, WriteError, document_text};
