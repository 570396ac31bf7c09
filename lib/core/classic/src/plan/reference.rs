//! What a step says of its object: never the object, but where it is made from. Whoever may write InstallPlans cannot have
//! an object made that no bundle holds, and plans stay small.

use serde::{Deserialize, Serialize};

use super::PlannedBundle;

/// Where the content of a bundle is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Content {
    /// In an image.
    Image,
    /// In the catalog, as a whole.
    Catalog,
}

/// The manifest of a step, as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Reference {
    /// Where the content of the bundle is.
    pub kind: Content,
    /// The image of the bundle; the name of a bundle that is in the catalog as a whole.
    pub path: String,
    /// The digest of the image, or of the content.
    pub digest: String,
    /// The file that the object is in, or is derived from.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub file: String,
    /// The name of the CatalogSource.
    pub catalog_source_name: String,
    /// The namespace of the CatalogSource.
    pub catalog_source_namespace: String,
    /// The ClusterServiceVersion that is replaced; the step of a ClusterServiceVersion has it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub replaces: String,
    /// The properties as JSON; the step of a ClusterServiceVersion has them.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub properties: String,
}

impl Reference {
    pub(super) fn of(bundle: &PlannedBundle, file: String) -> Self {
        let is_image = !bundle.image.is_empty();
        Self {
            kind: if is_image { Content::Image } else { Content::Catalog },
            path: if is_image { bundle.image.clone() } else { bundle.name.clone() },
            digest: bundle.digest.clone(),
            file,
            catalog_source_name: bundle.catalog.clone(),
            catalog_source_namespace: bundle.catalog_namespace.clone(),
            replaces: String::new(),
            properties: String::new(),
        }
    }
}
