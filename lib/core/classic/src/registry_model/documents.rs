//! What a registry server answers, as documents of a file-based catalog: everything that reads catalogs reads that one form.

use std::collections::{BTreeMap, BTreeSet};

use base64::{Engine, engine::general_purpose::STANDARD};
use olm_fbc::{
    PROPERTY_BUNDLE_OBJECT, SCHEMA_BUNDLE, SCHEMA_CHANNEL, SCHEMA_DEPRECATIONS, SCHEMA_PACKAGE,
    limits::DOCUMENT_BYTES_MAX,
};
use olm_object::hex;
use serde::Serialize;
use serde_json::{Value, json, value::RawValue};
use sha2::{Digest, Sha256};
use thiserror::Error;

use super::{Bundle, Package, Property};
use crate::{
    graph,
    limits::{ENTRY_BYTES, GRAPH_BYTES_MAX, VALUE_BYTES},
    source::texts::NAMED_MAX,
};

/// The names and edges of a catalog take more memory than they may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the names and upgrade edges of the catalog take more than {} MiB", GRAPH_BYTES_MAX >> 20)]
pub struct CatalogTooLarge;

/// Turns the answers of a server into documents. Packages come first, then the heads of their channels with their manifests,
/// then all entries; bundles are handed out as they come, the rest at the end.
#[derive(Debug, Default)]
pub struct Documents {
    packages: BTreeMap<String, Entries>,
    /// Of every document, so that the digest does not depend on the order of the answers.
    digests: BTreeSet<[u8; 32]>,
    memory: usize,
    left_out: usize,
    /// Names of the first of them.
    left_out_names: Vec<String>,
    count: usize,
}

/// A package and what is known of its bundles.
#[derive(Debug)]
struct Entries {
    package: Package,
    /// The bundles that have a document.
    bundles: BTreeSet<String>,
    /// Entries by channel and bundle.
    channels: BTreeMap<String, BTreeMap<String, Value>>,
    deprecated: BTreeMap<String, String>,
}

#[derive(Serialize)]
struct BundleDocument<'b> {
    schema: &'static str,
    name: &'b str,
    package: &'b str,
    image: &'b str,
    properties: Vec<PropertyDocument<'b>>,
}

#[derive(Serialize)]
struct PropertyDocument<'b> {
    #[serde(rename = "type")]
    kind: &'b str,
    value: Box<RawValue>,
}

impl Documents {
    /// Adds a package with its channels.
    ///
    /// # Errors
    /// The catalog is too large.
    pub fn push_package(&mut self, package: Package) -> Result<(), CatalogTooLarge> {
        let texts = |channel: &super::Channel| channel.name.len() + channel.csv_name.len() + ENTRY_BYTES;
        self.reckon(package.name.len() + package.channels.iter().map(texts).sum::<usize>() + ENTRY_BYTES)?;
        let name = package.name.clone();
        let entries = Entries {
            package,
            bundles: BTreeSet::new(),
            channels: BTreeMap::new(),
            deprecated: BTreeMap::new(),
        };
        self.packages.insert(name, entries);
        self.count += 1;
        Ok(())
    }

    /// The document of a bundle, as a line. None for one that has its document already, whose package is not in the catalog, or
    /// that makes no document.
    ///
    /// # Errors
    /// The catalog is too large.
    pub fn bundle(&mut self, bundle: &Bundle) -> Result<Option<Vec<u8>>, CatalogTooLarge> {
        self.reckon(bundle.csv_name.len() + ENTRY_BYTES)?;
        let Some(entries) = self.packages.get_mut(&bundle.package_name) else { return Ok(None) };
        if entries.bundles.contains(&bundle.csv_name) {
            return Ok(None);
        }
        let Some(line) = document(bundle).filter(|line| line.len() <= DOCUMENT_BYTES_MAX) else {
            self.left_out += 1;
            if self.left_out_names.len() < NAMED_MAX {
                self.left_out_names.push(bundle.csv_name.clone());
            }
            return Ok(None);
        };
        entries.bundles.insert(bundle.csv_name.clone());
        Ok(Some(self.sealed(line)))
    }

    /// Adds an entry of a channel; answers with the document of its bundle, as [`Self::bundle`].
    ///
    /// # Errors
    /// The catalog is too large.
    pub fn entry(&mut self, bundle: &Bundle) -> Result<Option<Vec<u8>>, CatalogTooLarge> {
        let skips = bundle.skips.iter().map(|skip| skip.len() + VALUE_BYTES).sum::<usize>();
        let deprecation = bundle.deprecation.as_ref().map_or(0, String::len);
        self.reckon(bundle.replaces.len() + bundle.skip_range.len() + skips + deprecation + ENTRY_BYTES)?;
        if let Some(entries) = self.packages.get_mut(&bundle.package_name) {
            let entry = json!({
                "name": bundle.csv_name,
                "replaces": bundle.replaces,
                "skips": bundle.skips,
                "skipRange": bundle.skip_range,
            });
            let channel = entries.channels.entry(bundle.channel_name.clone()).or_default();
            channel.insert(bundle.csv_name.clone(), entry);
            if let Some(message) = &bundle.deprecation {
                entries.deprecated.insert(bundle.csv_name.clone(), message.clone());
            }
        }
        self.bundle(bundle)
    }

