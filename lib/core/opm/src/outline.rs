//! What validation, lists and graphs need of a catalog: everything but the large parts, taken from the
//! documents one after another.
//!
//! A catalog of 130 MB becomes an outline of a few. What concerns one document only is checked when it is
//! taken; what concerns several is left to [`crate::validate`].

mod documented;
mod objects;

use olm_fbc::{
    Channel, ChannelEntry, Deprecation, DeprecationEntry, Envelope, Meta, PROPERTY_CSV_METADATA,
    PROPERTY_PACKAGE, PROPERTY_PACKAGE_REQUIRED, Package, PackageReference, SCHEMA_BUNDLE, SCHEMA_CHANNEL,
    SCHEMA_DEPRECATIONS, SCHEMA_PACKAGE, limits::DOCUMENT_NODES_MAX, nodes,
};
use olm_go::{
    Quoted,
    field::{self, list, text},
};
use olm_semver::{Release, Version};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::{
    DecodeError,
    decode::{self, Shape},
    limits::WARNINGS_MAX,
    property,
};

/// Tells whether a text is an image reference as container tools write it (short names allowed); the error is
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
    /// What is wrong.
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
    /// What is wrong with the document on its own, in the order in which the original looks.
    pub(crate) defects: Vec<String>,
}

/// The documents of a catalog in the order in which they were read, without their large parts.
#[derive(Debug)]
pub struct Outline {
    image_syntax: ImageSyntax,
    packages: Vec<Package>,
    channels: Vec<Channel>,
    bundles: Vec<BundleOutline>,
    deprecations: Vec<Deprecation>,
    warnings: Vec<Finding>,
    warnings_left_out: usize,
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

    /// Packages.
    pub fn packages(&self) -> &[Package] {
        &self.packages
    }

    /// Channels.
    pub fn channels(&self) -> &[Channel] {
        &self.channels
    }

    /// Bundles.
    pub fn bundles(&self) -> &[BundleOutline] {
        &self.bundles
    }

    /// Deprecations.
    pub fn deprecations(&self) -> &[Deprecation] {
        &self.deprecations
    }

    /// Rules that the format's documentation states and the original does not enforce, where they are broken.
    pub fn warnings(&self) -> &[Finding] {
        &self.warnings
    }

    /// How many more there are than [`WARNINGS_MAX`], which are not kept.
    pub fn warnings_left_out(&self) -> usize {
        self.warnings_left_out
    }

    /// Takes the next document.
    ///
    /// # Errors
    /// The document has no schema, a field of it has another type, or a manifest in it cannot be read. The
    /// texts are the original's.
    pub fn push(&mut self, meta: &Meta<'_>) -> Result<(), DecodeError> {
        self.push_line(&meta.envelope, meta.line)
    }

