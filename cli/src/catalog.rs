//! Commands for catalogs.

mod compose;
mod diff;
mod dockerfile;
mod filter;
mod folder;
mod form;
mod graph;
mod image_template;
mod images;
mod init;
mod list;
mod migrate;
mod mirror;
mod path;
mod read;
mod render;
mod rendering;
mod serve;
mod template;
mod validate;

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use catalogd::CONFIGS_LABEL;
use clap::{Args, Subcommand};
use olm_image::{Compression, ImageBuilder, PackedImage, folder_layer};

use crate::pack::Destination;

/// The folder of a catalog image with the catalog.
const CONFIGS: &str = "/configs";

/// `olm catalog …`: first those that read catalogs, then those that make, cut and publish them.
#[derive(Debug, Subcommand)]
pub(crate) enum Catalog {
    /// Lists packages, channels or bundles of a catalog.
    ///
    /// Invalid packages are left out, with a warning for each on standard error. If --package names one, that is an
    /// error.
    #[command(
        after_help = "Examples:\n  olm catalog list packages quay.io/operatorhubio/catalog:latest\n  olm catalog list bundles ./catalog argocd-operator -o wide\n  curl -s https://example.com/catalog.json | olm catalog list channels -"
    )]
    List(Box<list::List>),
    /// Draws the upgrade graphs of a catalog.
    ///
    /// Arrows lead from older bundles to newer ones. The catalog need not be valid.
    #[command(after_help = "Examples:\n  olm catalog graph ./catalog --package argocd-operator")]
    Graph(Box<graph::Graph>),
    /// Plans the upgrades from one version of a package to another.
    #[command(after_help = path::HELP)]
    Path(Box<path::PathCommand>),
    /// Lists every image that packages need, for mirrors and air-gapped clusters.
    #[command(after_help = images::HELP)]
    Images(Box<images::Images>),
    /// Copies catalogs, with every image that their packages need, to a registry or a folder.
    #[command(after_help = mirror::HELP)]
    Mirror(Box<mirror::Mirror>),
    /// Shows what a newer state of a catalog changes, and which versions lose their upgrade path.
    #[command(after_help = diff::HELP)]
    Diff(Box<diff::Diff>),
    /// Checks a catalog by the rules of `opm validate`.
    ///
    /// All findings are listed, those about packages as a tree. Rules that are documented but not enforced give
    /// warnings. An empty catalog is an error, because the path is probably wrong.
    ///
    /// Exit codes: 0 the catalog is valid, 1 it is not, or it cannot be read.
    #[command(
        after_help = "Examples:\n  olm catalog validate ./catalog\n  olm catalog validate ./catalog --strict -o json\n  olm catalog validate ./catalogs/*"
    )]
    Validate(Box<validate::Validate>),
    /// Prints the first document of a package: name, default channel, description and icon.
    #[command(after_help = init::HELP)]
    Init(init::Init),
    Render(render::Render),
    /// Converts templates to catalogs, and catalogs to templates.
    #[command(subcommand)]
    Template(template::Templates),
    Migrate(migrate::Migrate),
    /// Writes a part of a catalog, and reports what breaks.
    ///
    /// Channels stay complete. The report lists bundles that lose their upgrade path, entries that replace a removed
    /// bundle, channels without a single head, unmet dependencies, and deprecations that are left out.
    #[command(
        after_help = "Examples:\n  olm catalog filter quay.io/operatorhubio/catalog:latest ./mine --package argocd-operator\n  olm catalog filter ./catalog ./mine --channel argocd-operator/alpha"
    )]
    Filter(Box<filter::Filter>),
    /// Combines several catalogs, each in a folder of its own.
    ///
    /// The same catalogs give the same bytes. A package in two of them is an error. The folder is written completely
    /// or not at all.
    #[command(after_help = "Examples:\n  olm catalog compose catalogs.yaml ./all")]
    Compose(Box<compose::Compose>),
    /// Writes a Dockerfile for a catalog image, next to the catalog's folder.
    ///
    /// The image is for OLM v1, which only needs the files; with --base-image also for OLM Classic. The file is
    /// FOLDER.Dockerfile; an existing file is not overwritten.
    #[command(
        after_help = "Examples:\n  olm catalog dockerfile ./catalog\n  olm catalog dockerfile ./catalog --base-image quay.io/operator-framework/opm:latest"
    )]
    Dockerfile(dockerfile::Dockerfile),
    /// Packs a folder with a file-based catalog into a catalog image.
    #[command(
        after_help = "Examples:\n  olm catalog pack ./catalog --push quay.io/example/catalog:v1\n  olm catalog pack ./catalog --layout ./image"
    )]
    Pack(Pack),
    /// Serves a catalog over HTTP like a cluster: /api/v1/all, /api/v1/metas.
    Serve(serve::Serve),
}

/// `olm catalog pack`
#[derive(Debug, Args)]
pub(crate) struct Pack {
    /// Folder with the catalog; all its files become part of the image
    folder: PathBuf,
    #[command(flatten)]
    destination: Destination,
}

impl Catalog {
    pub(crate) async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        match self {
            Self::Render(render) => render.run(out).await,
            Self::Template(template) => template.run(out).await,
            Self::Migrate(migrate) => migrate.run(out).await,
            Self::Pack(pack) => pack.destination.store(&catalog_image(&pack.folder)?, out).await,
            Self::Serve(serve) => Box::pin(serve.run(out)).await,
            Self::Validate(command) => command.run(out).await,
            Self::Init(command) => command.run(out),
            Self::Dockerfile(command) => command.run(out),
            Self::List(command) => command.run(out).await,
            Self::Graph(command) => command.run(out).await,
            Self::Diff(command) => command.run(out).await,
            Self::Images(command) => Box::pin(command.run(out)).await,
            Self::Mirror(command) => Box::pin(command.run(out)).await,
            Self::Path(command) => command.run(out).await,
            Self::Filter(command) => command.run(out).await,
            Self::Compose(command) => command.run(out).await,
        }
    }
}

/// The image of the catalog in a folder.
pub(crate) fn catalog_image(folder: &Path) -> anyhow::Result<PackedImage> {
    let mut entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    if entries.next().is_none() {
        bail!("{}: the folder is empty: a catalog has at least one file", folder.display());
    }
    let layer = folder_layer(folder, CONFIGS, Compression::Gzip).context("packing the catalog")?;
    Ok(ImageBuilder::new().label(CONFIGS_LABEL, CONFIGS).layer(layer).build())
}