    /// The documents that are not handed out yet, as lines: packages, channels and deprecations.
    pub fn rest(&mut self) -> Vec<Vec<u8>> {
        let mut lines = Vec::new();
        for Entries { package, channels, deprecated, .. } in std::mem::take(&mut self.packages).into_values()
        {
            let name = &package.name;
            lines.push(json!({
                "schema": SCHEMA_PACKAGE, "name": name, "defaultChannel": package.default_channel_name,
            }));
            for (channel, entries) in &channels {
                let entries: Vec<&Value> = entries.values().collect();
                lines.push(
                    json!({"schema": SCHEMA_CHANNEL, "name": channel, "package": name, "entries": entries}),
                );
            }
            let deprecations = deprecations(&package, &deprecated);
            if !deprecations.is_empty() {
                lines.push(json!({
                    "schema": SCHEMA_DEPRECATIONS, "package": name, "entries": deprecations,
                }));
            }
        }
        lines.into_iter().map(|line| self.sealed(line.to_string().into_bytes())).collect()
    }

    /// The digest of all documents that were handed out, in hexadecimal.
    pub fn digest(&self) -> String {
        let mut hash = Sha256::new_with_prefix("registry");
        for digest in &self.digests {
            hash.update(digest);
        }
        hex(&hash.finalize())
    }

    /// How many packages there are.
    pub fn packages(&self) -> usize {
        self.count
    }

    /// How many bundles have no document, because they are too large or not as they should be.
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// The names of the first of those.
    pub fn left_out_names(&self) -> &[String] {
        &self.left_out_names
    }

    /// Ends a line, which is part of the digest from then on.
    fn sealed(&mut self, mut line: Vec<u8>) -> Vec<u8> {
        self.digests.insert(Sha256::digest(&line).into());
        line.push(b'\n');
        line
    }

    fn reckon(&mut self, bytes: usize) -> Result<(), CatalogTooLarge> {
        self.memory = self.memory.saturating_add(bytes);
        if self.memory > GRAPH_BYTES_MAX { Err(CatalogTooLarge) } else { Ok(()) }
    }
}

/// The document of a bundle with all that its properties do not say: its dependencies, its package and its manifests.
fn document(bundle: &Bundle) -> Option<Vec<u8>> {
    let resolved = graph::Bundle::of(bundle)?;
    let (own, added) = resolved.properties.split_at_checked(bundle.properties.len())?;
    // A server that knows properties has those of the dependencies among them.
    let is_new = |property: &&Property| {
        let value = |one: &Property| serde_json::from_str::<Value>(&one.value).ok();
        !own.iter().any(|one| one.kind == property.kind && value(one) == value(property))
    };
    let mut properties = Vec::new();
    for Property { kind, value } in own.iter().chain(added.iter().filter(is_new)) {
        properties.push(PropertyDocument { kind, value: RawValue::from_string(value.clone()).ok()? });
    }
    // Of a bundle with an image, only the ClusterServiceVersion is shown.
    let manifests = bundle.object.iter().filter(|_| bundle.bundle_path.is_empty());
    let has_version = bundle.csv_json.is_empty() || manifests.clone().any(|one| *one == bundle.csv_json);
    let version = Some(&bundle.csv_json).filter(|_| !has_version);
    for manifest in version.into_iter().chain(manifests) {
        let value = json!({"data": STANDARD.encode(manifest)}).to_string();
        properties.push(PropertyDocument {
            kind: PROPERTY_BUNDLE_OBJECT,
            value: RawValue::from_string(value).ok()?,
        });
    }
    serde_json::to_vec(&BundleDocument {
        schema: SCHEMA_BUNDLE,
        name: &bundle.csv_name,
        package: &bundle.package_name,
        image: &bundle.bundle_path,
        properties,
    })
    .ok()
}

