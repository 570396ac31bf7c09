//! The content of a catalog in a ConfigMap: lists of packages, ClusterServiceVersions and CustomResourceDefinitions in
//! YAML, turned into documents of a file-based catalog.

use std::collections::{BTreeMap, BTreeSet};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};
use thiserror::Error;

/// Most bytes of all keys; the API server takes ConfigMaps of 1 MiB.
pub const BYTES_MAX: usize = 4 << 20;
/// Most objects of a list.
const OBJECTS_MAX: usize = 10_000;
/// Most bytes of documents: a ClusterServiceVersion is in each of them once, with its CRDs.
const DOCUMENT_BYTES_MAX: usize = 64 << 20;

const PACKAGES: &str = "packages";
const VERSIONS: &str = "clusterServiceVersions";
const DEFINITIONS: &str = "customResourceDefinitions";

/// Why a ConfigMap is no catalog: a sentence that names the key.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct ConfigMapError(String);

fn error(text: impl Into<String>) -> ConfigMapError {
    ConfigMapError(text.into())
}

/// The documents of a ConfigMap's data, one to a line.
///
/// # Errors
/// The text names the key and what is wrong with it.
pub fn documents(data: &BTreeMap<String, String>) -> Result<Vec<u8>, ConfigMapError> {
    if data.values().map(String::len).sum::<usize>() > BYTES_MAX {
        return Err(error(format!("the ConfigMap has more than {BYTES_MAX} bytes")));
    }
    let packages = list(data, PACKAGES)?;
    let versions = named(list(data, VERSIONS)?, VERSIONS)?;
    let definitions = named(list(data, DEFINITIONS)?, DEFINITIONS)?;
    let mut sink = Sink::default();
    for package in &packages {
        write_package(package, &versions, &definitions, &mut sink)?;
    }
    Ok(sink.0)
}

/// The objects of a key.
fn list(data: &BTreeMap<String, String>, key: &str) -> Result<Vec<Value>, ConfigMapError> {
    let Some(text) = data.get(key).filter(|text| !text.trim().is_empty()) else { return Ok(Vec::new()) };
    let parsed = olm_yaml::one(text)
        .map_err(|cause| error(format!("the key {key} of the ConfigMap is not YAML: {cause}")))?;
    match parsed {
        Value::Null => Ok(Vec::new()),
        Value::Array(objects) if objects.len() <= OBJECTS_MAX => Ok(objects),
        Value::Array(_) => {
            Err(error(format!("the key {key} of the ConfigMap has more than {OBJECTS_MAX} objects")))
        }
        _ => Err(error(format!("the key {key} of the ConfigMap is no list"))),
    }
}

/// Objects by their names.
fn named(objects: Vec<Value>, key: &str) -> Result<BTreeMap<String, Value>, ConfigMapError> {
    let name = |object: &Value| object["metadata"]["name"].as_str().map(str::to_owned);
    let named = objects.into_iter().map(|object| {
        let name = name(&object).ok_or_else(|| {
            error(format!("an object of the key {key} of the ConfigMap has no metadata.name"))
        })?;
        Ok((name, object))
    });
    named.collect()
}

/// Lines of JSON, not too many.
#[derive(Default)]
struct Sink(Vec<u8>);

impl Sink {
    fn push(&mut self, document: &Value) -> Result<(), ConfigMapError> {
        self.0.extend_from_slice(document.to_string().as_bytes());
        self.0.push(b'\n');
        if self.0.len() > DOCUMENT_BYTES_MAX {
            return Err(error(format!(
                "the content of the ConfigMap has more than {DOCUMENT_BYTES_MAX} bytes"
            )));
        }
        Ok(())
    }
}

