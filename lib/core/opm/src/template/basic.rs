//! The basic template: a catalog in which a bundle is given by its image.

use olm_fbc::SCHEMA_BUNDLE;
use olm_go::field::Fields;

use super::{Bundles, TemplateError, bundle, entries};
use crate::{Blob, BundleBlob};

#[derive(Debug)]
pub(super) struct Basic {
    /// Each document, with the image of a bundle.
    entries: Vec<(Blob, Option<String>)>,
}

impl Basic {
    pub(super) fn read(template: Fields<'_>) -> Result<Self, TemplateError> {
        let entry = |(index, blob): (usize, Blob)| {
            if blob.schema != SCHEMA_BUNDLE {
                return Ok((blob, None));
            }
            let bundle = BundleBlob::read(&blob).map_err(|source| TemplateError::Entry { index, source })?;
            let bare = bundle.package.is_empty()
                && bundle.properties.is_empty()
                && bundle.related_images.is_empty()
                && !bundle.image.is_empty();
            if !bare {
                return Err(TemplateError::rule("unexpected fields present in basic template bundle"));
            }
            Ok((blob, Some(bundle.image)))
        };
        let entries = entries(template)?.into_iter().enumerate().map(entry).collect::<Result<_, _>>()?;
        Ok(Self { entries })
    }

    pub(super) fn images(&self) -> Vec<&str> {
        self.entries.iter().filter_map(|(_, image)| image.as_deref()).collect()
    }

    pub(super) fn render(&self, bundles: Bundles<'_>) -> Result<Vec<Blob>, TemplateError> {
        let blob = |(blob, image): &(Blob, Option<String>)| match image {
            Some(image) => Ok(bundle(bundles, image)?.to_blob()),
            None => Ok(blob.clone()),
        };
        self.entries.iter().map(blob).collect()
    }
}
