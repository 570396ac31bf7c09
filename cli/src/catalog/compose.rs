//! `olm catalog compose`: one catalog of those of several operators, as a file lists them.

use std::{
    collections::BTreeMap,
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use clap::Args;
use olm_opm::{Documents, Form, WriteError, each_document};
use serde::{Deserialize, Serialize};

use super::{
    folder::{NewFolder, single_name},
    form::form,
};
use crate::{
    output::{self, Format, counted},
    sources::{Opened, Registries, Source, read_limited},
};

/// Largest list of references in bytes.
const CONFIG_BYTES_MAX: u64 = 1 << 20;

/// `olm catalog compose`
#[derive(Debug, Args)]
pub(crate) struct Compose {
    /// File that lists the catalogs: name, repo, tag, and references with name and image each
    config: PathBuf,
    /// Folder to write, with a folder for each reference; it must be empty or absent. Default: the name in the file
    folder: Option<PathBuf>,
    /// Format of the catalog
    #[arg(short, long, value_parser = form(), default_value = "json")]
    output: Form,
    /// Format of the report
    #[arg(long, value_enum, default_value_t)]
    report: Format,
    #[command(flatten)]
    registries: Registries,
}

/// The file that lists the catalogs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    name: Option<String>,
    repo: Option<String>,
    tag: Option<String>,
    references: Vec<Entry>,
}

/// One of the catalogs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    image: String,
}

/// The written catalog.
#[derive(Debug, Serialize)]
struct Composed {
    folder: String,
    /// The image that the file names for the catalog.
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<String>,
    references: Vec<Part>,
}

#[derive(Debug, Serialize)]
struct Part {
    name: String,
    image: String,
    /// The same with the digest it had.
    #[serde(skip_serializing_if = "Option::is_none")]
    resolved: Option<String>,
    packages: Vec<String>,
}

impl Compose {
    pub(crate) async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let config = read_config(&self.config).with_context(|| self.config.display().to_string())?;
        let target = match (&self.folder, &config.name) {
            (Some(folder), _) => folder.clone(),
            (None, Some(name)) if single_name(name) => PathBuf::from(name),
            (None, _) => {
                bail!(
                    "{}: name is missing or not a valid folder name: pass the folder as an argument",
                    self.config.display()
                )
            }
        };
        let folder = NewFolder::create(&target)?;
        let mut owners: BTreeMap<String, String> = BTreeMap::new();
        let mut references = Vec::new();
        for entry in config.references {
            let of_entry = || format!("reference {:?}: {}", entry.name, entry.image);
            let (opened, documents) = self.documents(&entry).await.with_context(of_entry)?;
            let packages: Vec<String> = documents.packages().map(str::to_owned).collect();
            for package in &packages {
                if let Some(owner) = owners.insert(package.clone(), entry.name.clone()) {
                    bail!("package {package:?} is in the catalogs of both {owner:?} and {:?}", entry.name);
                }
            }
            let text: String = documents.texts(self.output).collect();
            folder
                .write(&Path::new(&entry.name).join(format!("index.{}", self.output.extension())), &text)?;
            let resolved = opened.image.map(|image| image.to_string());
            references.push(Part { name: entry.name, image: entry.image, resolved, packages });
        }
        folder.finish()?;
        let image = config.repo.map(|repo| match config.tag {
            Some(tag) => format!("{repo}:{tag}"),
            None => repo,
        });
        let composed = Composed { folder: target.display().to_string(), image, references };
        output::answer(out, self.report, &composed, Composed::text)
    }

    /// The documents of one of the catalogs.
    async fn documents(&self, entry: &Entry) -> anyhow::Result<(Opened, Documents)> {
        let beside = self.config.parent().unwrap_or(Path::new("")).join(&entry.image);
        let source = if beside.is_dir() {
            beside.display().to_string().parse::<Source>()?
        } else {
            entry.image.parse::<Source>()?
        };
        let opened = self.registries.catalog(&source, None).await?;
        let mut documents = Documents::default();
        each_document::<WriteError>(&opened.tree, &mut |_, meta| documents.push(meta))?;
        if documents.is_empty() {
            bail!("the catalog is empty");
        }
        Ok((opened, documents))
    }
}

impl Composed {
    fn text(&self) -> String {
        let mut lines: Vec<String> = self
            .references
            .iter()
            .map(|part| {
                let image = part.resolved.as_ref().unwrap_or(&part.image);
                format!("{}: {} from {image}", part.name, part.packages.join(", "))
            })
            .collect();
        let image = self.image.as_ref().map(|image| format!(", for {image}")).unwrap_or_default();
        lines.push(format!("{}: {}{image}", self.folder, counted(self.references.len(), "catalog")));
        lines.join("\n")
    }
}

fn read_config(path: &Path) -> anyhow::Result<Config> {
    let bytes = read_limited(path, CONFIG_BYTES_MAX)?;
    let config: Config = serde_json::from_value(olm_yaml::one(olm_yaml::text(&bytes)?)?)?;
    if config.references.is_empty() {
        bail!("references: the list is empty: add name and image of each catalog");
    }
    let mut seen = std::collections::BTreeSet::new();
    for (index, entry) in config.references.iter().enumerate() {
        if !single_name(&entry.name) || entry.name.starts_with('.') {
            bail!("references[{index}].name: {:?} is not a valid folder name", entry.name);
        }
        if !seen.insert(entry.name.to_lowercase()) {
            bail!("references[{index}].name: {:?} is used twice, perhaps in another case", entry.name);
        }
    }
    Ok(config)
}
