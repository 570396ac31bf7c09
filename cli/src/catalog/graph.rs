//! `olm catalog graph`: the upgrade graphs of a catalog, drawn.

use std::io::Write;

use clap::{Args, ValueEnum};
use olm_opm::{UpgradeGraph, View, mermaid, svg};

use super::read::Catalog;
use crate::output;

/// `olm catalog graph`
#[derive(Debug, Args)]
pub(crate) struct Graph {
    #[command(flatten)]
    catalog: Catalog,
    /// Draw only this package; may be repeated, or several with commas between them
    #[arg(short, long, value_name = "PACKAGE", value_delimiter = ',')]
    package: Vec<String>,
    /// Draw only channels of this name; may be repeated, or several with commas between them
    #[arg(short, long, value_name = "CHANNEL", value_delimiter = ',')]
    channel: Vec<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Drawing,
}

/// How graphs are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum Drawing {
    /// Mermaid text, which many web pages render as a flow chart.
    #[default]
    Mermaid,
    /// An SVG picture.
    Svg,
}

impl Graph {
    pub(crate) async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let (_, outline) = self.catalog.outline().await?;
        let view = View { packages: self.package, channels: self.channel };
        let graph = UpgradeGraph::of(&outline, &view)?;
        for ignored in &graph.ignored {
            output::warning(ignored);
        }
        let text = match self.output {
            Drawing::Mermaid => mermaid(&graph),
            Drawing::Svg => svg(&graph),
        };
        out.write_all(text.as_bytes())?;
        Ok(())
    }
}
