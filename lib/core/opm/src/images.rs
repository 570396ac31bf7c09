//! The images that a bundle's document in a catalog names.

use std::collections::BTreeSet;

use olm_go::field::Fields;
use serde::Serialize;
use serde_json::Value;

use crate::{DecodeError, limits::IMAGES_MAX};

/// A bundle with the images that its catalog names for it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BundleImages {
    /// Package.
    pub package: String,
    /// Name of the bundle.
    pub bundle: String,
    /// The bundle's own image; empty if the catalog has its manifests instead.
    pub image: String,
    /// The related images.
    pub related: BTreeSet<String>,
}

impl BundleImages {
    /// The images of an `olm.bundle` document given as its line.
    ///
    /// # Errors
    /// It is no JSON, or has more related images than are read.
    pub fn of_line(line: &[u8]) -> Result<Self, DecodeError> {
        let failed = |problem: String| DecodeError::Field("object", problem);
        let bundle: Value = serde_json::from_slice(line).map_err(|error| failed(error.to_string()))?;
        let bundle = Fields::of(&bundle);
        let images = bundle.objects("relatedImages").map(|related| related.text("image"));
        let related: BTreeSet<String> = images.filter(|image| !image.is_empty()).map(str::to_owned).collect();
        if related.len() > IMAGES_MAX {
            return Err(failed(format!("it has more than {IMAGES_MAX} related images")));
        }
        Ok(Self {
            package: bundle.text("package").to_owned(),
            bundle: bundle.text("name").to_owned(),
            image: bundle.text("image").to_owned(),
            related,
        })
    }

    /// All of them.
    pub fn references(&self) -> BTreeSet<String> {
        let own = Some(&self.image).filter(|image| !image.is_empty());
        self.related.iter().chain(own).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_bundle_names_its_own_image_and_related_ones_once() {
        let bundle = json!({"package": "p", "name": "b", "image": "r.io/b:1", "relatedImages": [
            {"name": "", "image": "r.io/b:1"}, {"name": "x", "image": "r.io/x:1"}, {"name": "none", "image": ""}]});
        let images = BundleImages::of_line(bundle.to_string().as_bytes()).unwrap();
        assert_eq!(images.references().into_iter().collect::<Vec<_>>(), ["r.io/b:1", "r.io/x:1"]);
    }

    #[test]
    fn related_images_have_a_limit() {
        let related: Vec<Value> = (0..=IMAGES_MAX).map(|i| json!({"image": format!("r.io/{i}")})).collect();
        let line = json!({"relatedImages": related}).to_string();
        let error = BundleImages::of_line(line.as_bytes()).unwrap_err();
        assert!(error.to_string().contains("more than"), "{error}");
    }
}
