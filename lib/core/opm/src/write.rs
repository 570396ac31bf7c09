//! Catalogs as text: the order of documents and of their fields, JSON and YAML, as opm writes them.
//!
//! Packages by name; in each the package itself, its channels and bundles by name, documents of other schemas,
//! deprecations; documents without a package last. Fields of the known schemas that opm does not know
//! are left out. Nothing else is lost: what opm drops silently, a document of a known schema without
//! a package, is refused.
//!
//! Source: operator-registry `alpha/declcfg` (writing).

mod pretty;

use std::collections::BTreeMap;

use olm_bundle::typed::Kind;
use olm_fbc::{
    Envelope, FbcError, Meta, MetaReader, SCHEMA_BUNDLE, SCHEMA_CHANNEL, SCHEMA_DEPRECATIONS, SCHEMA_PACKAGE,
};
use olm_go::{
    Quoted,
    json::{self, Html},
};
use serde_json::value::RawValue;
use thiserror::Error;

use crate::{LoadError, encode, structures};

/// The form of a written catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Concatenated objects, indented by four.
    Json,
    /// Documents, each after a line `---`.
    Yaml,
}

impl Form {
    /// What names of files in this form end with.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Yaml => "yaml",
        }
    }
}

/// Why a document cannot be written.
#[derive(Debug, Error)]
pub enum WriteError {
    /// Documents of this schema belong to a package, and this one does not name it in the field for it: schema, name,
    /// field.
    #[error("{} {}: the field {} is missing: it says which package the document belongs to", .0, Quoted(.1), .2)]
    NoPackage(String, String, &'static str),
    /// The document, with this schema and name, is not of the form that its schema has.
    #[error("{} {}: {}", .0, Quoted(.1), .2)]
    Form(String, String, serde_json::Error),
    /// The text is no document.
    #[error(transparent)]
    Document(#[from] FbcError),
    /// The catalog that documents are taken from cannot be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
}

/// The documents of a catalog, in the order in which they are written.
#[derive(Debug, Clone, Default)]
pub struct Documents {
    packages: BTreeMap<String, BTreeMap<Place, String>>,
    rootless: BTreeMap<Place, String>,
    count: usize,
}

/// Position of a document in its package: rank of its schema, name or schema, order of arrival.
type Place = (u8, String, usize);

impl Documents {
    /// Takes a document.
    ///
    /// # Errors
    /// It is of a known schema and does not say to which package it belongs, or has not the form of its schema.
    pub fn push(&mut self, meta: &Meta<'_>) -> Result<(), WriteError> {
        self.push_line(&meta.envelope, meta.line)
    }

    pub(crate) fn push_line(&mut self, envelope: &Envelope<'_>, line: &[u8]) -> Result<(), WriteError> {
        let (schema, name) = (envelope.schema.as_ref(), envelope.name.as_ref());
        let (rank, key) = match schema {
            SCHEMA_PACKAGE => (0, ""),
            SCHEMA_CHANNEL => (1, name),
            SCHEMA_BUNDLE => (2, name),
            SCHEMA_DEPRECATIONS => (4, ""),
            other => (3, other),
        };
        let subject = envelope.subject();
        if subject.is_empty() && rank != 3 {
            let field = if rank == 0 { "name" } else { "package" };
            return Err(WriteError::NoPackage(schema.into(), name.into(), field));
        }
        let text =
            ordered(schema, line).map_err(|source| WriteError::Form(schema.into(), name.into(), source))?;
        let place = (rank, key.to_owned(), self.count);
        self.count += 1;
        if subject.is_empty() {
            self.rootless.insert(place, text);
        } else {
            self.packages.entry(subject.to_owned()).or_default().insert(place, text);
        }
        Ok(())
    }

    /// Takes all documents of a text, JSON or YAML.
    ///
    /// # Errors
    /// The text is no content, or a document cannot be taken.
    pub fn push_text(&mut self, text: &[u8]) -> Result<(), WriteError> {
        let mut reader = MetaReader::new(text);
        while let Some(meta) = reader.next_meta()? {
            self.push(&meta)?;
        }
        Ok(())
    }

    /// How many documents there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Names of the packages, sorted.
    pub fn packages(&self) -> impl Iterator<Item = &str> {
        self.packages.keys().map(String::as_str)
    }

    /// The documents of a package as text.
    pub fn package(&self, name: &str, form: Form) -> String {
        self.packages
            .get(name)
            .into_iter()
            .flat_map(BTreeMap::values)
            .map(|text| document_text(text, form))
            .collect()
    }

    /// The documents that belong to no package, as text.
    pub fn without_package(&self, form: Form) -> String {
        self.rootless.values().map(|text| document_text(text, form)).collect()
    }

    /// All documents, each as text.
    pub fn texts(&self, form: Form) -> impl Iterator<Item = String> {
        let all = self.packages.values().chain([&self.rootless]).flat_map(BTreeMap::values);
        all.map(move |text| document_text(text, form))
    }
}

/// The document in `line` with its fields in the order of its schema; of other schemas as it is.
fn ordered(schema: &str, line: &[u8]) -> Result<String, serde_json::Error> {
    let raw = serde_json::from_slice::<&RawValue>(line)?;
    let kind = structures::document(schema).map_or(Kind::Raw, |(_, kind)| kind);
    let mut out = Vec::with_capacity(line.len());
    encode::write(&mut out, raw.get(), &kind, Html::Kept)?;
    Ok(json::into_raw(out).get().to_owned())
}

/// One document in its final form, which may belong to no catalog; `text` is JSON with its fields in order.
pub fn document_text(text: &str, form: Form) -> String {
    match form {
        Form::Json => pretty::indented(text),
        Form::Yaml => {
            // What was written as JSON a moment ago is read again, so there is no value that would be lost.
            let value = serde_json::from_str(text).unwrap_or_default();
            format!("---\n{}", olm_yaml::to_yaml(&value))
        }
    }
}

#[cfg(test)]
mod tests;
