//! `olm catalog render`: prints what references hold as one catalog.

use std::{io::Write, path::PathBuf};

use clap::Args;
use olm_opm::{Form, MigrationLevel};

use crate::{
    catalog::{
        form::form,
        image_template::ImageTemplate,
        rendering::{Allowed, Migrations, Renderer},
    },
    progress::Bar,
    sources::Registries,
};

/// `olm catalog render`
#[derive(Debug, Args)]
#[command(
    about = "Prints catalogs and bundles as one catalog",
    long_about = "Prints the content of the references as one file-based catalog on standard output.\n\n\
                  A reference is a folder with a catalog, a folder with a bundle (it has the sub-folders manifests \
                  and metadata), an OCI image layout, the address of a served catalog, - for a catalog on standard input, or an \
                  image of a catalog or a bundle, as its labels say. \
                  Documents are sorted by package, schema and name. Nothing is validated: see olm catalog validate.\n\n\
                  Exit code 0 if everything was printed, 1 if a reference cannot be rendered (nothing is printed \
                  then).",
    after_help = "Examples:\n  olm catalog render ./catalog ./bundle -o yaml\n  olm catalog render quay.io/operatorhubio/catalog:latest > catalog.json"
)]
pub(crate) struct Render {
    /// Folders, OCI image layouts (oci:FOLDER[:NAME]), images and addresses of catalogs; - for standard input
    #[arg(required = true, value_name = "REF")]
    references: Vec<String>,
    /// Format of the catalog
    #[arg(short, long, value_parser = form(), default_value = "json")]
    output: Form,
    #[command(flatten)]
    migrations: Migrations,
    /// Run all migrations
    #[arg(long, conflicts_with = "migrate_level")]
    migrate: bool,
    /// Image references for bundles in folders and layouts, such as quay.io/x/{{.Package}}:v{{.Version}}; the fields
    /// are .Package, .Name and .Version
    #[arg(long, value_name = "TEMPLATE", alias = "alpha-image-ref-template")]
    image_ref_template: Option<ImageTemplate>,
    /// CA certificate (PEM file) to trust for a catalog that is read over HTTPS
    #[arg(long, value_name = "FILE")]
    catalog_ca: Option<PathBuf>,
    #[command(flatten)]
    registries: Registries,
}

impl Render {
    pub(crate) async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let renderer = Renderer {
            registries: self.registries,
            authority: self.catalog_ca,
            allowed: Allowed::All,
            level: if self.migrate { MigrationLevel::LAST } else { self.migrations.migrate_level },
            image: self.image_ref_template,
            bar: Bar::new("rendering", self.references.len()),
        };
        let documents = renderer.documents(&self.references).await?;
        drop(renderer);
        for text in documents.texts(self.output) {
            out.write_all(text.as_bytes())?;
        }
        Ok(())
    }
}
