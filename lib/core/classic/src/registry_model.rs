//! The registry API (`api.Registry`): its messages, and its answers over a catalog.
//!
//! Fields and their contents are those of `opm serve`, since every client of the API was written against it. A [`Catalog`]
//! holds the graph of its packages in memory and reads everything else from its [`Content`] when it is asked for.
//!
//! Source: operator-registry `pkg/api/model_to_api.go`, `pkg/cache`.

mod bundle;
mod catalog;
mod csv;
mod documents;
mod queries;
#[cfg(test)]
mod tests;

use olm_fbc::{CatalogError, PackageContent};
use olm_object::GroupVersionKind;
use thiserror::Error;

pub use catalog::{Catalog, valid_package};
pub use documents::{CatalogTooLarge, Documents};

/// A package with its channels.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Package {
    /// Name.
    pub name: String,
    /// Channels by name.
    pub channels: Vec<Channel>,
    /// Name of the channel that is taken when a Subscription names none.
    pub default_channel_name: String,
    /// Message to the users of a deprecated package.
    pub deprecation: Option<String>,
}

/// A channel with its head.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Channel {
    /// Name.
    pub name: String,
    /// Name of the bundle at the head.
    pub csv_name: String,
    /// Message to the users of a deprecated channel.
    pub deprecation: Option<String>,
}

/// A bundle in a channel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bundle {
    /// Name of the bundle and of its ClusterServiceVersion.
    pub csv_name: String,
    /// Name of the package.
    pub package_name: String,
    /// Name of the channel.
    pub channel_name: String,
    /// The ClusterServiceVersion as JSON; empty when it is only in the image.
    pub csv_json: String,
    /// The manifests as JSON texts.
    pub object: Vec<String>,
    /// Image reference.
    pub bundle_path: String,
    /// Kinds that the bundle provides.
    pub provided_apis: Vec<GroupVersionKind>,
    /// Kinds that the bundle requires.
    pub required_apis: Vec<GroupVersionKind>,
    /// Version.
    pub version: String,
    /// Range of versions from which this bundle is reached directly.
    pub skip_range: String,
    /// Requirements, each with a type and a JSON text.
    pub dependencies: Vec<Property>,
    /// Properties without whole manifests and CSV metadata.
    pub properties: Vec<Property>,
    /// Name of the bundle that this one replaces.
    pub replaces: String,
    /// Names of bundles that may be skipped on the way to this one.
    pub skips: Vec<String>,
    /// Message to the users of a deprecated bundle.
    pub deprecation: Option<String>,
}

/// A property or dependency: its type, and its value as JSON text.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Property {
    /// Type, for example `olm.gvk`.
    pub kind: String,
    /// Value as JSON.
    pub value: String,
}

/// An entry of a channel, as queries about upgrades and APIs answer it.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChannelEntry {
    /// Name of the package.
    pub package_name: String,
    /// Name of the channel.
    pub channel_name: String,
    /// Name of the bundle.
    pub bundle_name: String,
    /// Name of a bundle that this one replaces or skips.
    pub replaces: String,
}

/// The documents of a catalog. Reading them may block.
pub trait Content: Send + Sync {
    /// Names of the packages.
    fn packages(&self) -> Vec<String>;

    /// The content of a package without its large parts; empty when the catalog does not have it.
    ///
    /// # Errors
    /// It cannot be read.
    fn package(&self, package: &str) -> Result<PackageContent, CatalogError>;

    /// The whole document of a bundle, or without one the `olm.package` of the package, as JSON.
    ///
    /// # Errors
    /// It cannot be read.
    fn document(&self, package: &str, bundle: Option<&str>) -> Result<Option<Vec<u8>>, CatalogError>;

    /// Calls `each` with every document of a schema, as JSON: of one package, or with an empty name those without package.
    /// Ends when `each` returns false.
    ///
    /// # Errors
    /// They cannot be read.
    fn documents(
        &self,
        schema: &str,
        package: &str,
        each: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<(), CatalogError>;
}

/// Why a query has no answer. The texts are upstream's.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum QueryError {
    /// The catalog does not have it, or it cannot be read; gRPC status Unknown.
    #[error("{0}")]
    Unknown(String),
    /// The query makes no sense.
    #[error("{0}")]
    InvalidArgument(String),
}

impl From<CatalogError> for QueryError {
    fn from(error: CatalogError) -> Self {
        Self::Unknown(error.to_string())
    }
}