fn write_package(
    package: &Value,
    versions: &BTreeMap<String, Value>,
    definitions: &BTreeMap<String, Value>,
    sink: &mut Sink,
) -> Result<(), ConfigMapError> {
    let name = package["packageName"].as_str().filter(|name| !name.is_empty()).ok_or_else(|| {
        error(format!("a package of the key {PACKAGES} of the ConfigMap has no packageName"))
    })?;
    let channels = package["channels"].as_array().map(Vec::as_slice).unwrap_or_default();
    let default = package["defaultChannel"].as_str().filter(|channel| !channel.is_empty());
    let only = channels.first().filter(|_| channels.len() == 1).and_then(|channel| channel["name"].as_str());
    sink.push(&json!({
        "schema": "olm.package",
        "name": name,
        "defaultChannel": default.or(only).unwrap_or_default(),
    }))?;
    let mut bundles = BTreeSet::new();
    for channel in channels {
        let text = |field: &str| {
            channel[field]
                .as_str()
                .ok_or_else(|| error(format!("a channel of the package {name} has no {field}")))
        };
        let (channel, head) = (text("name")?, text("currentCSV")?);
        let entries = entries(name, head, versions, &mut bundles)?;
        sink.push(&json!({"schema": "olm.channel", "name": channel, "package": name, "entries": entries}))?;
    }
    for bundle in bundles {
        sink.push(&document(name, bundle, &versions[bundle], definitions))?;
    }
    Ok(())
}

/// The entries of a channel: its head, and what is replaced from there on.
fn entries<'v>(
    package: &str,
    head: &str,
    versions: &'v BTreeMap<String, Value>,
    bundles: &mut BTreeSet<&'v str>,
) -> Result<Vec<Value>, ConfigMapError> {
    if !versions.contains_key(head) {
        let text = format!(
            "the package {package} names the ClusterServiceVersion {head}, which the key {VERSIONS} of the ConfigMap does not have"
        );
        return Err(error(text));
    }
    let (mut entries, mut seen, mut next) = (Vec::new(), BTreeSet::new(), Some(head));
    while let Some((name, version)) = next.and_then(|name| versions.get_key_value(name)) {
        if !seen.insert(name) {
            break;
        }
        bundles.insert(name);
        let spec = &version["spec"];
        let mut entry = Map::from_iter([("name".to_owned(), json!(name))]);
        if let Some(replaces) = spec["replaces"].as_str().filter(|replaces| !replaces.is_empty()) {
            entry.insert("replaces".to_owned(), json!(replaces));
        }
        if let Some(skips) = spec["skips"].as_array().filter(|skips| !skips.is_empty()) {
            entry.insert("skips".to_owned(), json!(skips));
        }
        if let Some(range) = version["metadata"]["annotations"]["olm.skipRange"].as_str() {
            entry.insert("skipRange".to_owned(), json!(range));
        }
        entries.push(Value::Object(entry));
        next = spec["replaces"].as_str();
    }
    Ok(entries)
}

/// The document of a bundle that is in the catalog as a whole.
fn document(package: &str, name: &str, version: &Value, definitions: &BTreeMap<String, Value>) -> Value {
    let spec = &version["spec"];
    let number = spec["version"].as_str().unwrap_or_default();
    let mut properties = vec![property("olm.package", &json!({"packageName": package, "version": number}))];
    let crds = &spec["customresourcedefinitions"];
    let services = &spec["apiservicedefinitions"];
    for (described, type_) in [("owned", "olm.gvk"), ("required", "olm.gvk.required")] {
        let kinds = each(&crds[described]).map(|crd| {
            let group =
                crd["name"].as_str().and_then(|name| name.split_once('.')).map_or("", |(_, group)| group);
            json!({"group": group, "kind": crd["kind"], "version": crd["version"]})
        });
        let served = each(&services[described]).map(
            |service| json!({"group": service["group"], "kind": service["kind"], "version": service["version"]}),
        );
        properties.extend(kinds.chain(served).map(|kind| property(type_, &kind)));
    }
    let declared = version["metadata"]["annotations"]["olm.properties"].as_str();
    if let Some(Value::Array(more)) = declared.and_then(|text| serde_json::from_str(text).ok()) {
        properties.extend(more);
    }
    properties.push(object(version));
    let owned = each(&crds["owned"]).filter_map(|crd| definitions.get(crd["name"].as_str()?));
    properties.extend(owned.map(object));
    json!({"schema": "olm.bundle", "name": name, "package": package, "image": "", "properties": properties})
}

