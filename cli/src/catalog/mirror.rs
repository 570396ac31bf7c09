//! `olm catalog mirror`: catalogs and every image that their packages need, copied to a registry or a folder.

mod copying;
mod place;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context as _, bail};
use clap::{ArgGroup, Args};
use olm_image::{LayoutRegistry, Puller, PullerConfig, Reference};
use olm_text::one_line;
use serde::Serialize;

use self::{
    copying::{Copied, Item, copy_all},
    place::Place,
};
use super::{catalog_image, filter::filtered, images::Versions, read};
use crate::{
    catalogs::{Named, open_given},
    output::{self, Format, columns, counted},
    sources::{Registries, Source},
};

/// The help text below the options.
pub(crate) const HELP: &str = "Copied are the catalogs, the bundles, and the images that \"olm catalog images\" lists, each with all its platforms. Digests
stay the same. An image that is named by a tag is copied at the digest that the tag has now, and gets the tag too. With
--package a catalog is cut down to these packages. Its channels stay complete, so it may list versions whose images were
not copied: choose them with --version, --channel, --from or --all-versions.

What tags name after the digest of an image is copied with it: signatures, attestations and bills of materials of cosign
(sha256-<digest>.sig, .att, .sbom), and OCI's index of referrers (sha256-<digest>). Not copied are referrers that a registry
lists only by the referrers API, and signatures of the single platforms of an image.

The image quay.io/a/b becomes REGISTRY/quay.io/a/b. The folder of --results gets registries.conf, which sends the requests
for quay.io to the mirror, and catalogs.yaml with a ClusterCatalog for each catalog. Mount registries.conf in the
controllers' Pods, and put it on the nodes. What was copied before is skipped, so a command that failed can be repeated.

Without a connection between the two registries: --layout FOLDER here, and --from-layout FOLDER --push REGISTRY there.

Exit codes: 0 everything was copied, 1 something was not, and is named.

Examples:
  olm catalog mirror quay.io/operatorhubio/catalog:latest --package argocd-operator --push mirror.example.com/olm
  olm catalog mirror quay.io/operatorhubio/catalog:latest --package argocd-operator --layout ./mirror
  olm catalog mirror --from-layout ./mirror --push mirror.example.com/olm
  olm catalog mirror ./catalog --as example.com/catalog:v1 --push mirror.example.com/olm --dry-run";

/// `olm catalog mirror`
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("source").required(true), group = ArgGroup::new("place").required(true))]
pub(crate) struct Mirror {
    /// Catalogs: images, folders, files, or OCI image layouts (oci:FOLDER[:NAME])
    #[arg(value_name = "CATALOG", group = "source")]
    catalogs: Vec<String>,
    /// Copy what an earlier --layout wrote, instead of catalogs
    #[arg(long, value_name = "FOLDER", group = "source", conflicts_with_all = ["packages", "version", "channels", "from", "all_versions", "catalog_only", "as_image"])]
    from_layout: Option<PathBuf>,
    /// Copy to this registry, or below this path of it, such as mirror.example.com/olm
    #[arg(long, value_name = "REGISTRY[/PATH]", group = "place")]
    push: Option<String>,
    /// Copy into an OCI image layout in this folder
    #[arg(long, value_name = "FOLDER", group = "place")]
    layout: Option<PathBuf>,
    /// The image that a catalog becomes which is none, such as example.com/catalog:v1
    #[arg(long = "as", value_name = "REFERENCE")]
    as_image: Option<Reference>,
    /// Copy only this package; may be repeated, or several with commas between them. Default: all
    #[arg(short, long = "package", value_name = "PACKAGE", value_delimiter = ',')]
    packages: Vec<String>,
    #[command(flatten)]
    versions: Versions,
    /// Folder for registries.conf and catalogs.yaml; files of these names are replaced
    #[arg(long, value_name = "FOLDER", default_value = "mirror-results")]
    results: PathBuf,
    /// Read everything, list what would be copied, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
    /// CA certificate (PEM file) to trust for catalogs that are read over HTTPS
    #[arg(long, value_name = "FILE")]
    catalog_ca: Option<PathBuf>,
    #[command(flatten)]
    registries: Registries,
}

/// What was copied.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    images: Vec<Copied>,
    /// Bytes of all blobs, each once.
    bytes: u64,
    /// Bytes that were not at the mirror yet.
    new_bytes: u64,
    failed: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    results: Option<PathBuf>,
    dry_run: bool,
}

