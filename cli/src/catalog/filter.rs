//! `olm catalog filter`: a smaller catalog, and what it takes away from those who use it.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use clap::Args;
use olm_opm::{Documents, Form, Note, Part, Selection, WriteError, each_document};
use serde::Serialize;

use super::{
    folder::NewFolder,
    form::form,
    read::{self, Catalog},
};
use crate::{
    output::{self, Format, counted},
    sources::Tree,
};

/// `olm catalog filter`
#[derive(Debug, Args)]
pub(crate) struct Filter {
    #[command(flatten)]
    catalog: Catalog,
    /// Folder to write, with a folder for each package; it must be empty or absent
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// Keep this package with all its channels; may be repeated, or several with commas between them
    #[arg(short, long, value_name = "PACKAGE", value_delimiter = ',', required_unless_present = "channel")]
    package: Vec<String>,
    /// Keep this channel, and of its package only such channels; may be repeated, or several with commas
    #[arg(short, long, value_name = "PACKAGE/CHANNEL", value_delimiter = ',')]
    channel: Vec<String>,
    /// Default channel for a package that loses its own; may be repeated
    #[arg(long, value_name = "PACKAGE/CHANNEL", value_delimiter = ',')]
    default_channel: Vec<String>,
    /// Format of the catalog
    #[arg(short, long, value_parser = form(), default_value = "json")]
    output: Form,
    /// Format of the report
    #[arg(long, value_enum, default_value_t)]
    report: Format,
}

/// The written catalog, and the impact on its users.
#[derive(Debug, Serialize)]
struct Filtered<'p> {
    folder: String,
    packages: Vec<String>,
    documents: usize,
    notes: &'p [Note],
}

impl Filter {
    pub(crate) async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let selection = self.selection()?;
        let (files, outline) = self.catalog.outline().await?;
        let part = selection.of(&outline).with_context(|| self.catalog.source.to_string())?;
        drop(outline);
        let documents = take(&files, &part).with_context(|| self.catalog.source.to_string())?;
        NewFolder::create(&self.folder)?.write_catalog(&documents, self.output)?;
        let filtered = Filtered {
            folder: self.folder.display().to_string(),
            packages: documents.packages().map(str::to_owned).collect(),
            documents: documents.len(),
            notes: &part.notes,
        };
        output::answer(out, self.report, &filtered, |filtered| {
            let notes = filtered.notes.iter().map(|note| format!("{}: {}", note.package, note.message));
            let done = format!(
                "{}: {}, {}",
                filtered.folder,
                counted(filtered.packages.len(), "package"),
                counted(filtered.documents, "document")
            );
            notes.chain([done]).collect::<Vec<_>>().join("\n")
        })
    }

    fn selection(&self) -> anyhow::Result<Selection> {
        let mut channels: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for argument in &self.channel {
            let (package, channel) = split("--channel", argument)?;
            channels.entry(package).or_default().insert(channel);
        }
        let defaults = self.default_channel.iter().map(|argument| split("--default-channel", argument));
        Ok(Selection {
            packages: self.package.iter().cloned().collect(),
            channels,
            default_channels: defaults.collect::<Result<_, _>>()?,
        })
    }
}

/// Writes these packages of a catalog into a folder, and answers what that breaks.
pub(super) fn filtered(files: &Tree, packages: &[String], folder: &Path) -> anyhow::Result<Vec<Note>> {
    let selection = Selection { packages: packages.iter().cloned().collect(), ..Selection::default() };
    let part = selection.of(&read::read(files)?)?;
    NewFolder::create(folder)?.write_catalog(&take(files, &part)?, Form::Json)?;
    Ok(part.notes)
}

fn take(files: &Tree, part: &Part) -> Result<Documents, WriteError> {
    let mut documents = Documents::default();
    each_document::<WriteError>(files, &mut |_, meta| part.take(meta, &mut documents))?;
    Ok(documents)
}

fn split(flag: &str, argument: &str) -> anyhow::Result<(String, String)> {
    match argument.split_once('/') {
        Some((package, channel)) if !package.is_empty() && !channel.is_empty() => {
            Ok((package.to_owned(), channel.to_owned()))
        }
        _ => bail!("{flag} {argument:?}: name package and channel as PACKAGE/CHANNEL"),
    }
}
