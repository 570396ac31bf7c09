//! `olm catalog migrate`: writes a catalog in its newer form, a folder a package.
//!
//! The folder comes to be as a whole or not at all.

use std::{io::Write, path::PathBuf};

use anyhow::Context as _;
use clap::Args;
use olm_opm::Form;

use crate::{
    catalog::{
        folder::NewFolder,
        form::form,
        rendering::{Allowed, Migrations, Renderer},
    },
    progress::Bar,
    sources::Registries,
};

/// `olm catalog migrate`
#[derive(Debug, Args)]
#[command(
    about = "Writes a catalog, migrated to a newer form, into a folder with a sub-folder for each package",
    long_about = "Writes a catalog into a folder: PACKAGE/catalog.json (or .yaml) for each package, catalog.json for \
                  documents without a package, migrated up to the requested level.\n\n\
                  The folder must be empty or absent. It is written completely or not at all.\n\n\
                  Exit code 0 if the folder was written, 1 if not.",
    after_help = "Examples:\n  olm catalog migrate quay.io/operatorhubio/catalog:latest ./catalog\n  olm catalog migrate ./catalog ./new --level all -o yaml"
)]
pub(crate) struct Migrate {
    /// Catalog: a folder, an OCI image layout (oci:FOLDER[:NAME]) or an image
    #[arg(value_name = "REF")]
    reference: String,
    /// Folder to write, empty or absent
    #[arg(value_name = "OUTDIR")]
    folder: PathBuf,
    /// Format of the files
    #[arg(short, long, value_parser = form(), default_value = "json")]
    output: Form,
    #[command(flatten)]
    migrations: Migrations,
    #[command(flatten)]
    registries: Registries,
}

impl Migrate {
    pub(crate) async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let folder = NewFolder::create(&self.folder)?;
        let renderer = Renderer {
            registries: self.registries,
            authority: None,
            allowed: Allowed::Catalogs,
            level: self.migrations.migrate_level,
            image: None,
            bar: Bar::new("migrating", 1),
        };
        let documents = renderer.documents(&[self.reference]).await.context("render catalog image")?;
        drop(renderer);
        folder.write_catalog(&documents, self.output)?;
        let target = self.folder.display().to_string();
        writeln!(out, "{} documents written to {}", documents.len(), olm_text::one_line(&target))?;
        Ok(())
    }
}
