//! The images that packages need, all of them.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{anyhow, bail};
use clap::Args;
use futures::{StreamExt as _, stream};
use olm_bundle::BundleFiles;
use olm_fbc::{Meta, PackageContent, SCHEMA_BUNDLE};
use olm_image::image_syntax;
use olm_opm::{BundleImages, manifest_images};
use olm_resolve::{CatalogView, Request, resolve, upgrade_path};
use serde::Serialize;

use crate::{
    catalogs::{Catalog, Wanted, no_package},
    output,
    progress::Bar,
    resolve::installed,
    sources::Registries,
};

/// Bundles that are pulled at the same time.
const PULLS: usize = 4;
/// The place of the bundle's own image.
const BUNDLE: &str = "bundle";
/// The place of images that the catalog names.
const RELATED: &str = "relatedImages";

/// Which versions of the packages are wanted.
#[derive(Debug, Args)]
pub(crate) struct Versions {
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
    #[arg(id = "all_versions", long = "all-versions", conflicts_with = "version")]
    all: bool,
    /// Only the images that the catalog names; pull no bundles
    #[arg(long)]
    catalog_only: bool,
}

/// An image, with where it is named.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Named {
    pub(crate) image: String,
    pub(crate) bundles: BTreeSet<String>,
    pub(crate) places: BTreeSet<String>,
    /// Whether it is named in manifests only, and not among the related images.
    pub(crate) outside_related_images: bool,
}

/// The images of the chosen bundles.
pub(crate) struct Closure {
    pub(crate) images: Vec<Named>,
    /// Bundles whose manifests could not be read.
    pub(crate) unread: usize,
}

/// What is read of a catalog.
#[derive(Debug, Default)]
struct Content {
    packages: BTreeMap<String, PackageContent>,
    images: BTreeMap<(String, String), BundleImages>,
}

impl Versions {
    /// The images of these packages, or of all when none is named. The catalog with the highest priority that has a
    /// package counts.
    pub(crate) async fn closure(
        &self,
        packages: &[String],
        catalogs: Vec<Catalog>,
        registries: &Registries,
    ) -> anyhow::Result<Closure> {
        let chosen = self.chosen(packages, catalogs).await?;
        let mut found = Found::default();
        for bundle in &chosen {
            found.add_catalog(bundle);
        }
        let unread = if self.catalog_only { 0 } else { found.add_manifests(&chosen, registries).await };
        Ok(Closure { images: found.images(), unread })
    }

    /// The bundles whose images are wanted.
    async fn chosen(
        &self,
        packages: &[String],
        mut catalogs: Vec<Catalog>,
    ) -> anyhow::Result<Vec<BundleImages>> {
        if self.from.is_some() && packages.len() != 1 {
            bail!("--from {}: name one package", self.from.as_deref().unwrap_or_default());
        }
        catalogs.sort_by(|a, b| b.priority.cmp(&a.priority).then_with(|| a.name.cmp(&b.name)));
        let (mut chosen, mut seen) = (Vec::new(), BTreeSet::new());
        for catalog in &catalogs {
            let mut content = read(packages, catalog).await?;
            for (name, package) in &content.packages {
                // The catalog with the highest priority counts.
                if seen.insert(name.clone()) {
                    for bundle in self.bundles(packages.is_empty(), name, package)? {
                        chosen.extend(content.images.remove(&(name.clone(), bundle)));
                    }
                }
            }
        }
        for package in packages {
            if !seen.contains(package) {
                return Err(no_package(package, &catalogs).await);
            }
        }
        Ok(chosen)
    }

    /// The names of the bundles of a package that are wanted.
    fn bundles(&self, of_all: bool, name: &str, content: &PackageContent) -> anyhow::Result<Vec<String>> {
        if self.all {
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
            Err(_) if of_all => return Ok(Vec::new()),
            Err(error) => bail!("{error}"),
        };
        let Some(from) = &self.from else { return Ok(vec![end]) };
        let from = installed("--from", from, &[Ok(content.clone())])?;
        let version = from.version.parse().map_err(|error| anyhow!("--from {}: {error}", from.version))?;
        let hops = upgrade_path(content, (&from.name, &version), &end, &self.channels)?;
        Ok(hops.into_iter().map(|hop| hop.bundle).collect())
    }
}

async fn read(packages: &[String], catalog: &Catalog) -> anyhow::Result<Content> {
    let take = |content: &mut Content, meta: &Meta<'_>| {
        let package = meta.envelope.subject().to_owned();
        let mut record = Vec::new();
        if meta.write_record(&mut record) {
            content.packages.entry(package.clone()).or_default().push_json(&record)?;
        }
        if meta.envelope.schema == SCHEMA_BUNDLE {
            let images = BundleImages::of_line(meta.line, image_syntax)?;
            content.images.insert((package, images.bundle.clone()), images);
        }
        Ok(())
    };
    if packages.is_empty() {
        return catalog.fold(Wanted::All, Content::default(), take).await;
    }
    let mut content = Content::default();
    for package in packages {
        content = catalog.fold(Wanted::Package(package), content, take).await?;
    }
    Ok(content)
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
        for (image, places) in &images.embedded {
            for place in places {
                self.add(image, &images.bundle, place);
            }
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
    if let Some(problem) = bundle.problem.as_ref().filter(|_| bundle.image.is_empty()) {
        bail!("{problem}");
    }
    if bundle.image.is_empty() && bundle.manifests > 0 {
        // They are in the catalog, all of them.
        return Ok(BTreeMap::new());
    }
    if bundle.image.is_empty() {
        bail!("the catalog has neither an image nor manifests of it");
    }
    images_in(&registries.files_of_image(&bundle.image).await?)
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

#[cfg(test)]
mod tests;
