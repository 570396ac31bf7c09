//! The table of commands.

use std::io::Write;

use clap::Subcommand;

use crate::{bundle, catalog, crd, diff, resolve, status};

/// What `olm` can do: one line a group of commands.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Works with catalogs.
    #[command(subcommand)]
    Catalog(catalog::Catalog),
    /// Works with bundles.
    #[command(subcommand)]
    Bundle(bundle::Bundle),
    /// Says which bundle an extension would get from catalogs, and why; no cluster is needed.
    #[command(after_help = resolve::HELP)]
    Resolve(resolve::Resolve),
    /// Shows which extensions run on a cluster, what is pending, and why.
    #[command(after_help = status::HELP)]
    Status(status::StatusCommand),
    /// Shows what the next revision of an extension would do to a cluster.
    #[command(after_help = diff::HELP)]
    Diff(diff::Diff),
    /// Works with CustomResourceDefinitions.
    #[command(subcommand)]
    Crd(crd::Crd),
}

impl Command {
    pub(crate) async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        match self {
            Self::Catalog(command) => command.run(out).await,
            Self::Bundle(command) => command.run(out).await,
            Self::Resolve(command) => command.run(out).await,
            Self::Status(command) => command.run(out).await,
            Self::Diff(command) => command.run(out).await,
            Self::Crd(command) => command.run(out).await,
        }
    }
}
