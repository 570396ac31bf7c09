//! How the commands for catalogs read one: which source, with which registries, how much of it is kept.

use std::path::PathBuf;

use anyhow::{Context as _, anyhow};
use clap::Args;
use olm_image::image_syntax;
use olm_opm::{Outline, outline};

use crate::sources::{Opened, Registries, Source, Tree, bundles, named};

/// A catalog that is read.
#[derive(Debug, Args)]
pub(crate) struct Catalog {
    /// Folder, file, OCI image layout (oci:FOLDER[:NAME]), image, or address (https://host/catalogs/name) of the catalog;
    /// - for standard input
    #[arg(value_name = "CATALOG")]
    pub(crate) source: Source,
    #[command(flatten)]
    reading: Reading,
}

/// How catalogs are reached.
#[derive(Debug, Args)]
pub(crate) struct Reading {
    /// CA certificate (PEM file) to trust for a catalog that is read over HTTPS
    #[arg(long, value_name = "FILE")]
    catalog_ca: Option<PathBuf>,
    #[command(flatten)]
    registries: Registries,
}

impl Reading {
    /// Opens a catalog.
    pub(crate) async fn open(&self, source: &Source) -> anyhow::Result<Opened> {
        self.registries.catalog(source, self.catalog_ca.as_deref()).await
    }
}

impl Catalog {
    /// Opens the catalog.
    pub(crate) async fn open(&self) -> anyhow::Result<Opened> {
        self.reading.open(&self.source).await
    }

    /// The files and the outline of the catalog. The catalog may be invalid.
    pub(crate) async fn outline(&self) -> anyhow::Result<(Tree, Outline)> {
        let files = self.open().await?.tree;
        let outline = read(&files).with_context(|| self.source.to_string())?;
        Ok((files, outline))
    }
}

/// The outline of the catalog in these files.
///
/// # Errors
/// A file is not part of a catalog. Where that is because the files are those of bundles, it says so.
pub(crate) fn read(files: &Tree) -> anyhow::Result<Outline> {
    outline(files, image_syntax).map_err(|error| match bundles(files).as_slice() {
        [] => error.into(),
        [""] => anyhow!("this is a bundle, not a catalog: use \"olm bundle validate\""),
        all => anyhow!(
            "this is not a catalog, it has bundles in it ({}): use \"olm bundle validate\" with one of them, or leave them out with .indexignore",
            named(all)
        ),
    })
}
