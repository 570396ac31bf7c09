//! `olm catalog images`: every image that packages need.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write,
};

use anyhow::{anyhow, bail};
use clap::Args;
use futures::{StreamExt as _, stream};
use olm_bundle::BundleFiles;
use olm_fbc::{Meta, PackageContent, SCHEMA_BUNDLE};
use olm_opm::{BundleImages, manifest_images};
use olm_resolve::{CatalogView, Request, resolve, upgrade_path};
use serde::Serialize;

use super::read::image_syntax;
use crate::{
    catalogs::{Catalog, CatalogArgs, Wanted},
    output::{self, Column, ListArgs, counted},
    progress::Bar,
    resolve::installed,
    sources::Registries,
};

/// The help text below the options.
pub(crate) const HELP: &str = "The images of the versions that new extensions would get, or of all versions (--all-versions), or of every upgrade from an
installed version (--from). They are the bundles themselves, the images that the catalog names for them, and those in the
manifests of the bundles: containers, environment variables, arguments, ConfigMaps, defaults of CRDs. For the manifests
the bundles are pulled, unless --catalog-only.

Images that an operator computes when it runs are in no manifest and cannot be listed.

Exit codes: 0 all were found, 1 error, for instance a bundle cannot be pulled.

Examples:
  olm catalog images argocd-operator --from 0.12.0 -o name
  olm catalog images --catalog ./catalog --catalog-only -o json";

/// Bundles that are pulled at the same time.
const PULLS: usize = 4;
/// Most images in manifests outside the related images that are named in the note.
const NAMED_MAX: usize = 5;
/// The place of the bundle's own image.
const BUNDLE: &str = "bundle";
/// The place of images that the catalog names.
const RELATED: &str = "relatedImages";

/// `olm catalog images`
#[derive(Debug, Args)]
pub(crate) struct Images {
    /// Names of packages. Default: all
    packages: Vec<String>,
    /// Version or range, as in spec.source.catalog.version
    #[arg(long)]
    version: Option<String>,
    /// A channel, as in spec.source.catalog.channels; may be repeated
    #[arg(long = "channel")]
    channels: Vec<String>,
    /// Name or version of the installed bundle: the images of every upgrade from it to the chosen version
    #[arg(long, value_name = "NAME|VERSION|NAME=VERSION", conflicts_with = "all_versions")]
    from: Option<String>,
    /// The images of all versions
    #[arg(long, conflicts_with = "version")]
    all_versions: bool,
    /// List the images that the catalog names; pull no bundles
    #[arg(long)]
    catalog_only: bool,
    #[command(flatten)]
    list: ListArgs,
    #[command(flatten)]
    catalogs: CatalogArgs,
}

/// An image, with where it is named.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Named {
    image: String,
    bundles: BTreeSet<String>,
    places: BTreeSet<String>,
    /// Whether it is named in manifests only, and not among the related images.
    outside_related_images: bool,
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

/// What is read of a catalog.
#[derive(Debug, Default)]
struct Content {
    packages: BTreeMap<String, PackageContent>,
    images: BTreeMap<(String, String), BundleImages>,
}

