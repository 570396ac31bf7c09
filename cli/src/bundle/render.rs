//! `olm bundle render`: the objects that installing a bundle would apply.

use std::io::Write;

use anyhow::Context as _;
use clap::Args;

use super::rendering::Rendering;
use crate::{
    output::{self, ManifestFormat},
    sources::{Registries, Source},
};

/// `olm bundle render`
#[derive(Debug, Args)]
pub(crate) struct Render {
    /// The bundle: a folder, an OCI image layout (oci:FOLDER[:NAME]) or an image
    #[arg(value_name = "BUNDLE")]
    bundle: Source,
    #[command(flatten)]
    rendering: Rendering,
    /// Format of the objects
    #[arg(short, long, value_enum, default_value_t)]
    output: ManifestFormat,
    #[command(flatten)]
    registries: Registries,
}

impl Render {
    pub(crate) async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let options = self.rendering.options()?;
        let bundle = self.registries.bundle(&self.bundle).await?;
        let rendered = olm_render::render(bundle, &options).with_context(|| self.bundle.to_string())?;
        output::manifests(out, self.output, &rendered.objects)
    }
}
