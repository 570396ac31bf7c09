//! `olm catalog images`: every image that packages need.

mod closure;

use std::io::Write;

use anyhow::bail;
use clap::Args;

pub(crate) use self::closure::{Named, Versions};
use crate::{
    catalogs::CatalogArgs,
    output::{self, Column, ListArgs, counted},
};

/// The help text below the options.
pub(crate) const HELP: &str = "The images of the versions that new extensions would get, or of all versions (--all-versions), or of every upgrade from an
installed version (--from). They are the bundles themselves, the images that the catalog names for them, and those in the
manifests of the bundles: containers, environment variables, arguments, ConfigMaps, defaults of CRDs. For the manifests
the bundles are pulled, unless --catalog-only; those that a catalog has itself are read from there.

Images that an operator computes when it runs are in no manifest and cannot be listed.

Exit codes: 0 all were found, 1 error, for instance a bundle cannot be pulled.

Examples:
  olm catalog images argocd-operator --from 0.12.0 -o name
  olm catalog images --catalog ./catalog --catalog-only -o json";

/// Most images in manifests outside the related images that are named in the note.
const NAMED_MAX: usize = 5;

/// `olm catalog images`
#[derive(Debug, Args)]
pub(crate) struct Images {
    /// Names of packages. Default: all
    packages: Vec<String>,
    #[command(flatten)]
    versions: Versions,
    #[command(flatten)]
    list: ListArgs,
    #[command(flatten)]
    catalogs: CatalogArgs,
}

fn table() -> [Column<Named>; 3] {
    [
        Column::new("IMAGE", |image: &Named| image.image.clone()),
        Column::new("BUNDLES", |image: &Named| match image.bundles.first() {
            Some(only) if image.bundles.len() == 1 => only.clone(),
            _ => counted(image.bundles.len(), "bundle"),
        }),
        Column::wide("PLACES", |image: &Named| image.places.iter().cloned().collect::<Vec<_>>().join(", ")),
    ]
}

impl Images {
    pub(crate) async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let catalogs = self.catalogs.open().await?;
        let registries = &self.catalogs.access.registries;
        let closure = self.versions.closure(&self.packages, catalogs, registries).await?;
        note(&closure.images);
        self.list.write(out, &closure.images, &table(), |image| image.image.clone())?;
        if closure.unread > 0 {
            bail!("{} could not be read: the list may be incomplete", counted(closure.unread, "bundle"));
        }
        Ok(())
    }
}

/// Reports on standard error which images a catalog does not name.
pub(crate) fn note(images: &[Named]) {
    let outside: Vec<&str> = images
        .iter()
        .filter(|image| image.outside_related_images)
        .map(|image| image.image.as_str())
        .collect();
    if outside.is_empty() {
        return;
    }
    let more = outside.len().saturating_sub(NAMED_MAX);
    let named = outside[..outside.len() - more].join(", ");
    let more = if more == 0 { String::new() } else { format!(", and {more} more") };
    output::warning(&format!(
        "{} in manifests only, and not among the related images: {named}{more}",
        counted(outside.len(), "image")
    ));
}
