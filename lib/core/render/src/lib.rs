//! From a bundle to Kubernetes objects: a pure function of the bundle's files and the user's options.
//!
//! [`render`] finds the format of a bundle in the table [`FORMATS`] and lets it load, check and generate.
//! The same files and options give the same objects in the same order. Nothing here reads files, clusters
//! or clocks, and no image is looked at: a bundle is its files. What is applied in addition to every object
//! (owner labels, field management) is the business of the object sets.

mod budget;
mod certificates;
mod config;
mod error;
mod files;
mod format;
mod limits;
mod names;
mod options;
mod quantity;
mod registry_v1;
mod time;
mod typed;

pub use certificates::{WebhookCertificate, webhook_certificates};
pub use error::{Reason, RenderError};
pub use files::BundleFiles;
pub use format::{BundleFormat, FORMATS, Rendered, render};
pub use limits::{MEMORY_BYTES_MAX, usual_memory};
pub use options::{CertificateProvider, Features, Options};
pub use registry_v1::defines;
