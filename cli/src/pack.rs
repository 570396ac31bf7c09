//! Where packed images go: a registry, an OCI image layout, or both. Shared by the commands that pack.

use std::{io::Write, path::PathBuf};

use anyhow::Context as _;
use clap::{ArgGroup, Args};
use olm_image::{PackedImage, Reference};
use serde::Serialize;

use crate::{
    output::{self, Format},
    sources::Registries,
};

/// Where to put a packed image: one place or both.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("place").required(true).multiple(true))]
pub(crate) struct Destination {
    /// Push to this reference, such as quay.io/example/catalog:v1
    #[arg(long, value_name = "REFERENCE", group = "place")]
    push: Option<Reference>,
    /// Write an OCI image layout into this folder
    #[arg(long, value_name = "FOLDER", group = "place")]
    layout: Option<PathBuf>,
    #[command(flatten)]
    registries: Registries,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// The places of a packed image.
#[derive(Debug, Serialize)]
struct Stored {
    digest: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reference: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    layout: Option<PathBuf>,
}

impl Destination {
    /// Stores the image at all places named, and prints its digest.
    pub(crate) async fn store(&self, image: &PackedImage, out: &mut dyn Write) -> anyhow::Result<()> {
        let mut stored = Stored { digest: image.digest().to_string(), reference: None, layout: None };
        if let Some(folder) = &self.layout {
            let tag = self.push.as_ref().and_then(Reference::tag);
            image.write_layout(folder, tag).context("writing the image layout")?;
            stored.layout = Some(folder.clone());
        }
        if let Some(reference) = &self.push {
            let puller = self.registries.puller()?;
            let pushed =
                image.push(&puller, reference).await.with_context(|| format!("pushing {reference}"))?;
            stored.reference = Some(pushed.to_string());
        }
        output::answer(out, self.output, &stored, |stored| {
            let layout =
                stored.layout.as_ref().map(|folder| format!("{} in {}", stored.digest, folder.display()));
            let lines: Vec<String> = stored.reference.clone().into_iter().chain(layout).collect();
            lines.join("\n")
        })
    }
}
