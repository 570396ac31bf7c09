//! `olm catalog init`: the first document of a package.

mod icon;

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use clap::Args;
use olm_fbc::SCHEMA_PACKAGE;
use olm_object::names::is_subdomain;
use olm_opm::{Documents, Form};
use serde_json::json;

use super::form::form;
use crate::{output, sources::read_limited};

/// Largest description or icon in bytes. Icons of published packages have up to 1 MB.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// The help text below the options.
pub(crate) const HELP: &str = "Examples:
  olm catalog init argocd-operator -c stable -d README.md -i icon.svg > catalog/argocd-operator/catalog.json";

/// `olm catalog init`
#[derive(Debug, Args)]
pub(crate) struct Init {
    /// Name of the package
    #[arg(value_name = "PACKAGE")]
    name: String,
    /// Channel for users who choose none
    #[arg(short = 'c', long, value_name = "CHANNEL", default_value = "")]
    default_channel: String,
    /// File with the description, Markdown by convention
    #[arg(short, long, value_name = "FILE")]
    description: Option<PathBuf>,
    /// File with the icon: PNG, JPEG, GIF, SVG or another image format
    #[arg(short, long, value_name = "FILE")]
    icon: Option<PathBuf>,
    /// Format of the document
    #[arg(short, long, value_parser = form(), default_value = "json")]
    output: Form,
}

impl Init {
    pub(crate) fn run(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        if self.name.is_empty() {
            bail!("the name of the package is empty");
        }
        let mut package =
            json!({"schema": SCHEMA_PACKAGE, "name": self.name, "defaultChannel": self.default_channel});
        if let Some(path) = &self.description {
            let text = String::from_utf8(read_limited(path, FILE_BYTES_MAX)?);
            package["description"] = text.with_context(|| path.display().to_string())?.into();
        }
        if let Some(path) = &self.icon {
            package["icon"] = icon(path)?;
        }
        let mut documents = Documents::default();
        documents.push_text(&serde_json::to_vec(&package)?)?;
        for text in documents.texts(self.output) {
            out.write_all(text.as_bytes())?;
        }
        self.warn();
        Ok(())
    }

    /// Reports what would be rejected later.
    fn warn(&self) {
        if !is_subdomain(&self.name) {
            output::warning(&format!(
                "package {:?}: extensions cannot ask for a package of this name: use lower-case letters, digits, - and .",
                self.name
            ));
        }
        if self.default_channel.is_empty() {
            output::warning(&format!(
                "package {:?} has no default channel, without which olm catalog validate rejects it: give --default-channel",
                self.name
            ));
        }
    }
}

fn icon(path: &Path) -> anyhow::Result<serde_json::Value> {
    let bytes = read_limited(path, FILE_BYTES_MAX)?;
    match icon::media_type(&bytes) {
        Ok(media_type) => Ok(json!({"base64data": STANDARD.encode(&bytes), "mediatype": media_type})),
        Err(other) => bail!("{}: detected invalid type {other:?}: not an image", path.display()),
    }
}
