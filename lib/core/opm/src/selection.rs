//! A part of a catalog: some packages, or some channels of them.
//!
//! Channels stay whole, so their graphs stay as they were. Losses of those who use the smaller
//! catalog are reported: see [`Note`]. Documents without a package stay.

mod impact;

use std::collections::{BTreeMap, BTreeSet};

use olm_fbc::{Channel, Envelope, Meta, SCHEMA_BUNDLE, SCHEMA_CHANNEL, SCHEMA_DEPRECATIONS, SCHEMA_PACKAGE};
use olm_go::{
    Quoted,
    field::{self, Fields},
};
use serde::Serialize;
use serde_json::{Map, Value};
use thiserror::Error;

use crate::{Documents, Outline, WriteError};

/// The wanted part of a catalog.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Packages with all their channels.
    pub packages: BTreeSet<String>,
    /// Channels by package; the package comes with them.
    pub channels: BTreeMap<String, BTreeSet<String>>,
    /// Default channels by package, where the present one would go.
    pub default_channels: BTreeMap<String, String>,
}

/// Why a part cannot be taken.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SelectionError {
    /// Nothing is named.
    #[error("nothing is selected: name packages or channels")]
    Nothing,
    /// The catalog does not have the package.
    #[error("package {} not found", Quoted(.0))]
    Package(String),
    /// The package does not have the channel, or it is not selected.
    #[error("package {} has no channel {} among those selected", Quoted(.0), Quoted(.1))]
    Channel(String, String),
    /// The package's default channel is removed, and several could take its place.
    #[error("package {} loses its default channel {}: name another one of {}", Quoted(.0), Quoted(.1), .2.join(", "))]
    DefaultChannel(String, String, Vec<String>),
}

/// What a smaller catalog means for those who use it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Note {
    /// Package concerned.
    pub package: String,
    /// What kind of note it is.
    pub kind: NoteKind,
    /// What changes.
    pub message: String,
}

/// Kinds of [`Note`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum NoteKind {
    /// The package has another default channel.
    DefaultChannel,
    /// A bundle that could be updated cannot be any more.
    NoUpgrade,
    /// An entry replaces a bundle that is removed.
    ReplacesGone,
    /// A channel has no head, several, or stranded bundles.
    Graph,
    /// A bundle needs a package that is removed.
    Dependency,
    /// A deprecation of a removed part is left out.
    Deprecation,
}

/// A part of a catalog, found possible.
#[derive(Debug, Clone)]
pub struct Part {
    packages: BTreeMap<String, PackagePart>,
    /// Losses of the catalog's users, sorted by package.
    pub notes: Vec<Note>,
}

#[derive(Debug, Clone, Default)]
struct PackagePart {
    channels: BTreeSet<String>,
    bundles: BTreeSet<String>,
    default_channel: String,
}

impl Selection {
    /// Divides the catalog into removed and remaining parts.
    ///
    /// # Errors
    /// Something selected is not there, or a package would be without default channel.
    pub fn of(&self, outline: &Outline) -> Result<Part, SelectionError> {
        let names: BTreeSet<&String> = self.packages.iter().chain(self.channels.keys()).collect();
        if names.is_empty() {
            return Err(SelectionError::Nothing);
        }
        let mut part = Part { packages: BTreeMap::new(), notes: Vec::new() };
        for name in names {
            let Some(package) = outline.packages.iter().find(|package| package.name == *name) else {
                return Err(SelectionError::Package(name.clone()));
            };
            let channels: Vec<&Channel> =
                outline.channels.iter().filter(|channel| channel.package == *name).collect();
            let mut kept = PackagePart {
                channels: self.channels_of(name, &channels)?,
                default_channel: package.default_channel.clone(),
                ..PackagePart::default()
            };
            let entries = channels.iter().filter(|channel| kept.channels.contains(&channel.name));
            kept.bundles =
                entries.flat_map(|channel| &channel.entries).map(|entry| entry.name.clone()).collect();
            let default_channel = self.default_channel(name, &kept)?;
            if default_channel != kept.default_channel {
                let (after, before) = (Quoted(&default_channel), Quoted(&kept.default_channel));
                part.notes.push(Note {
                    package: name.clone(),
                    kind: NoteKind::DefaultChannel,
                    message: format!("the default channel is {after} instead of {before}"),
                });
                kept.default_channel = default_channel;
            }
            part.packages.insert(name.clone(), kept);
        }
        impact::note_impact(outline, &part.packages, &mut part.notes);
        part.notes.sort();
        Ok(part)
    }