    pub(crate) fn push_line(&mut self, envelope: &Envelope<'_>, line: &[u8]) -> Result<(), DecodeError> {
        let schema = envelope.schema.as_ref();
        if schema.is_empty() {
            return Err(DecodeError::no_schema(line));
        }
        let refused = |problem| DecodeError::Field { kind: "object", problem };
        if nodes(line) > DOCUMENT_NODES_MAX {
            return Err(refused(format!("it has more than {DOCUMENT_NODES_MAX} values")));
        }
        let value = serde_json::from_slice(line).map_err(|error| refused(error.to_string()))?;
        let checked = |kind, shape: &Shape| {
            decode::check(&value, shape).map_err(|problem| DecodeError::Field { kind, problem })
        };
        let empty = Map::new();
        let object = value.as_object().unwrap_or(&empty);
        let mut notes = Vec::new();
        match schema {
            SCHEMA_PACKAGE => {
                checked("package", &decode::PACKAGE)?;
                self.packages.push(package(object));
                documented::package(object, &mut notes);
            }
            SCHEMA_CHANNEL => {
                checked("channel", &decode::CHANNEL)?;
                self.channels.push(channel(object));
                documented::channel(object, &mut notes);
            }
            SCHEMA_BUNDLE => {
                checked("bundle", &decode::BUNDLE)?;
                self.bundles.push(bundle(object, self.image_syntax)?);
                documented::bundle(object, &mut notes);
            }
            SCHEMA_DEPRECATIONS => {
                checked("deprecation", &decode::DEPRECATION)?;
                self.deprecations.push(deprecation(object));
                documented::deprecation(object, &mut notes);
            }
            custom => documented::custom(custom, &mut notes),
        }
        documented::every(object, &mut notes);
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
}

fn package(object: &Map<String, Value>) -> Package {
    Package { name: owned(object, "name"), default_channel: owned(object, "defaultChannel") }
}

fn channel(object: &Map<String, Value>) -> Channel {
    let entry = |entry: &Map<String, Value>| ChannelEntry {
        name: owned(entry, "name"),
        replaces: owned(entry, "replaces"),
        skips: list(entry, "skips").iter().map(|skip| skip.as_str().unwrap_or_default().to_owned()).collect(),
        skip_range: owned(entry, "skipRange"),
    };
    Channel { name: owned(object, "name"), package: owned(object, "package"), entries: each(object, entry) }
}

fn deprecation(object: &Map<String, Value>) -> Deprecation {
    let entry = |entry: &Map<String, Value>| {
        let reference = field::scalar(entry, "reference").and_then(Value::as_object);
        let part = |name| reference.map(|reference| owned(reference, name)).unwrap_or_default();
        DeprecationEntry {
            reference: PackageReference { schema: part("schema"), name: part("name") },
            message: owned(entry, "message"),
        }
    };
    Deprecation { package: owned(object, "package"), entries: each(object, entry) }
}

fn bundle(object: &Map<String, Value>, image_syntax: ImageSyntax) -> Result<BundleOutline, DecodeError> {
    let mut outline = BundleOutline {
        name: owned(object, "name"),
        package: owned(object, "package"),
        image: owned(object, "image"),
        ..BundleOutline::default()
    };
    let properties = list(object, "properties");
    let manifests = objects::read(properties).map_err(|problem| DecodeError::Object {
        package: outline.package.clone(),
        bundle: outline.name.clone(),
        problem,
    })?;
    outline.objects = manifests.count;
    outline.display_name = manifests.display_name;
    match property::parse(properties) {
        Ok(known) => {
            outline.take_properties(&known);
            outline.check_images(object, image_syntax);
            outline.check_version(&known);
        }
        Err(problem) => {
            outline.defects.push(format!("parse properties for bundle {}: {problem}", Quoted(&outline.name)));
        }
    }
    Ok(outline)
}

impl BundleOutline {
    fn take_properties(&mut self, known: &[property::Known<'_>]) {
        for property in known {
            match property.kind {
                PROPERTY_PACKAGE => self.identities.push(property.text("version").to_owned()),
                PROPERTY_PACKAGE_REQUIRED => {
                    self.required_packages.push(property.text("packageName").to_owned());
                }
                PROPERTY_CSV_METADATA if self.display_name.is_empty() => {
                    property.text("displayName").clone_into(&mut self.display_name);
                }
                _ => {}
            }
        }
        let (package, name) = (Quoted(&self.package), Quoted(&self.name));
        let (kind, count) = (Quoted(PROPERTY_PACKAGE), self.identities.len());
        if count != 1 {
            self.defects.push(format!(
                "package {package} bundle {name} must have exactly 1 {kind} property, found {count}"
            ));
            return;
        }
        let named = known.iter().find(|property| property.kind == PROPERTY_PACKAGE);
        let named = named.map_or("", |property| property.text("packageName"));
        if named != self.package {
            self.defects.push(format!("package {package} does not match {kind} property {}", Quoted(named)));
        }
    }

    fn check_images(&mut self, object: &Map<String, Value>, image_syntax: ImageSyntax) {
        let mut bad = Vec::new();
        let mut check = |image: &str, place: &str| {
            if !image.is_empty()
                && let Err(problem) = image_syntax(image)
            {
                bad.push(format!(
                    "package {} bundle {} {place}: invalid image pull spec {}: {problem}",
                    Quoted(&self.package),
                    Quoted(&self.name),
                    Quoted(image)
                ));
            }
        };
        check(&self.image, "image");
        for (index, related) in list(object, "relatedImages").iter().enumerate() {
            let image = related.as_object().map_or("", |related| text(related, "image"));
            check(image, &format!("relatedImages[{index}].image"));
        }
        self.defects.append(&mut bad);
    }

    fn check_version(&mut self, known: &[property::Known<'_>]) {
        if self.identities.len() != 1 {
            return;
        }
        let Some(identity) = known.iter().find(|property| property.kind == PROPERTY_PACKAGE) else { return };
        let (version, release) = (identity.text("version"), identity.text("release"));
        match version.parse() {
            Ok(version) => self.version = Some(version),
            Err(problem) => self.defects.push(format!(
                "error parsing bundle {} version {}: {problem}",
                Quoted(&self.name),
                Quoted(version)
            )),
        }
        match release.parse() {
            Ok(release) => self.release = release,
            Err(problem) => self.defects.push(format!(
                "error parsing bundle {} release version {}: {problem}",
                Quoted(&self.name),
                Quoted(release)
            )),
        }
    }

    /// Version and release as one text, by which the bundles of a package are told apart. A bundle without a
    /// version has the version 0.0.0, as in the original.
    pub fn version_text(&self) -> String {
        let version = self.version.as_ref().map_or_else(|| "0.0.0".to_owned(), ToString::to_string);
        if self.release.is_empty() { version } else { format!("{version}-{}", self.release) }
    }
}

fn owned(object: &Map<String, Value>, name: &str) -> String {
    text(object, name).to_owned()
}

/// Reads the entries of a document; null ones are as empty ones.
fn each<T>(object: &Map<String, Value>, read: impl Fn(&Map<String, Value>) -> T) -> Vec<T> {
    let empty = Map::new();
    list(object, "entries").iter().map(|entry| read(entry.as_object().unwrap_or(&empty))).collect()
}

#[cfg(test)]
mod tests;