fn each(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn property(type_: &str, value: &Value) -> Value {
    json!({"type": type_, "value": value})
}

/// A manifest as it is.
fn object(manifest: &Value) -> Value {
    property("olm.bundle.object", &json!({"data": STANDARD.encode(manifest.to_string())}))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CSVS: &str = "
- apiVersion: operators.coreos.com/v1alpha1
  kind: ClusterServiceVersion
  metadata: {name: lamp.v2, annotations: {olm.skipRange: '<2.0.0'}}
  spec:
    version: 2.0.0
    replaces: lamp.v1
    skips: [lamp.v1-bad]
    customresourcedefinitions:
      owned: [{name: lamps.example.com, version: v1, kind: Lamp}]
      required: [{name: bulbs.example.org, version: v1, kind: Bulb}]
- metadata: {name: lamp.v1}
  spec: {version: 1.0.0, replaces: lamp.v0}
- metadata: {name: unused.v1}
  spec: {version: 1.0.0}
";

    fn data(packages: &str, csvs: &str, crds: &str) -> BTreeMap<String, String> {
        [(PACKAGES, packages), (VERSIONS, csvs), (DEFINITIONS, crds)]
            .map(|(key, text)| (key.to_owned(), text.to_owned()))
            .into()
    }

    fn lamp() -> &'static str {
        "[{packageName: lamp, channels: [{name: stable, currentCSV: lamp.v2}]}]"
    }

    #[test]
    fn packages_become_documents_with_whole_bundles() {
        let crds = "[{kind: CustomResourceDefinition, metadata: {name: lamps.example.com}}]";
        let text = String::from_utf8(documents(&data(lamp(), CSVS, crds)).unwrap()).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines[0], json!({"schema": "olm.package", "name": "lamp", "defaultChannel": "stable"}));
        let entries = json!([
            {"name": "lamp.v2", "replaces": "lamp.v1", "skips": ["lamp.v1-bad"], "skipRange": "<2.0.0"},
            {"name": "lamp.v1", "replaces": "lamp.v0"},
        ]);
        assert_eq!(lines[1]["entries"], entries);
        let names: Vec<_> = lines[2..].iter().map(|line| line["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["lamp.v1", "lamp.v2"], "a version that no channel has is left out");
        let types = |line: &Value| -> Vec<String> {
            each(&line["properties"]).map(|p| p["type"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(
            types(&lines[3]),
            ["olm.package", "olm.gvk", "olm.gvk.required", "olm.bundle.object", "olm.bundle.object"]
        );
        assert_eq!(
            lines[3]["properties"][1]["value"],
            json!({"group": "example.com", "kind": "Lamp", "version": "v1"})
        );
    }

    #[test]
    fn broken_content_is_named_by_its_key() {
        for (packages, csvs, text) in [
            ("{", CSVS, "the key packages of the ConfigMap is not YAML"),
            ("{a: b}", CSVS, "the key packages of the ConfigMap is no list"),
            ("[{}]", CSVS, "a package of the key packages of the ConfigMap has no packageName"),
            (
                lamp(),
                "[{}]",
                "an object of the key clusterServiceVersions of the ConfigMap has no metadata.name",
            ),
            (lamp(), "", "the package lamp names the ClusterServiceVersion lamp.v2, which"),
            (
                "[{packageName: lamp, channels: [{name: s}]}]",
                CSVS,
                "a channel of the package lamp has no currentCSV",
            ),
        ] {
            let error = documents(&data(packages, csvs, "")).unwrap_err().to_string();
            assert!(error.starts_with(text), "{error}");
        }
        assert_eq!(documents(&BTreeMap::new()), Ok(Vec::new()));
        let long = "a".repeat(BYTES_MAX + 1);
        assert!(documents(&data("", "", &long)).unwrap_err().to_string().contains("more than"));
    }

    #[test]
    fn a_circle_of_replacements_ends() {
        let csvs = "[{metadata: {name: a}, spec: {replaces: b}}, {metadata: {name: b}, spec: {replaces: a}}]";
        let packages = "[{packageName: p, channels: [{name: c, currentCSV: a}]}]";
        let text = String::from_utf8(documents(&data(packages, csvs, "")).unwrap()).unwrap();
        assert_eq!(text.lines().count(), 4);
    }
}