impl Images {
    pub(crate) async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let chosen = self.chosen().await?;
        let mut found = Found::default();
        for bundle in &chosen {
            found.add_catalog(bundle);
        }
        let failed = if self.catalog_only {
            0
        } else {
            found.add_manifests(&chosen, &self.catalogs.access.registries).await
        };
        let images = found.images();
        note(&images);
        self.list.write(out, &images, &table(), |image| image.image.clone())?;
        if failed > 0 {
            bail!("{} could not be read: the list may be incomplete", counted(failed, "bundle"));
        }
        Ok(())
    }

    /// The bundles whose images are wanted.
    async fn chosen(&self) -> anyhow::Result<Vec<BundleImages>> {
        if self.from.is_some() && self.packages.len() != 1 {
            bail!("--from {}: name one package", self.from.as_deref().unwrap_or_default());
        }
        let mut catalogs = self.catalogs.open().await?;
        catalogs.sort_by(|a, b| b.priority.cmp(&a.priority).then_with(|| a.name.cmp(&b.name)));
        let (mut chosen, mut seen) = (Vec::new(), BTreeSet::new());
        for catalog in &catalogs {
            let mut content = self.read(catalog).await?;
            for (name, package) in &content.packages {
                // The catalog with the highest priority counts.
                if seen.insert(name.clone()) {
                    for bundle in self.bundles(name, package)? {
                        chosen.extend(content.images.remove(&(name.clone(), bundle)));
                    }
                }
            }
        }
        match self.packages.iter().find(|name| !seen.contains(*name)) {
            Some(missing) => bail!("no catalog has a package {missing:?}"),
            None => Ok(chosen),
        }
    }

    async fn read(&self, catalog: &Catalog) -> anyhow::Result<Content> {
        let take = |content: &mut Content, meta: &Meta<'_>| {
            let package = meta.envelope.subject().to_owned();
            let mut record = Vec::new();
            if meta.write_record(&mut record) {
                content.packages.entry(package.clone()).or_default().push_json(&record)?;
            }
            if meta.envelope.schema == SCHEMA_BUNDLE {
                let images = BundleImages::of_line(meta.line)?;
                content.images.insert((package, images.bundle.clone()), images);
            }
            Ok(())
        };
        if self.packages.is_empty() {
            return catalog.fold(Wanted::All, Content::default(), take).await;
        }
        let mut content = Content::default();
        for package in &self.packages {
            content = catalog.fold(Wanted::Package(package), content, take).await?;
        }
        Ok(content)
    }

    /// The names of the bundles of a package that are wanted.
    fn bundles(&self, name: &str, content: &PackageContent) -> anyhow::Result<Vec<String>> {
        if self.all_versions {
            return Ok(content.bundles.iter().map(|bundle| bundle.name.clone()).collect());
        }
        let request = Request {
            package: name.to_owned(),
            version: self.version.clone(),
            channels: self.channels.clone(),
            ..Request::default()
        };
        let view = CatalogView { name: "catalog", priority: 0, content: Ok(content) };
        let end = match resolve(&request, &[view]) {
            Ok(found) => found.bundle,
            // Of all packages some have no version in the range.
            Err(_) if self.packages.is_empty() => return Ok(Vec::new()),
            Err(error) => bail!("{error}"),
        };
        let Some(from) = &self.from else { return Ok(vec![end]) };
        let from = installed("--from", from, &[Ok(content.clone())])?;
        let version = from.version.parse().map_err(|error| anyhow!("--from {}: {error}", from.version))?;
        let hops = upgrade_path(content, (&from.name, &version), &end, &self.channels)?;
        Ok(hops.into_iter().map(|hop| hop.bundle).collect())
    }
}

/// The images that were found, by reference.
#[derive(Debug, Default)]
struct Found(BTreeMap<String, (BTreeSet<String>, BTreeSet<String>)>);

impl Found {
    fn add(&mut self, image: &str, bundle: &str, place: &str) {
        let (bundles, places) = self.0.entry(image.to_owned()).or_default();
        bundles.insert(bundle.to_owned());
        places.insert(place.to_owned());
    }

    fn add_catalog(&mut self, images: &BundleImages) {
        if !images.image.is_empty() {
            self.add(&images.image, &images.bundle, BUNDLE);
        }
        for related in &images.related {
            self.add(related, &images.bundle, RELATED);
        }
    }

    /// Adds what the manifests name; answers how many bundles could not be read.
    async fn add_manifests(&mut self, chosen: &[BundleImages], registries: &Registries) -> usize {
        let bar = Bar::new("reading bundles", chosen.len());
        let read = chosen.iter().map(|bundle| async move { (bundle, manifests(bundle, registries).await) });
        let mut all = stream::iter(read).buffered(PULLS);
        let mut failed = 0;
        while let Some((bundle, read)) = all.next().await {
            match read {
                Ok(images) => {
                    for (image, places) in images {
                        for place in &places {
                            self.add(&image, &bundle.bundle, place);
                        }
                    }
                }
                Err(error) => {
                    failed += 1;
                    bar.warn(&format!("bundle {:?}: {}", bundle.bundle, output::causes(&error)));
                }
            }
            bar.item_done();
        }
        failed
    }

    fn images(self) -> Vec<Named> {
        let image = |(image, (bundles, places)): (String, (BTreeSet<String>, BTreeSet<String>))| Named {
            outside_related_images: !places.contains(BUNDLE) && !places.contains(RELATED),
            image,
            bundles,
            places,
        };
        self.0.into_iter().map(image).collect()
    }
}

/// The images that the manifests of a bundle name, with their places.
async fn manifests(
    bundle: &BundleImages,
    registries: &Registries,
) -> anyhow::Result<BTreeMap<String, BTreeSet<String>>> {
    if bundle.image.is_empty() {
        bail!("it has no image; its manifests in the catalog are not read");
    }
    images_in(&registries.bundle_files(&bundle.image.parse()?).await?)
}

/// The images in the manifests of a bundle's files.
fn images_in(files: &BundleFiles) -> anyhow::Result<BTreeMap<String, BTreeSet<String>>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (path, content) in files.iter().filter(|(path, _)| path.starts_with("manifests/")) {
        let text = olm_yaml::text(content).map_err(|error| anyhow!("{path}: {error}"))?;
        for manifest in olm_yaml::documents(text) {
            let manifest = manifest.map_err(|error| anyhow!("{path}: {error}"))?;
            for (image, places) in manifest_images(&manifest, image_syntax) {
                found.entry(image).or_default().extend(places);
            }
        }
    }
    Ok(found)
}

/// Reports on standard error which images a catalog does not name.
fn note(images: &[Named]) {
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

#[cfg(test)]
mod tests;
