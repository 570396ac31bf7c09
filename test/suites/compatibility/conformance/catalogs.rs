//! Reads catalogs into what resolution needs, leaving the large parts where they are.

use std::borrow::Cow;

use olm_fbc::{
    Bundle, Channel, Deprecation, Package, PackageContent, Property, SCHEMA_BUNDLE, SCHEMA_CHANNEL,
    SCHEMA_DEPRECATIONS, SCHEMA_PACKAGE,
};
use olm_test::prelude::*;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::data;

/// A line of any schema, of which only what is read is decoded.
#[derive(Deserialize)]
struct Blob<'a> {
    #[serde(borrow)]
    schema: Cow<'a, str>,
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    package: Cow<'a, str>,
    #[serde(borrow, default)]
    image: Cow<'a, str>,
    #[serde(borrow, default)]
    entries: Option<&'a RawValue>,
    #[serde(borrow, default)]
    properties: Option<Vec<RawProperty<'a>>>,
}

#[derive(Deserialize)]
struct RawProperty<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    value: &'a RawValue,
}

/// The packages of the catalog at `path`, by name: JSON lines compressed by zstd, or a folder of YAML and JSON.
pub(crate) fn read(path: &Path) -> BTreeMap<String, PackageContent> {
    let mut packages = BTreeMap::new();
    if path.is_dir() {
        add_folder(&mut packages, path);
    } else {
        data::lines(path, |line| add(&mut packages, line));
    }
    packages
}

fn add_folder(packages: &mut BTreeMap<String, PackageContent>, folder: &Path) {
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            add_folder(packages, &path);
            continue;
        }
        let bytes = fs::read(&path).unwrap();
        for blob in olm_yaml::mixed(olm_yaml::text(&bytes).unwrap()) {
            let blob = blob.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            if !blob.is_null() {
                add(packages, &serde_json::to_vec(&blob).unwrap());
            }
        }
    }
}

fn add(packages: &mut BTreeMap<String, PackageContent>, line: &[u8]) {
    let blob: Blob<'_> = serde_json::from_slice(line).unwrap();
    let entries = || blob.entries.map_or("[]", RawValue::get);
    let (name, package) = (blob.name.clone().into_owned(), blob.package.clone().into_owned());
    let owner = if blob.schema == SCHEMA_PACKAGE { name.clone() } else { package.clone() };
    let content = packages.entry(owner).or_default();
    match blob.schema.as_ref() {
        SCHEMA_PACKAGE => content.packages.push(Package { name, ..Package::default() }),
        SCHEMA_CHANNEL => {
            content.channels.push(Channel {
                name,
                package,
                entries: serde_json::from_str(entries()).unwrap(),
            });
        }
        SCHEMA_DEPRECATIONS => {
            content
                .deprecations
                .push(Deprecation { package, entries: serde_json::from_str(entries()).unwrap() });
        }
        SCHEMA_BUNDLE => {
            let properties = blob.properties.unwrap_or_default().into_iter();
            content.bundles.push(Bundle {
                name,
                package,
                image: blob.image.into_owned(),
                properties: properties.filter(|property| is_small(&property.kind)).map(property).collect(),
            });
        }
        _ => {}
    }
}

fn is_small(kind: &str) -> bool {
    !matches!(kind, "olm.csv.metadata" | "olm.bundle.object")
}

fn property(raw: RawProperty<'_>) -> Property {
    Property { kind: raw.kind.into_owned(), value: serde_json::from_str(raw.value.get()).unwrap() }
}