    fn channels_of(&self, package: &str, channels: &[&Channel]) -> Result<BTreeSet<String>, SelectionError> {
        let all: BTreeSet<String> = channels.iter().map(|channel| channel.name.clone()).collect();
        let Some(wanted) = self.channels.get(package).filter(|_| !self.packages.contains(package)) else {
            return Ok(all);
        };
        match wanted.difference(&all).next() {
            Some(missing) => Err(SelectionError::Channel(package.to_owned(), missing.clone())),
            None => Ok(wanted.clone()),
        }
    }

    fn default_channel(&self, package: &str, kept: &PackagePart) -> Result<String, SelectionError> {
        let before = &kept.default_channel;
        match self.default_channels.get(package) {
            Some(wanted) if kept.channels.contains(wanted) => Ok(wanted.clone()),
            Some(wanted) => Err(SelectionError::Channel(package.to_owned(), wanted.clone())),
            None if before.is_empty() || kept.channels.contains(before) => Ok(before.clone()),
            None => {
                let remaining: Vec<String> = kept.channels.iter().cloned().collect();
                let error =
                    |remaining| SelectionError::DefaultChannel(package.to_owned(), before.clone(), remaining);
                <[String; 1]>::try_from(remaining).map(|[only]| only).map_err(error)
            }
        }
    }
}

impl Part {
    /// Takes a document over if it belongs to the part, changed where it names removed parts.
    ///
    /// # Errors
    /// The document cannot be written.
    pub fn take(&self, meta: &Meta<'_>, documents: &mut Documents) -> Result<(), WriteError> {
        let subject = meta.envelope.subject();
        let Some(kept) = self.packages.get(subject) else {
            let rootless = subject.is_empty();
            return if rootless { documents.push(meta) } else { Ok(()) };
        };
        let name = meta.envelope.name.as_ref();
        match meta.envelope.schema.as_ref() {
            SCHEMA_CHANNEL if !kept.channels.contains(name) => Ok(()),
            SCHEMA_BUNDLE if !kept.bundles.contains(name) => Ok(()),
            SCHEMA_PACKAGE | SCHEMA_DEPRECATIONS => match kept.changed(meta)? {
                Some(changed) => documents.push_text(&changed),
                None => documents.push(meta),
            },
            _ => documents.push(meta),
        }
    }
}

impl PackagePart {
    /// The document of a package or its deprecations, if it has to change.
    fn changed(&self, meta: &Meta<'_>) -> Result<Option<Vec<u8>>, WriteError> {
        let Envelope { schema, name, .. } = &meta.envelope;
        let failed = |source| WriteError::Form(schema.to_string(), name.to_string(), source);
        let mut document: Map<String, Value> = serde_json::from_slice(meta.line).map_err(failed)?;
        let fields = Fields::from(&document);
        let (name, value): (_, Value) = if schema == SCHEMA_PACKAGE {
            if fields.text("defaultChannel") == self.default_channel {
                return Ok(None);
            }
            ("defaultChannel", self.default_channel.clone().into())
        } else {
            let entries = fields.list("entries");
            let staying: Vec<Value> = entries.iter().filter(|entry| !self.is_gone(entry)).cloned().collect();
            if staying.len() == entries.len() {
                return Ok(None);
            }
            ("entries", staying.into())
        };
        document.retain(|key, _| !field::names(key, name));
        document.insert(name.into(), value);
        serde_json::to_vec(&document).map(Some).map_err(failed)
    }

    /// Whether an entry of the deprecations is about a removed part.
    fn is_gone(&self, entry: &Value) -> bool {
        let reference = Fields::of(entry).object("reference");
        !self.has(reference.text("schema"), reference.text("name"))
    }

    /// Whether the part has a channel or bundle; other things it always has.
    fn has(&self, schema: &str, name: &str) -> bool {
        match schema {
            SCHEMA_CHANNEL => self.channels.contains(name),
            SCHEMA_BUNDLE => self.bundles.contains(name),
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests;
