//! Commands for CustomResourceDefinitions.

mod check;
mod objects;

use std::{collections::BTreeMap, io::Write};

use anyhow::{Context as _, bail};
use clap::Subcommand;
use serde_json::Value;

pub(crate) use check::{Change, Definition, answer, verdict, write_definition};

use crate::sources::{Registries, Source, read_limited};

/// Largest file with definitions in bytes; the largest CRD of a public bundle has 4 MB.
const FILE_BYTES_MAX: u64 = 32 << 20;

/// `olm crd …`
#[derive(Debug, Subcommand)]
pub(crate) enum Crd {
    /// Checks whether new CRDs can replace others without breaking stored objects or clients.
    ///
    /// Exit codes: 0 every change is safe, 1 error, 2 a change is unsafe.
    #[command(
        after_help = "Examples:\n  olm crd check ./bundle-1.0.0 ./bundle-1.1.0\n  olm crd check old.yaml new.yaml --cluster"
    )]
    Check(Box<check::Check>),
}

impl Crd {
    pub(crate) async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        match self {
            Self::Check(check) => check.run(out).await,
        }
    }
}

/// Definitions by name.
pub(crate) type Definitions = BTreeMap<String, Value>;

/// The definitions of a file or of a bundle.
pub(crate) async fn definitions(source: &Source, registries: &Registries) -> anyhow::Result<Definitions> {
    let found = if let Source::File(path) = source {
        let bytes = read_limited(path, FILE_BYTES_MAX)?;
        in_documents(&bytes).with_context(|| path.display().to_string())?
    } else {
        named(&registries.bundle(source).await?.crds)?
    };
    if found.is_empty() {
        bail!("{source}: contains no CustomResourceDefinition of apiextensions.k8s.io/v1");
    }
    Ok(found)
}

/// The definitions of v1 among objects, by name.
///
/// # Errors
/// One has no name.
pub(crate) fn named(objects: &[Value]) -> anyhow::Result<Definitions> {
    let definitions = objects.iter().filter(|object| {
        object["kind"] == "CustomResourceDefinition" && object["apiVersion"] == "apiextensions.k8s.io/v1"
    });
    let by_name = definitions.map(|definition| {
        let name = definition["metadata"]["name"].as_str().filter(|name| !name.is_empty());
        let name = name.context("a CustomResourceDefinition has no name")?;
        Ok((name.to_owned(), definition.clone()))
    });
    by_name.collect()
}

fn in_documents(bytes: &[u8]) -> anyhow::Result<Definitions> {
    let mut objects = Vec::new();
    for document in olm_yaml::mixed(olm_yaml::text(bytes)?) {
        let document = document?;
        match document["items"].as_array() {
            Some(items) => objects.extend(items.iter().cloned()),
            None => objects.push(document),
        }
    }
    named(&objects)
}
