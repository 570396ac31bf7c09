//! Commands for CustomResourceDefinitions.

mod check;
mod objects;

use std::{collections::BTreeMap, io::Write};

use anyhow::{Context as _, bail};
use clap::Subcommand;
use olm_render::BundleFiles;
use serde_json::Value;

pub(crate) use check::{Change, Definition, answer, write_definition};

use crate::sources::{Registries, Source, read_limited};

/// Largest file with definitions in bytes; the largest CRD of a public bundle has 4 MB.
const FILE_BYTES_MAX: u64 = 32 << 20;

/// `olm crd …`
#[derive(Debug, Subcommand)]
pub(crate) enum Crd {
    /// Says whether definitions can replace others without harm to stored objects and clients.
    ///
    /// Exit code 0: every change is safe. 1: something is unsafe. 2: the question could not be answered.
    Check(Box<check::Check>),
}

impl Crd {
    pub(crate) async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        match self {
            Self::Check(check) => check.run(out).await,
        }
    }
}

/// The definitions of a file or of a bundle, by name.
pub(crate) async fn definitions(
    source: &Source,
    registries: &Registries,
) -> anyhow::Result<BTreeMap<String, Value>> {
    let found = if let Source::File(path) = source {
        let bytes = read_limited(path, FILE_BYTES_MAX)?;
        in_documents(&bytes).with_context(|| path.display().to_string())?
    } else {
        let (files, _) = registries.bundle(source).await?;
        in_bundle(&files)?
    };
    if found.is_empty() {
        bail!("{source}: there is no CustomResourceDefinition of apiextensions.k8s.io/v1 in it");
    }
    Ok(found)
}

/// The definitions among the manifests of a bundle, by name.
pub(crate) fn in_bundle(files: &BundleFiles) -> anyhow::Result<BTreeMap<String, Value>> {
    let mut found = BTreeMap::new();
    for (path, bytes) in files.iter().filter(|(path, _)| path.starts_with("manifests/")) {
        found.extend(in_documents(bytes).with_context(|| path.to_owned())?);
    }
    Ok(found)
}

fn in_documents(bytes: &[u8]) -> anyhow::Result<BTreeMap<String, Value>> {
    let mut found = BTreeMap::new();
    for document in olm_yaml::mixed(olm_yaml::text(bytes)?) {
        let document = document?;
        let objects = match document.get("items") {
            Some(Value::Array(items)) => items.clone(),
            _ => vec![document],
        };
        for object in objects {
            if object["kind"] == "CustomResourceDefinition"
                && object["apiVersion"] == "apiextensions.k8s.io/v1"
            {
                let name =
                    object["metadata"]["name"].as_str().context("a CustomResourceDefinition has no name")?;
                found.insert(name.to_owned(), object);
            }
        }
    }
    Ok(found)
}