/// The images to be copied, and the catalogs among them.
#[derive(Default)]
struct Plan {
    items: BTreeMap<String, Item>,
    catalogs: Vec<Reference>,
    /// Images whose names are no references.
    invalid: BTreeMap<String, Copied>,
    /// Bundles that could not be read.
    unread: usize,
}

impl Mirror {
    pub(crate) async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let place = self.place().await?;
        let (puller, plan) = match &self.from_layout {
            Some(folder) => of_layout(folder)?,
            None => (self.registries.puller()?, self.plan().await?),
        };
        let items: Vec<Item> = plan.items.into_values().collect();
        place.check(&items)?;
        let mut copying = copy_all(&puller, &items, &place, self.dry_run).await;
        copying.images.extend(plan.invalid.into_values());
        let failed = copying.images.iter().filter(|image| image.error.is_some()).count();
        let mut report = Report {
            bytes: copying.bytes,
            new_bytes: copying.images.iter().map(|image| image.new_bytes).sum(),
            images: copying.images,
            failed,
            results: None,
            dry_run: self.dry_run,
        };
        if let (Place::Registry { .. }, false) = (&place, self.dry_run) {
            place.write_results(&self.results, &items, &plan.catalogs)?;
            report.results = Some(self.results.clone());
        }
        output::answer(out, self.output, &report, Report::text)?;
        match (failed, plan.unread) {
            (0, 0) => Ok(()),
            (0, unread) => bail!("{} could not be read: images may be missing", counted(unread, "bundle")),
            (failed, 0) => bail!("{} could not be copied: repeat the command", counted(failed, "image")),
            (failed, unread) => bail!(
                "{} could not be copied and {} not be read: repeat the command",
                counted(failed, "image"),
                counted(unread, "bundle")
            ),
        }
    }

    async fn place(&self) -> anyhow::Result<Place> {
        match (&self.push, &self.layout) {
            (Some(registry), _) => Place::registry(registry, self.registries.puller()?).await,
            (None, Some(folder)) => Place::layout(folder, self.dry_run),
            (None, None) => bail!("name a place with --push or --layout"),
        }
    }

    /// Reads the catalogs and finds out what belongs to them.
    async fn plan(&self) -> anyhow::Result<Plan> {
        let mut plan = Plan::default();
        let mut missing = self.packages.clone();
        for text in &self.catalogs {
            let source: Source = text.parse()?;
            let reference = self.reference(&source)?;
            let given = Named { source: text.clone(), priority: None };
            let catalogs = open_given(&[&given], &self.registries, self.catalog_ca.as_deref()).await?;
            let mut packages = self.packages.clone();
            if !packages.is_empty() {
                let [catalog] = catalogs.as_slice() else { bail!("{text}: no catalog") };
                let names = catalog.packages().await?;
                packages.retain(|package| names.contains(package));
                missing.retain(|package| !names.contains(package));
                if packages.is_empty() {
                    output::warning(&format!("{text} has none of the packages and is not copied"));
                    continue;
                }
            }
            let closure = self.versions.closure(&packages, catalogs, &self.registries).await?;
            plan.unread += closure.unread;
            for image in closure.images {
                plan.add(&image.image, image.bundles);
            }
            let item = self.catalog(&source, reference, &packages).await.with_context(|| text.clone())?;
            plan.catalogs.push(item.reference.clone());
            plan.items.insert(item.reference.to_string(), item);
        }
        if let Some(package) = missing.first() {
            bail!("no catalog has a package {package:?}");
        }
        Ok(plan)
    }

    /// The image that ClusterCatalogs name.
    fn reference(&self, source: &Source) -> anyhow::Result<Reference> {
        match (source, &self.as_image) {
            (_, Some(_)) if self.catalogs.len() > 1 => {
                bail!("--as is for one catalog: run the command for each")
            }
            (_, Some(reference)) if reference.tag().is_none() => bail!("--as {reference}: name a tag"),
            (_, Some(reference)) | (Source::Image(reference), None) => Ok(reference.clone()),
            (_, None) => {
                bail!("{source} is not the image of a registry: name the image that it becomes with --as")
            }
        }
    }

    /// The catalog: as it is, or with these packages only.
    async fn catalog(
        &self,
        source: &Source,
        reference: Reference,
        packages: &[String],
    ) -> anyhow::Result<Item> {
        if packages.is_empty() && matches!(source, Source::Image(image) if *image == reference) {
            return Ok(Item::catalog(reference, None));
        }
        let tree = self.registries.catalog(source, self.catalog_ca.as_deref()).await?.tree;
        let folder = tempfile::tempdir().context("creating a folder for the catalog")?;
        let target = folder.path().join("catalog");
        let names = if packages.is_empty() {
            read::read(&tree)?.packages.iter().map(|package| package.name.clone()).collect()
        } else {
            packages.to_vec()
        };
        for note in filtered(&tree, &names, &target)? {
            output::warning(&format!("{}: {}", note.package, note.message));
        }
        let image = catalog_image(&target)?;
        let reference = match reference.digest() {
            None => reference,
            // It has another digest than the whole catalog.
            Some(_) => Reference::parse(&reference.at(image.digest().clone()).to_string())?,
        };
        Ok(Item::catalog(reference, Some(image)))
    }
}

