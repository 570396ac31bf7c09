//! What validation, lists and graphs need of a catalog: everything but the large parts, taken from the
//! documents one after another.
//!
//! A catalog of 130 MB becomes an outline of a few. What concerns one document only is checked when it is
//! taken; what concerns several is left to [`crate::validate`].

mod documented;

use olm_fbc::{
    Channel, Deprecation, Envelope, Meta, PROPERTY_CSV_METADATA, PROPERTY_PACKAGE, PROPERTY_PACKAGE_REQUIRED,
    Package, SCHEMA_BUNDLE, SCHEMA_CHANNEL, SCHEMA_DEPRECATIONS, SCHEMA_PACKAGE, limits::DOCUMENT_NODES_MAX,
};
use olm_go::{Quoted, field::Fields, json::nodes};
use olm_semver::{Release, Version};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{DecodeError, decode, limits::WARNINGS_MAX, objects};

/// Checks whether a text is an image reference as container tools write it (short names allowed); the error is
/// their text. Given by the caller, because references belong to another crate.
pub type ImageSyntax = fn(&str) -> Result<(), String>;

/// Something that is wrong with a document, or between documents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Schema of the document.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub schema: String,
    /// Package it belongs to.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub package: String,
    /// Its name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The problem.
    pub message: String,
}

/// A bundle without its large parts.
#[derive(Debug, Clone, Default)]
pub struct BundleOutline {
    /// Bundle name.
    pub name: String,
    /// Package it belongs to.
    pub package: String,
    /// Image reference; may be empty when the bundle carries its manifests.
    pub image: String,
    /// How many manifests it carries.
    pub objects: usize,
    /// Version, when it is one.
    pub version: Option<Version>,
    /// Release; empty when there is none, or when it is invalid.
    pub release: Release,
    /// Name for people, from the manifests or the metadata; empty when there is none.
    pub display_name: String,
    /// Packages it needs.
    pub required_packages: Vec<String>,
    /// How many properties name a package and version, with the version's text.
    pub(crate) identities: Vec<String>,
    /// Faults of the document on its own, in the order in which opm checks.
    pub(crate) defects: Vec<String>,
}

/// The documents of a catalog in the order in which they were read, without their large parts.
#[derive(Debug)]
pub struct Outline {
    image_syntax: ImageSyntax,
    /// Packages.
    pub packages: Vec<Package>,
    /// Channels.
    pub channels: Vec<Channel>,
    /// Bundles.
    pub bundles: Vec<BundleOutline>,
    /// Deprecations.
    pub deprecations: Vec<Deprecation>,
    /// Rules that the format's documentation states and opm does not enforce, where they are broken.
    pub warnings: Vec<Finding>,
    /// How many more there are than [`WARNINGS_MAX`], which are not kept.
    pub warnings_left_out: usize,
}

impl Outline {
    /// An empty outline.
    pub fn new(image_syntax: ImageSyntax) -> Self {
        Self {
            image_syntax,
            packages: Vec::new(),
            channels: Vec::new(),
            bundles: Vec::new(),
            deprecations: Vec::new(),
            warnings: Vec::new(),
            warnings_left_out: 0,
        }
    }

    /// Takes the next document.
    ///
    /// # Errors
    /// The document has no schema, a field of it has another type, or a manifest in it cannot be read. The
    /// texts are opm's.
    pub fn push(&mut self, meta: &Meta<'_>) -> Result<(), DecodeError> {
        self.push_line(&meta.envelope, meta.line)
    }

    pub(crate) fn push_line(&mut self, envelope: &Envelope<'_>, line: &[u8]) -> Result<(), DecodeError> {
        let schema = envelope.schema.as_ref();
        if schema.is_empty() {
            return Err(DecodeError::no_schema(line));
        }
        let refused = |problem| DecodeError::Field("object", problem);
        let text = str::from_utf8(line).map_err(|error| refused(error.to_string()))?;
        if nodes(text) > DOCUMENT_NODES_MAX {
            return Err(refused(format!("it has more than {DOCUMENT_NODES_MAX} values")));
        }
        let value: Value = serde_json::from_str(text).map_err(|error| refused(error.to_string()))?;
        self.push_value(schema, &value)?;
        let fields = Fields::of(&value);
        let notes = documented::notes(schema, fields);
        let room = WARNINGS_MAX.saturating_sub(self.warnings.len());
        self.warnings_left_out += notes.len().saturating_sub(room);
        self.warnings.extend(notes.into_iter().take(room).map(|message| Finding {
            schema: schema.to_owned(),
            package: envelope.subject().to_owned(),
            name: envelope.name.clone().into_owned(),
            message,
        }));
        Ok(())
    }

