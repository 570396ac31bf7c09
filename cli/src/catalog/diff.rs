//! `olm catalog diff`: what a newer state of a catalog changes.

use std::io::Write;

use anyhow::Context as _;
use clap::Args;
use olm_opm::{CatalogDifference, Outline};

use super::read::{Reading, read};
use crate::{
    output::{self, Differs, Format, counted},
    sources::Source,
};

/// The help text below the options.
pub(crate) const HELP: &str = "A version loses its upgrade path if it had an upgrade in the old catalog and has none in the new one, although newer versions exist.
The catalogs need not be valid.

Exit codes: 0 the catalogs are the same, 1 error, 2 they differ; with --stranded: 2 only if a version loses its upgrade path.

Examples:
  olm catalog diff quay.io/operatorhubio/catalog:latest ./catalog
  olm catalog diff old.json new.json --package argocd-operator --stranded";

/// `olm catalog diff`
#[derive(Debug, Args)]
pub(crate) struct Diff {
    /// The old catalog: folder, file, OCI image layout (oci:FOLDER[:NAME]), image or address
    old: Source,
    /// The new catalog
    new: Source,
    /// Compare only this package; may be repeated
    #[arg(short, long = "package", value_name = "PACKAGE")]
    packages: Vec<String>,
    /// Report only versions that lose their upgrade path
    #[arg(long)]
    stranded: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
    #[command(flatten)]
    reading: Reading,
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
        let opened = self.reading.open(source).await?;
        read(&opened.tree).with_context(|| source.to_string())
    }

    fn text(&self, difference: &CatalogDifference) -> String {
        let mut lines: Vec<String> = if self.stranded {
            let all = difference.packages.iter();
            all.flat_map(|package| {
                package
                    .stranded
                    .iter()
                    .map(|bundle| format!("{}: {bundle} loses its upgrade path", package.package))
            })
            .collect()
        } else {
            difference.packages.iter().map(ToString::to_string).collect()
        };
        lines.push(match (difference.packages.len(), difference.stranded()) {
            (0, _) if self.stranded => "No version loses its upgrade path.".to_owned(),
            (0, _) => "The catalogs are the same.".to_owned(),
            (packages, 0) => {
                format!("{} differ, no version loses its upgrade path.", counted(packages, "package"))
            }
            (packages, stranded) => {
                let versions = counted(stranded, "version");
                format!("{} differ. Upgrade paths lost: {versions}.", counted(packages, "package"))
            }
        });
        lines.join("\n")
    }
}
