//! `olm bundle render`: the objects that installing a bundle would apply.

use std::io::Write;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use olm_bundle::{Bundle, MEMORY_BYTES_MAX};

use super::rendering::Rendering;
use crate::{
    output,
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
    /// Form of the objects
    #[arg(short, long, value_enum, default_value_t)]
    output: Form,
    #[command(flatten)]
    registries: Registries,
}

/// The form of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum Form {
    /// YAML documents.
    #[default]
    Yaml,
    /// One JSON list.
    Json,
    /// One object a line.
    Jsonl,
}

impl Render {
    pub(crate) async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let options = self.rendering.options()?;
        let (files, _) = self.registries.bundle(&self.bundle).await?;
        let read = || olm_render::render(Bundle::read(&files, MEMORY_BYTES_MAX)?, &options);
        let rendered = read().with_context(|| self.bundle.to_string())?;
        match self.output {
            Form::Yaml => write!(out, "{}", output::yaml_documents(&rendered.objects))?,
            Form::Json => output::json_list(out, &rendered.objects)?,
            Form::Jsonl => {
                for object in &rendered.objects {
                    serde_json::to_writer(&mut *out, object)?;
                    writeln!(out)?;
                }
            }
        }
        Ok(())
    }
}
