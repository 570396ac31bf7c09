//! `olm catalog diff`: what a newer state of a catalog changes.

use std::io::Write;

use anyhow::Context as _;
use clap::Args;
use olm_opm::{CatalogDifference, Outline};

use super::read::read;
use crate::{
    output::{self, Differs, Format, counted},
    sources::{Registries, Source},
};

/// The help text below the options.
pub(crate) const HELP: &str = "A version is stranded if it had an upgrade in the old catalog and has none in the new one, although newer versions exist.
The catalogs need not be valid.

Exit codes: 0 the catalogs are the same, 1 error, 2 they differ; with --stranded: 2 only if a version is stranded.

Examples:
  olm catalog diff quay.io/operatorhubio/catalog:latest ./catalog
  olm catalog diff old.json new.json --package argocd-operator --stranded";

/// `olm catalog diff`
#[derive(Debug, Args)]
pub(crate) struct Diff {
    /// The old catalog: folder, file, OCI image layout (oci:FOLDER[:NAME]) or image
    old: Source,
    /// The new catalog
    new: Source,
    /// Compare only this package; may be repeated
    #[arg(short, long = "package", value_name = "PACKAGE")]
    packages: Vec<String>,
    /// Report only versions that are stranded
    #[arg(long)]
    stranded: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
    #[command(flatten)]
    registries: Registries,
}

impl Diff {
    pub(crate) async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let (old, new) = (self.outline(&self.old).await?, self.outline(&self.new).await?);
        let mut difference = CatalogDifference::of(&old, &new);
        difference.packages.retain(|package| {
            (self.packages.is_empty() || self.packages.contains(&package.package))
                && (!self.stranded || !package.stranded.is_empty())
        });
        output::answer(out, self.output, &difference, |difference| self.text(difference))?;
        if difference.packages.is_empty() { Ok(()) } else { Err(Differs.into()) }
    }

    async fn outline(&self, source: &Source) -> anyhow::Result<Outline> {
        let opened = self.registries.catalog(source, None).await?;
        read(&opened.tree).with_context(|| source.to_string())
    }

    fn text(&self, difference: &CatalogDifference) -> String {
        let mut lines: Vec<String> = if self.stranded {
            let all = difference.packages.iter();
            all.flat_map(|package| {
                package.stranded.iter().map(|bundle| format!("{}: {bundle} is stranded", package.package))
            })
            .collect()
        } else {
            difference.packages.iter().map(ToString::to_string).collect()
        };
        lines.push(match (difference.packages.len(), difference.stranded()) {
            (0, _) if self.stranded => "No version is stranded.".to_owned(),
            (0, _) => "The catalogs are the same.".to_owned(),
            (packages, 0) => format!("{} differ, no version is stranded.", counted(packages, "package")),
            (packages, stranded) => {
                format!("{} differ, {} stranded.", counted(packages, "package"), counted(stranded, "version"))
            }
        });
        lines.join("\n")
    }
}