    /// Takes the next document, of a schema that is known already, without looking for warnings.
    ///
    /// # Errors
    /// See [`Self::push`].
    pub fn push_value(&mut self, schema: &str, value: &Value) -> Result<(), DecodeError> {
        decode::check_document(schema, value)?;
        match schema {
            SCHEMA_PACKAGE => self.packages.push(read::<Package>(value)?),
            SCHEMA_CHANNEL => self.channels.push(read::<Channel>(value)?),
            SCHEMA_BUNDLE => self.bundles.push(BundleOutline::of(Fields::of(value), self.image_syntax)?),
            SCHEMA_DEPRECATIONS => self.deprecations.push(read::<Deprecation>(value)?),
            _ => {}
        }
        Ok(())
    }
}

/// A document whose fields have been checked.
fn read<'v, T: Deserialize<'v>>(value: &'v Value) -> Result<T, DecodeError> {
    T::deserialize(value).map_err(|error| DecodeError::Field("object", error.to_string()))
}

impl BundleOutline {
    fn of(bundle: Fields<'_>, image_syntax: ImageSyntax) -> Result<Self, DecodeError> {
        let mut outline = Self {
            name: bundle.text("name").to_owned(),
            package: bundle.text("package").to_owned(),
            image: bundle.text("image").to_owned(),
            ..Self::default()
        };
        let manifests = objects::read(&outline.package, &outline.name, bundle)?;
        outline.objects = manifests.count;
        if let Some(csv) = manifests.csv {
            csv["spec"]["displayName"].as_str().unwrap_or_default().clone_into(&mut outline.display_name);
        }
        match outline.take_properties(bundle) {
            Ok(identity) => {
                outline.check_images(bundle, image_syntax);
                if let Some(identity) = identity {
                    outline.take_version(identity);
                }
            }
            Err(problem) => outline
                .defects
                .push(format!("parse properties for bundle {}: {problem}", Quoted(&outline.name))),
        }
        Ok(outline)
    }

    /// Reads the properties, known ones as their type asks for; returns the one that names package and version.
    fn take_properties<'v>(&mut self, bundle: Fields<'v>) -> Result<Option<Fields<'v>>, String> {
        let mut identities = Vec::new();
        for (index, property) in bundle.objects("properties").enumerate() {
            let (kind, value) = (property.text("type"), property.raw("value"));
            decode::check_property(kind, value)
                .map_err(|problem| format!("parse property[{index}] of type {}: {problem}", Quoted(kind)))?;
            let value = value.map(Fields::of).unwrap_or_default();
            match kind {
                PROPERTY_PACKAGE => identities.push(value),
                PROPERTY_PACKAGE_REQUIRED => {
                    self.required_packages.push(value.text("packageName").to_owned());
                }
                PROPERTY_CSV_METADATA if self.display_name.is_empty() => {
                    value.text("displayName").clone_into(&mut self.display_name);
                }
                _ => {}
            }
        }
        self.identities = identities.iter().map(|identity| identity.text("version").to_owned()).collect();
        let (package, kind) = (Quoted(&self.package), Quoted(PROPERTY_PACKAGE));
        let [identity] = identities[..] else {
            let (name, count) = (Quoted(&self.name), identities.len());
            self.defects.push(format!(
                "package {package} bundle {name} must have exactly 1 {kind} property, found {count}"
            ));
            return Ok(None);
        };
        let named = identity.text("packageName");
        if named != self.package {
            self.defects.push(format!("package {package} does not match {kind} property {}", Quoted(named)));
        }
        Ok(Some(identity))
    }

    fn check_images(&mut self, bundle: Fields<'_>, image_syntax: ImageSyntax) {
        let related = bundle.objects("relatedImages").enumerate();
        let related =
            related.map(|(index, related)| (related.text("image"), format!("relatedImages[{index}].image")));
        for (image, place) in std::iter::once((bundle.text("image"), "image".to_owned())).chain(related) {
            if !image.is_empty()
                && let Err(problem) = image_syntax(image)
            {
                self.defects.push(format!(
                    "package {} bundle {} {place}: invalid image pull spec {}: {problem}",
                    Quoted(&self.package),
                    Quoted(&self.name),
                    Quoted(image)
                ));
            }
        }
    }

    fn take_version(&mut self, identity: Fields<'_>) {
        let (version, release) = (identity.text("version"), identity.text("release"));
        let unparsed = |what, text, problem: &dyn std::fmt::Display| {
            format!("error parsing bundle {} {what} {}: {problem}", Quoted(&self.name), Quoted(text))
        };
        match version.parse() {
            Ok(version) => self.version = Some(version),
            Err(problem) => self.defects.push(unparsed("version", version, &problem)),
        }
        match release.parse() {
            Ok(release) => self.release = release,
            Err(problem) => self.defects.push(unparsed("release version", release, &problem)),
        }
    }

    /// Version and release as one text, by which the bundles of a package differ. A bundle without a
    /// version has the version 0.0.0, as in opm.
    pub fn version_text(&self) -> String {
        let version = self.version.as_ref().map_or_else(|| "0.0.0".to_owned(), ToString::to_string);
        if self.release.is_empty() { version } else { format!("{version}-{}", self.release) }
    }
}

#[cfg(test)]
mod tests;