fn deprecations(package: &Package, bundles: &BTreeMap<String, String>) -> Vec<Value> {
    let of = |schema: &str, name: Option<&str>, message: &str| {
        let mut reference = json!({"schema": schema});
        if let Some(name) = name {
            reference["name"] = json!(name);
        }
        json!({"reference": reference, "message": message})
    };
    let own = package.deprecation.iter().map(|message| of(SCHEMA_PACKAGE, None, message));
    let channels = package
        .channels
        .iter()
        .filter_map(|channel| Some(of(SCHEMA_CHANNEL, Some(&channel.name), channel.deprecation.as_ref()?)));
    let bundles = bundles.iter().map(|(name, message)| of(SCHEMA_BUNDLE, Some(name), message));
    own.chain(channels).chain(bundles).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bundle(name: &str) -> Bundle {
        Bundle {
            csv_name: name.to_owned(),
            package_name: "lamp".to_owned(),
            channel_name: "stable".to_owned(),
            version: "1.0.0".to_owned(),
            bundle_path: "r/b:1".to_owned(),
            ..Bundle::default()
        }
    }

    fn property(kind: &str, value: &str) -> Property {
        Property { kind: kind.to_owned(), value: value.to_owned() }
    }

    fn documents() -> Documents {
        let mut documents = Documents::default();
        documents.push_package(Package { name: "lamp".to_owned(), ..Package::default() }).unwrap();
        documents
    }

    fn read(line: &[u8]) -> Value {
        serde_json::from_slice(line).unwrap()
    }

    #[test]
    fn a_bundle_has_one_document_and_the_heads_has_its_version() {
        let mut documents = documents();
        let head = Bundle { csv_json: "{\"kind\":\"x\"}".to_owned(), ..bundle("lamp.v1") };
        let line = read(&documents.bundle(&head).unwrap().unwrap());
        let data = line["properties"][1]["value"]["data"].as_str().unwrap();
        assert_eq!(STANDARD.decode(data).unwrap(), head.csv_json.as_bytes());
        assert_eq!(documents.entry(&bundle("lamp.v1")).unwrap(), None);
        let foreign = Bundle { package_name: "other".to_owned(), ..bundle("other.v1") };
        assert_eq!(documents.entry(&foreign).unwrap(), None, "its package was not listed");
        let rest: Vec<Value> = documents.rest().iter().map(|line| read(line)).collect();
        assert_eq!(rest.len(), 2);
        assert_eq!(rest[1]["entries"][0]["name"], "lamp.v1");
    }

    #[test]
    fn dependencies_of_old_servers_become_properties_and_those_of_new_ones_stay_single() {
        let kind = r#"{"group":"example.com","kind":"Lamp","version":"v1"}"#;
        let old = Bundle { dependencies: vec![property("olm.gvk", kind)], ..bundle("lamp.v1") };
        let types = |line: &Value| -> Vec<String> {
            let all = line["properties"].as_array().unwrap();
            all.iter().map(|one| one["type"].as_str().unwrap().to_owned()).collect()
        };
        let line = read(&documents().bundle(&old).unwrap().unwrap());
        assert_eq!(types(&line), ["olm.gvk.required", "olm.package"]);
        let properties = vec![
            property("olm.gvk.required", kind),
            property("olm.package", r#"{"packageName":"lamp","version":"1.0.0"}"#),
        ];
        let new = Bundle { properties, ..old };
        let line = read(&documents().bundle(&new).unwrap().unwrap());
        assert_eq!(types(&line), ["olm.gvk.required", "olm.package"]);
    }

    #[test]
    fn a_bundle_that_is_no_document_is_left_out_alone() {
        let mut documents = documents();
        let broken = Bundle { properties: vec![property("x", "{")], ..bundle("lamp.v1") };
        let large = Bundle { csv_json: "x".repeat(DOCUMENT_BYTES_MAX), ..bundle("lamp.v2") };
        let unreadable = Bundle { dependencies: vec![property("olm.gvk", "{")], ..bundle("lamp.v3") };
        for bad in [broken, large, unreadable] {
            assert_eq!(documents.entry(&bad).unwrap(), None);
        }
        assert_eq!(documents.left_out(), 3);
        assert_eq!(documents.left_out_names(), ["lamp.v1", "lamp.v2", "lamp.v3"]);
        assert!(documents.entry(&bundle("lamp.v4")).unwrap().is_some());
    }

    #[test]
    fn a_catalog_of_names_alone_does_not_fill_the_memory() {
        let mut documents = documents();
        let long = "x".repeat(1 << 20);
        let pushed = (0..100).try_for_each(|number| {
            let skips = vec![format!("{number}{long}")];
            documents.entry(&Bundle { skips, ..bundle("lamp.v1") }).map(drop)
        });
        assert_eq!(pushed, Err(CatalogTooLarge));
    }

    #[test]
    fn the_digest_is_that_of_the_content_in_whatever_order() {
        let digest = |names: [&str; 2]| {
            let mut documents = documents();
            for name in names {
                documents.entry(&bundle(name)).unwrap();
            }
            documents.rest();
            documents.digest()
        };
        assert_eq!(digest(["lamp.v1", "lamp.v2"]), digest(["lamp.v2", "lamp.v1"]));
        assert_ne!(digest(["lamp.v1", "lamp.v2"]), digest(["lamp.v1", "lamp.v3"]));
    }
}
