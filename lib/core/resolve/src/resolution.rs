//! The answer.

use olm_fbc::{Deprecation, Property};
use olm_semver::BundleVersion;
use serde::Serialize;

use crate::{
    Cause, DependencyHandling,
    bundle::{dependencies, properties},
    candidates::Found,
    request::Query,
};

/// The bundle to install, and what the caller needs to know about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Resolution {
    /// Name of the catalog.
    pub catalog: String,
    /// Name of the package.
    pub package: String,
    /// Name of the bundle.
    pub bundle: String,
    /// Its version and release.
    pub version: BundleVersion,
    /// Its image reference.
    pub image: String,
    /// Its properties, without those that hold content only.
    pub properties: Vec<Property>,
    /// Those of its properties that declare dependencies. They are not checked here.
    pub dependencies: Vec<Property>,
    /// The catalog's deprecations in the package.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecation: Option<Deprecation>,
    /// Other catalogs that had a candidate, or could not be read, by name.
    pub other_catalogs: Vec<OtherCatalog>,
}

/// A catalog whose candidate was not taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OtherCatalog {
    /// Name of the catalog.
    pub name: String,
    /// Name of its candidate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bundle: Option<String>,
    /// Why.
    pub note: CatalogNote,
}

/// Why a catalog's candidate was not taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum CatalogNote {
    /// Its priority is lower.
    LowerPriority,
    /// Its candidate is deprecated, the one taken is not.
    Deprecated,
    /// It offers the same bundle by the same digest.
    SameContent,
    /// The installed bundle came from the catalog taken.
    NotOrigin,
    /// It could not be read.
    Unreadable(
        /// Why.
        String,
    ),
}

impl Resolution {
    /// The answer that the candidate is.
    ///
    /// # Errors
    /// Its version is invalid, or it declares dependencies and these are refused.
    pub(crate) fn new(
        query: &Query<'_>,
        found: &Found<'_>,
        other_catalogs: Vec<OtherCatalog>,
    ) -> Result<Self, Cause> {
        let bundle = found.candidate.bundle;
        let version = found
            .candidate
            .version
            .clone()
            .map_err(|source| Cause::InvalidBundleVersion { bundle: bundle.name.clone(), source })?;
        let dependencies: Vec<_> = dependencies(bundle).cloned().collect();
        if let (DependencyHandling::Refuse, Some(property)) =
            (query.request.options.dependencies, dependencies.first())
        {
            return Err(Cause::UnsupportedDependency {
                bundle: bundle.name.clone(),
                property: property.kind.clone(),
            });
        }
        Ok(Self {
            catalog: found.catalog.name.to_owned(),
            package: query.request.package.clone(),
            bundle: bundle.name.clone(),
            version,
            image: bundle.image.clone(),
            properties: properties(bundle).cloned().collect(),
            dependencies,
            deprecation: found.content.deprecations.first().cloned(),
            other_catalogs,
        })
    }
}
