//! Templates: short descriptions from which catalogs are made.
//!
//! A template names bundle images; what these are is asked from [`Bundles`], so that everything here
//! is a function of the template and the bundles. [`Template::images`] names beforehand those that will be asked
//! for, each once. The blobs that come out are in no particular order: writing them sorts them.
//!
//! Source: operator-registry `alpha/template`.

mod basic;
mod convert;
mod semver;
mod substitutes;
mod versions;

use std::{error::Error, fmt, str::FromStr};

use olm_bundle::typed::Kind;
use olm_go::field::Fields;
use serde_json::Value;
use thiserror::Error as ThisError;

pub use convert::{to_basic, to_substitutes};

use crate::{
    Blob, BundleBlob, DecodeError, FieldError, decode,
    structures::{BASIC, SEMVER, SUBSTITUTES, TEMPLATE},
};

/// The error of a renderer.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// Gives the blob of a bundle image, migrated as far as it shall be, or why there is none.
pub type Bundles<'a> = &'a dyn Fn(&str) -> Result<BundleBlob, BoxError>;

/// Checks whether blobs make a valid catalog; the error says why not.
pub type Validate<'a> = &'a dyn Fn(&[Blob]) -> Result<(), String>;

/// Which template it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TemplateKind {
    /// A catalog whose bundles are given by their images.
    Basic,
    /// Channels made from the versions of bundles.
    Semver,
    /// A catalog, and bundles that take the place of others in it.
    Substitutes,
}

impl TemplateKind {
    const ALL: [Self; 3] = [Self::Basic, Self::Semver, Self::Substitutes];

    /// The `schema` of the template.
    pub fn schema(self) -> &'static str {
        match self {
            Self::Basic => "olm.template.basic",
            Self::Semver => "olm.semver",
            Self::Substitutes => "olm.template.substitutes",
        }
    }

    fn structure(self) -> Kind {
        Kind::Object(match self {
            Self::Basic => &BASIC,
            Self::Semver => &SEMVER,
            Self::Substitutes => &SUBSTITUTES,
        })
    }
}

impl FromStr for TemplateKind {
    type Err = TemplateError;

    /// The kind with this schema.
    fn from_str(schema: &str) -> Result<Self, TemplateError> {
        let found = Self::ALL.into_iter().find(|kind| kind.schema() == schema);
        found.ok_or_else(|| TemplateError::rule(format_args!("unknown template schema: {schema}")))
    }
}

/// Why a template gives no catalog.
#[derive(Debug, ThisError)]
pub enum TemplateError {
    /// A field has another type.
    #[error("unmarshalling template: {0}")]
    Field(#[from] FieldError),
    /// An entry is no catalog content.
    #[error("entries[{index}]: {source}")]
    Entry {
        /// Position in the list.
        index: usize,
        /// The problem.
        source: DecodeError,
    },
    /// A bundle could not be rendered.
    #[error("render reference {image:?}: {source}")]
    Bundle {
        /// Its reference.
        image: String,
        /// Why not.
        source: BoxError,
    },
    /// It is no template, or breaks a rule of its kind; the text is opm's.
    #[error("{0}")]
    Rule(String),
}

impl TemplateError {
    fn rule(text: impl fmt::Display) -> Self {
        Self::Rule(text.to_string())
    }
}

/// A template, read.
#[derive(Debug)]
pub struct Template(Content);

#[derive(Debug)]
enum Content {
    Basic(basic::Basic),
    Semver(semver::Semver),
    Substitutes(substitutes::Substitutes),
}

impl Template {
    /// Reads a template, of the kind given or of the one its schema names.
    ///
    /// # Errors
    /// It is not one, or its fields have wrong types.
    pub fn read(text: &str, kind: Option<TemplateKind>) -> Result<Self, TemplateError> {
        let document = match olm_yaml::mixed(text).next() {
            Some(document) => document
                .map_err(|error| TemplateError::rule(format_args!("decoding template input: {error}")))?,
            None => Value::Null,
        };
        decode::check(&document, &Kind::Object(&TEMPLATE))?;
        let fields = Fields::of(&document);
        let schema = fields.text("schema");
        let kind = match kind {
            Some(kind) => kind,
            None if schema.is_empty() => {
                return Err(TemplateError::rule("template input missing required 'schema' field"));
            }
            None => schema.parse()?,
        };
        if schema != kind.schema() {
            return Err(match kind {
                TemplateKind::Semver => TemplateError::rule(format_args!(
                    "render: unable to read file: readFile: input file has unknown schema, should be {:?}",
                    kind.schema()
                )),
                _ => TemplateError::rule(format_args!(
                    "template has unknown schema ({schema:?}), should be {:?}",
                    kind.schema()
                )),
            });
        }
        if kind == TemplateKind::Semver
            && let Some((path, known)) = decode::unknown_field(&document, &kind.structure(), "")
        {
            return Err(TemplateError::rule(format_args!(
                "render: unable to read file: unknown field {path:?}; known are {known}"
            )));
        }
        decode::check(&document, &kind.structure())?;
        Ok(Self(match kind {
            TemplateKind::Basic => Content::Basic(basic::Basic::read(fields)?),
            TemplateKind::Semver => Content::Semver(semver::Semver::read(fields)?),
            TemplateKind::Substitutes => Content::Substitutes(substitutes::Substitutes::read(fields)?),
        }))
    }

    /// The bundle images that will be asked for, each once, in the order of the template.
    pub fn images(&self) -> Vec<&str> {
        let all: Vec<&str> = match &self.0 {
            Content::Basic(template) => template.images(),
            Content::Semver(template) => template.images(),
            Content::Substitutes(template) => template.images(),
        };
        let mut unique: Vec<&str> = Vec::new();
        for image in all {
            if !unique.contains(&image) {
                unique.push(image);
            }
        }
        unique
    }

    /// The catalog. Only substitutions are validated, with `validate`.
    ///
    /// # Errors
    /// A bundle cannot be rendered, or a rule of the kind of template is broken.
    pub fn render(&self, bundles: Bundles<'_>, validate: Validate<'_>) -> Result<Vec<Blob>, TemplateError> {
        match &self.0 {
            Content::Basic(template) => template.render(bundles),
            Content::Semver(template) => template.render(bundles),
            Content::Substitutes(template) => template.render(bundles, validate),
        }
    }
}

/// Asks for a bundle.
fn bundle(bundles: Bundles<'_>, image: &str) -> Result<BundleBlob, TemplateError> {
    bundles(image).map_err(|source| TemplateError::Bundle { image: image.to_owned(), source })
}

/// The blobs in the field `entries`.
fn entries(template: Fields<'_>) -> Result<Vec<Blob>, TemplateError> {
    let read =
        |(index, entry)| Blob::of_value(entry).map_err(|source| TemplateError::Entry { index, source });
    template.list("entries").iter().enumerate().map(read).collect()
}

#[cfg(test)]
mod tests;
