//! How a registry+v1 bundle becomes an `olm.bundle` blob of a catalog.
//!
//! As the original's catalog tool reads bundles, which is laxer than installing them: of each file of
//! `manifests/` the first document counts, of several ClusterServiceVersions the first; hidden files,
//! sub-folders and files that cannot be decoded are passed over, the latter with a warning. Properties come
//! from the metadata, the ClusterServiceVersion and the CustomResourceDefinitions.
//!
//! The files are given by the caller. Ranges, names and images are not checked here: that is validation.

mod apis;
mod csv_metadata;
mod images;
mod metadata;
mod properties;

use olm_bundle::{BundleFiles, CSV_KIND, Manifest, first_manifests};
use serde_json::Value;
use thiserror::Error;

pub(crate) use csv_metadata::csv_metadata;

use crate::{BlobProperty, BundleBlob, FieldError, fields::Fields};
use apis::Apis;
use metadata::Metadata;

/// Why a bundle could not be turned into a blob.
#[derive(Debug, Error)]
pub enum BundleError {
    /// Nothing in `manifests/` could be decoded.
    #[error("no bundle objects found: manifests has no file that is a Kubernetes object")]
    NoObjects,
    /// No ClusterServiceVersion in `manifests/`.
    #[error("no csv in bundle: manifests needs one file with a ClusterServiceVersion")]
    NoCsv,
    /// No annotations in `metadata/`.
    #[error(
        "could not find annotations file: metadata needs one whose annotations have \
         operators.operatorframework.io.bundle.package.v1"
    )]
    NoAnnotations,
    /// A manifest has a field of the wrong type.
    #[error("{file}: {source}")]
    Manifest {
        /// Path of the manifest.
        file: String,
        /// What is wrong with it.
        source: FieldError,
    },
    /// A CRD is named without its group.
    #[error("{file}: couldn't parse plural.group from crd name: {name}")]
    CrdName {
        /// Path of the ClusterServiceVersion.
        file: String,
        /// The name.
        name: String,
    },
    /// The ClusterServiceVersion owns an API that no CRD of the bundle provides.
    #[error("error checking provided apis in bundle {bundle}: couldn't find {api} in bundle. found: {found}")]
    MissingApi {
        /// Name of the bundle.
        bundle: String,
        /// The API that is missing.
        api: String,
        /// The APIs that are there.
        found: String,
    },
    /// A declared property or dependency of a known type cannot be read.
    #[error("get properties for bundle {bundle:?}: parse {list}[{index}] of type {kind:?}: {source}")]
    Property {
        /// Name of the bundle.
        bundle: String,
        /// `property` or `dependency`.
        list: &'static str,
        /// Its position in the list.
        index: usize,
        /// Its type.
        kind: String,
        /// What is wrong with it.
        source: Box<FieldError>,
    },
}

/// A bundle as read from its files.
#[derive(Debug)]
pub struct RegistryV1Bundle {
    manifests: Vec<Manifest>,
    csv: usize,
    name: String,
    /// Version and release of the ClusterServiceVersion; either may be empty.
    version: (String, String),
    metadata: Metadata,
    /// Declared and derived properties, without duplicates.
    declared: Vec<BlobProperty>,
    apis: Apis,
    warnings: Vec<String>,
}

impl RegistryV1Bundle {
    /// Reads the files of a bundle.
    ///
    /// # Errors
    /// There are no annotations or no ClusterServiceVersion, these have fields of wrong types, or the
    /// ClusterServiceVersion owns an API that no CRD of the bundle provides.
    pub fn read(files: &BundleFiles) -> Result<Self, BundleError> {
        let mut warnings = Vec::new();
        let manifests = first_manifests(files, &mut warnings);
        if manifests.is_empty() {
            return Err(BundleError::NoObjects);
        }
        let csv = manifests.iter().position(|manifest| manifest.kind() == CSV_KIND);
        let csv = csv.ok_or(BundleError::NoCsv)?;
        let name = text_at(&manifests[csv], &["metadata"], "name")?.to_owned();
        let apis = Apis::of(&manifests, &manifests[csv])?;
        apis.check_owned(&name)?;
        let metadata = Metadata::read(files)?;
        let field = |name| text_at(&manifests[csv], &["spec"], name).map(ToOwned::to_owned);
        let version = (field("version")?, field("release")?);
        let declared = properties::declared(&metadata, &manifests[csv], &version, &apis, &mut warnings)?;
        Ok(Self { manifests, csv, name, version, metadata, declared, apis, warnings })
    }

    /// The name of the ClusterServiceVersion.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The package, from the annotations.
    pub fn package(&self) -> &str {
        &self.metadata.package
    }

    /// The version of the first `olm.package` property; empty when there is none.
    pub fn version(&self) -> String {
        let first = self.declared.iter().find(|property| property.kind == crate::blob::PACKAGE);
        let value = first.and_then(|property| serde_json::from_str::<Value>(property.value.get()).ok());
        value.and_then(|value| Some(value.get("version")?.as_str()?.to_owned())).unwrap_or_default()
    }

    /// What was passed over, a line each.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The blob, for a bundle whose image has the reference `image`; it is empty when there is no image.
    ///
    /// # Errors
    /// A declared property or dependency of a known type cannot be read, or the ClusterServiceVersion's
    /// images cannot.
    pub fn render(&self, image: &str) -> Result<BundleBlob, BundleError> {
        let csv = &self.manifests[self.csv];
        let mut properties = properties::all(self)?;
        // Sorted by type and text; what is large and for user interfaces only goes last.
        let key = |property: &BlobProperty| (property.is_object(), property.kind.clone());
        properties.sort_by(|a, b| key(a).cmp(&key(b)).then_with(|| a.value.get().cmp(b.value.get())));
        Ok(BundleBlob {
            name: self.name.clone(),
            package: self.metadata.package.clone(),
            image: image.to_owned(),
            properties,
            related_images: images::related(csv, image)?,
            csv: Some(csv.object.clone()),
        })
    }
}

/// The object a path of fields leads to.
fn object_at<'a>(manifest: &'a Manifest, path: &[&str]) -> Result<Fields<'a>, BundleError> {
    let wrong = |source| BundleError::Manifest { file: manifest.file.clone(), source };
    let top = Fields::of(&manifest.object).map_err(wrong)?;
    path.iter().try_fold(top, |fields, name| fields.object(name)).map_err(wrong)
}

fn text_at<'a>(manifest: &'a Manifest, path: &[&str], name: &str) -> Result<&'a str, BundleError> {
    let wrong = |source| BundleError::Manifest { file: manifest.file.clone(), source };
    object_at(manifest, path)?.text(name).map_err(wrong)
}

#[cfg(test)]
mod tests;
