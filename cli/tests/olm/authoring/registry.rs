//! A registry on loopback that holds a few images, plain HTTP.

use olm_image::PackedImage;

/// Serves until it is dropped.
pub(crate) struct Registry(olm_test_registry::Registry);

impl Registry {
    /// Serves images under their names, such as `foo:v1`.
    pub(crate) fn serve(images: &[(&str, &PackedImage)]) -> Self {
        let registry = olm_test_registry::Registry::start().expect("a registry");
        for (name, image) in images {
            let (repository, tag) = name.split_once(':').expect("a name with a tag");
            let blobs = image.blobs().map(|(_, bytes)| bytes.clone()).collect();
            registry.put(repository, tag, image.manifest().clone(), blobs);
        }
        Self(registry)
    }

    /// The reference of an image.
    pub(crate) fn reference(&self, name: &str) -> String {
        format!("{}/{name}", self.0.address())
    }

    /// Arguments that let `olm` speak to this registry.
    pub(crate) fn trusted(&self) -> [String; 2] {
        ["--insecure-registry".to_owned(), self.0.address()]
    }
}
