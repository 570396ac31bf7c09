//! The images a bundle needs: those its ClusterServiceVersion lists, its own, and those of its deployments.

use std::collections::BTreeSet;

use olm_bundle::Manifest;

use super::{BundleError, object_at};
use crate::{FieldError, RelatedImage, fields::Fields};

/// The only install strategy there is.
const DEPLOYMENT: &str = "deployment";

/// All related images, sorted by reference. What the ClusterServiceVersion lists is taken as it is; the
/// others are added when their reference is not there yet.
pub(super) fn related(csv: &Manifest, image: &str) -> Result<Vec<RelatedImage>, BundleError> {
    let wrong = |source| BundleError::Manifest { file: csv.file.clone(), source };
    let spec = object_at(csv, &["spec"])?;
    let mut related = Vec::new();
    for item in spec.objects("relatedImages").map_err(wrong)? {
        related.push(RelatedImage {
            name: item.text("name").map_err(wrong)?.to_owned(),
            image: item.text("image").map_err(wrong)?.to_owned(),
        });
    }
    let mut known: BTreeSet<String> = related.iter().map(|related| related.image.clone()).collect();
    let operator = operator_images(&spec).map_err(wrong)?;
    let own = (!image.is_empty()).then(|| image.to_owned());
    for image in own.into_iter().chain(operator) {
        if known.insert(image.clone()) {
            related.push(RelatedImage { name: String::new(), image });
        }
    }
    related.sort_by(|a, b| a.image.cmp(&b.image));
    Ok(related)
}

/// The images of the containers of the deployments.
fn operator_images(spec: &Fields<'_>) -> Result<Vec<String>, FieldError> {
    let install = spec.object("install")?;
    let mut images = Vec::new();
    if install.text("strategy")? != DEPLOYMENT {
        return Ok(images);
    }
    for deployment in install.object("spec")?.objects("deployments")? {
        let pod = deployment.object("spec")?.object("template")?.object("spec")?;
        for list in ["containers", "initContainers"] {
            for container in pod.objects(list)? {
                images.push(container.text("image")?.to_owned());
            }
        }
    }
    Ok(images)
}
