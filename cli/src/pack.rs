//! Where packed images go: a registry, an OCI image layout, or both. Shared by the commands that pack.

use std::{io::Write, path::PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;
use olm_image::{Keyring, PackedImage, Puller, PullerConfig, Reference};
use serde::Serialize;

use crate::output::{self, Format};

/// Largest file with credentials in bytes.
const AUTH_FILE_BYTES_MAX: u64 = 4 << 20;

/// Where to put a packed image, and how to talk to the registry.
#[derive(Debug, Args)]
pub(crate) struct Destination {
    /// Push to this reference, such as quay.io/example/catalog:v1
    #[arg(long, value_name = "REFERENCE")]
    push: Option<Reference>,
    /// Write an OCI image layout into this folder
    #[arg(long, value_name = "FOLDER", required_unless_present = "push")]
    layout: Option<PathBuf>,
    /// Do not check the registry's certificate, and allow plain HTTP
    #[arg(long, requires = "push")]
    insecure: bool,
    /// Folder with certificates (*.crt) of registries to trust besides the system's
    #[arg(long, value_name = "FOLDER")]
    cas_dir: Option<PathBuf>,
    /// File with credentials for registries, in the form of docker's config.json
    #[arg(long, value_name = "FILE", env = "REGISTRY_AUTH_FILE")]
    auth_file: Option<PathBuf>,
    /// Registries configuration: insecure, blocked and relocated registries
    #[arg(long, value_name = "FILE", env = "CONTAINERS_REGISTRIES_CONF")]
    registries_conf: Option<PathBuf>,
    /// Form of the answer
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// What became of an image.
#[derive(Debug, Serialize)]
struct Stored {
    digest: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reference: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    layout: Option<PathBuf>,
}

impl Destination {
    /// Stores the image at all places named, and tells its digest.
    pub(crate) async fn store(&self, image: &PackedImage, out: &mut dyn Write) -> anyhow::Result<()> {
        let mut stored = Stored { digest: image.digest().to_string(), reference: None, layout: None };
        if let Some(folder) = &self.layout {
            let tag = self.push.as_ref().and_then(Reference::tag);
            image.write_layout(folder, tag).context("writing the image layout")?;
            stored.layout = Some(folder.clone());
        }
        if let Some(reference) = &self.push {
            let puller = Puller::new(self.settings(reference)?);
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

    fn settings(&self, reference: &Reference) -> anyhow::Result<PullerConfig> {
        let mut config = PullerConfig::new(std::env::temp_dir());
        config.registries_conf.clone_from(&self.registries_conf);
        config.cas_dir.clone_from(&self.cas_dir);
        if self.insecure {
            config.insecure_hosts.insert(reference.repository().domain().to_owned());
        }
        if let Some(path) = &self.auth_file {
            let length = std::fs::metadata(path).with_context(|| path.display().to_string())?.len();
            if length > AUTH_FILE_BYTES_MAX {
                bail!("{}: {length} bytes are too many for a file with credentials", path.display());
            }
            let json = std::fs::read(path).with_context(|| path.display().to_string())?;
            config
                .keyring
                .set(Keyring::from_docker_config(&json).with_context(|| path.display().to_string())?);
        }
        Ok(config)
    }
}