impl Plan {
    fn add(&mut self, image: &str, bundles: BTreeSet<String>) {
        match Reference::familiar(image) {
            Ok(reference) => {
                let item = self.items.entry(reference.to_string());
                item.or_insert_with(|| Item::image(reference)).bundles.extend(bundles);
            }
            Err(error) => {
                let failed = || Copied::failed(image.to_owned(), error.to_string());
                self.invalid.entry(image.to_owned()).or_insert_with(failed).bundles.extend(bundles);
            }
        }
    }
}

/// Everything in a layout, by the names that an earlier command gave.
fn of_layout(folder: &Path) -> anyhow::Result<(Puller, Plan)> {
    let layout = LayoutRegistry::open(folder)?;
    let mut plan = Plan::default();
    for (name, image) in layout.images() {
        let named =
            name.and_then(|name| Reference::parse(name.strip_prefix(copying::CATALOG).unwrap_or(name)).ok());
        let (Some(name), Some(reference)) = (name, named) else {
            bail!(
                "{}: an image has no name that is a reference: it was not written by --layout",
                folder.display()
            );
        };
        if name.starts_with(copying::CATALOG) {
            plan.catalogs.push(reference.clone());
        }
        plan.items.insert(name.to_owned(), Item::in_layout(reference, name, image));
    }
    let puller = Puller::with_registry(PullerConfig::new(std::env::temp_dir()), Arc::new(layout));
    Ok((puller, plan))
}

impl Report {
    fn text(&self) -> String {
        let mut rows = vec![["IMAGE", "MIRROR", "SIZE"].map(str::to_owned)];
        let done = self.images.iter().filter(|image| image.error.is_none());
        rows.extend(done.map(|image| [image.image.clone(), image.mirror.clone(), size(image.bytes)]));
        let mut text = columns(&rows);
        for image in &self.images {
            let Some(error) = &image.error else { continue };
            let of = match image.bundles.first() {
                Some(first) if image.bundles.len() > 1 => {
                    format!(" (of {first} and {} more)", image.bundles.len() - 1)
                }
                Some(first) => format!(" (of {first})"),
                None => String::new(),
            };
            // Writing to a String cannot fail.
            let _ = writeln!(text, "failed: {}{of}: {}", one_line(&image.image), one_line(error));
        }
        let count = self.images.len() - self.failed;
        let sizes = if self.dry_run {
            format!("would be copied, {}", size(self.bytes))
        } else {
            format!(
                "copied, {} of them new: {} of {}",
                counted(self.number_of_new(), "image"),
                size(self.new_bytes),
                size(self.bytes)
            )
        };
        let _ = write!(text, "{} {sizes}", counted(count, "image"));
        if let Some(folder) = &self.results {
            let folder = folder.display();
            let _ = write!(
                text,
                "\nwrote {folder}/registries.conf to mount in the controllers and to put on the nodes\nwrote {folder}/catalogs.yaml to apply with kubectl"
            );
        }
        text
    }

    fn number_of_new(&self) -> usize {
        self.images.iter().filter(|image| image.new_bytes > 0).count()
    }
}

/// A number of bytes, for people.
fn size(bytes: u64) -> String {
    let tenths = bytes / 100_000;
    format!("{}.{} MB", tenths / 10, tenths % 10)
}
