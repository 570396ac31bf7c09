//! Commands for catalogs.

mod image_template;
mod migrate;
mod render;
mod rendering;
mod serve;
mod template;

use std::{io::Write, path::PathBuf};

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use olm_image::{Compression, ImageBuilder, PackedImage, folder_layer};

use crate::pack::Destination;

/// The label that names the folder of a catalog image in which the catalog lies, and that folder.
const CATALOG_LABEL: (&str, &str) = ("operators.operatorframework.io.index.configs.v1", "/configs");

/// `olm catalog …`
#[derive(Debug, Subcommand)]
pub(crate) enum Catalog {
    Render(render::Render),
    /// Makes catalogs from templates, and templates from catalogs.
    #[command(subcommand)]
    Template(template::Templates),
    Migrate(migrate::Migrate),
    /// Makes a catalog image from a folder with a file-based catalog.
    Pack(Pack),
    /// Serves a catalog over HTTP as a cluster does: /api/v1/all, /api/v1/metas.
    Serve(serve::Serve),
}

/// `olm catalog pack`
#[derive(Debug, Args)]
pub(crate) struct Pack {
    /// Folder with the catalog; everything in it goes into the image
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
            Self::Pack(pack) => pack.destination.store(&pack.image()?, out).await,
            Self::Serve(serve) => Box::pin(serve.run(out)).await,
        }
    }
}

impl Pack {
    fn image(&self) -> anyhow::Result<PackedImage> {
        let folder = &self.folder;
        let mut entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
        if entries.next().is_none() {
            bail!("{}: the folder is empty: a catalog has at least one file", folder.display());
        }
        let (label, target) = CATALOG_LABEL;
        let layer = folder_layer(folder, target, Compression::Gzip).context("packing the catalog")?;
        Ok(ImageBuilder::new().label(label, target).layer(layer).build())
    }
}
