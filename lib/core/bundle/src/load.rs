//! Reading a bundle's files.
//!
//! Every file of `manifests/` is read, in byte order of the names, whatever it is called; documents are
//! distinguished by kind only. Differences from upstream: several CSVs are rejected instead of the last one winning,
//! and messages name the place of a wrong type but never quote objects.
//!
//! Source: operator-controller `rukpak/bundle/source/source.go`.

use olm_semver::Version;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

use crate::{
    BundleFiles, CSV_KIND, ReadError,
    budget::Budget,
    csv::{Csv, InstallMode},
    declared,
    limits::{BUNDLE_BYTES_MAX, COPIES, FILES_MAX, MODE_BYTES_MAX, OBJECTS_MAX, UNKNOWN_MODES_MAX},
    metadata, properties,
    typed::{CLUSTER_SERVICE_VERSION, CUSTOM_RESOURCE_DEFINITION, OBJECT_META, convert, numbers_of_64_bits},
};

/// A bundle that was read.
#[derive(Debug, Clone)]
pub struct Bundle {
    /// The package that its annotations name; may be empty.
    pub package: String,
    /// Its ClusterServiceVersion.
    pub csv: Csv,
    /// CustomResourceDefinitions, typed, in reading order.
    pub crds: Vec<Value>,
    /// All other objects as shipped, in reading order.
    pub others: Vec<Value>,
    /// The properties by which the bundle declares what it needs and provides, each `{"type", "value"}`; or why its
    /// dependencies cannot be read.
    pub declared: Result<Vec<Value>, String>,
    /// Memory that the objects take until a revision is written, in bytes, estimated.
    pub memory: usize,
}

impl Bundle {
    /// Reads a bundle within `memory` bytes, its files included.
    ///
    /// # Errors
    /// It is no bundle, or larger than one may be.
    pub fn read(files: &BundleFiles, memory: usize) -> Result<Self, ReadError> {
        for (what, count, limit) in
            [("files", files.len(), FILES_MAX), ("bytes", files.bytes(), BUNDLE_BYTES_MAX)]
        {
            if count > limit {
                return Err(ReadError::TooLarge { what, limit });
            }
        }
        let mut budget = Budget::new(memory, files.bytes());
        let package = metadata::package(files, &mut budget)?;
        let mut found = Found::default();
        for (name, content) in files.below("manifests/") {
            if let Some((folder, _)) = name.split_once('/') {
                return Err(ReadError::Subdirectory(format!("manifests/{folder}")));
            }
            found.file(&format!("manifests/{name}"), content, &mut budget)?;
        }
        if files.below("manifests/").next().is_none() {
            let message = || "it is a file, not a folder".to_owned();
            return Err(match files.get(MANIFESTS) {
                Some(_) => ReadError::Objects { path: MANIFESTS.to_owned(), message: message() },
                None => ReadError::Missing(MANIFESTS),
            });
        }
        if found.csvs.len() > 1 {
            let names = found.csvs.into_iter().map(|csv| csv.name).collect();
            return Err(ReadError::SeveralClusterServiceVersions(names));
        }
        let mut csv = found.csvs.pop().ok_or(ReadError::NoClusterServiceVersion)?;
        properties::merge(&mut csv.annotations, files.get("metadata/properties.yaml"), &mut budget)?;
        let declared = declared::properties(&csv, files, &mut budget)?;
        let memory = budget.spent().saturating_mul(COPIES);
        Ok(Self { package, csv, crds: found.crds, others: found.others, declared, memory })
    }
}

/// Whether a bundle has the CRD of this name. A manifest that cannot be read counts as one without: [`Bundle::read`]
/// says why.
pub fn defines_crd(files: &BundleFiles, crd: &str, memory: usize) -> bool {
    let mut budget = Budget::new(memory, files.bytes());
    let texts = files.below("manifests/").filter_map(|(_, content)| std::str::from_utf8(content).ok());
    texts.filter(|text| text.contains(crd)).any(|text| {
        olm_yaml::mixed_within(text, budget.limits(), budget.repairs())
            .map_while(|document| document.ok().filter(|document| budget.charge(document).is_ok()))
            .any(|object| object["kind"] == "CustomResourceDefinition" && object["metadata"]["name"] == crd)
    })
}

/// The folder of the objects.
pub(crate) const MANIFESTS: &str = "manifests";
const NO_KIND: &str = "Object 'Kind' is missing";

fn kind_of(object: &Map<String, Value>) -> Option<String> {
    object.get("kind").and_then(Value::as_str).filter(|kind| !kind.is_empty()).map(str::to_owned)
}

#[derive(Default)]
struct Found {
    objects: usize,
    csvs: Vec<Csv>,
    crds: Vec<Value>,
    others: Vec<Value>,
}

impl Found {
    fn file(&mut self, path: &str, content: &[u8], budget: &mut Budget) -> Result<(), ReadError> {
        let text = olm_yaml::text(content).map_err(|error| ReadError::undecodable(path, &error))?;
        for (index, document) in olm_yaml::mixed_within(text, budget.limits(), budget.repairs()).enumerate() {
            let document = document.map_err(|error| {
                budget.exceeded(&error).unwrap_or_else(|| ReadError::undecodable(path, &error))
            })?;
            budget.charge(&document)?;
            let invalid = |message: String| ReadError::Objects {
                path: path.to_owned(),
                message: format!("unable to decode \"{path}\": document {}: {message}", index + 1),
            };
            match document {
                Value::Null => {}
                Value::Object(map) => self.document(map, path, &invalid)?,
                _ => return Err(invalid("not a map".to_owned())),
            }
        }
        Ok(())
    }

    /// One document: an object, or a list object with items.
    fn document(
        &mut self,
        mut map: Map<String, Value>,
        path: &str,
        invalid: &dyn Fn(String) -> ReadError,
    ) -> Result<(), ReadError> {
        let kind = kind_of(&map).ok_or_else(|| invalid(NO_KIND.to_owned()))?;
        if map.get("apiVersion").is_some_and(|version| !version.is_string() && !version.is_null()) {
            return Err(invalid("apiVersion is not text".to_owned()));
        }
        if let Some(metadata) = map.get("metadata") {
            // Upstream reads those of all objects into Kubernetes' type, and passes them on as they are.
            convert(&OBJECT_META, &mut metadata.clone())
                .map_err(|error| invalid(format!("metadata: {error}")))?;
        }
        let items = match map.remove("items") {
            None => return self.object(&kind, Value::Object(map), path),
            Some(Value::Array(items)) => items,
            Some(Value::Null) => return Ok(()),
            Some(_) => return Err(invalid("items is not a list".to_owned())),
        };
        // Items of a typed list may leave out what the list already says.
        let item_kind = kind.strip_suffix("List").unwrap_or(&kind);
        let says = |item: &Map<String, Value>, field: &str| {
            item.get(field).and_then(Value::as_str).is_some_and(|text| !text.is_empty())
        };
        for item in items {
            let Value::Object(mut item) = item else {
                return Err(invalid("an item is not a map".to_owned()));
            };
            if !says(&item, "kind") && !says(&item, "apiVersion") {
                item.insert("kind".to_owned(), item_kind.into());
                if let Some(version) = map.get("apiVersion") {
                    item.insert("apiVersion".to_owned(), version.clone());
                }
            }
            let kind = kind_of(&item).ok_or_else(|| invalid(NO_KIND.to_owned()))?;
            self.object(&kind, Value::Object(item), path)?;
        }
        Ok(())
    }

    fn object(&mut self, kind: &str, mut object: Value, path: &str) -> Result<(), ReadError> {
        self.objects += 1;
        if self.objects > OBJECTS_MAX {
            return Err(ReadError::TooLarge { what: "objects", limit: OBJECTS_MAX });
        }
        let invalid = |message: String| ReadError::Objects { path: path.to_owned(), message };
        match kind {
            CSV_KIND => {
                convert(&CLUSTER_SERVICE_VERSION, &mut object).map_err(|error| invalid(error.to_string()))?;
                self.csvs.push(csv(object).map_err(invalid)?);
            }
            "CustomResourceDefinition" => {
                convert(&CUSTOM_RESOURCE_DEFINITION, &mut object)
                    .map_err(|error| invalid(error.to_string()))?;
                self.crds.push(object);
            }
            _ => {
                numbers_of_64_bits(&mut object);
                self.others.push(object);
            }
        }
        Ok(())
    }
}

#[derive(Deserialize)]
struct RelatedImage {
    image: String,
}

#[derive(Deserialize)]
struct Mode {
    #[serde(rename = "type")]
    name: String,
    supported: bool,
}

/// A definition: CRDs have the group in their name, API services have a field for it.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Named {
    name: String,
    group: String,
    version: String,
    kind: String,
}

impl Named {
    fn kind(&self) -> Option<Value> {
        let group = match self.group.as_str() {
            "" => self.name.split_once('.').map_or("", |(_, group)| group),
            group => group,
        };
        let named = !self.version.is_empty() && !self.kind.is_empty();
        named.then(|| json!({"group": group, "version": self.version, "kind": self.kind}))
    }
}

/// A part of an object that the tables have given its type; the default of one that is left out.
fn part<T: DeserializeOwned + Default>(object: &mut Value, name: &str) -> Result<T, String> {
    match object.get_mut(name).map(Value::take) {
        None | Some(Value::Null) => Ok(T::default()),
        Some(part) => serde_json::from_value(part).map_err(|_| "not a ClusterServiceVersion".to_owned()),
    }
}

fn csv(mut object: Value) -> Result<Csv, String> {
    let (mut metadata, mut spec) = (object["metadata"].take(), object["spec"].take());
    let version: Option<String> = part(&mut spec, "version")?;
    if let Some(version) = &version {
        Version::parse_tolerant(version).map_err(|error| format!("spec.version: {error}"))?;
    }
    let modes: Vec<Mode> = part(&mut spec, "installModes")?;
    let supported = || modes.iter().filter(|mode| mode.supported);
    let unknown = supported().map(|mode| &mode.name).filter(|name| InstallMode::named(name).is_none());
    let short = unknown.filter(|name| name.len() <= MODE_BYTES_MAX);
    let unknown_install_modes = short.take(UNKNOWN_MODES_MAX).cloned().collect();
    let mut strategy = spec["install"]["spec"].take();
    let (mut crds, mut services) =
        (spec["customresourcedefinitions"].take(), spec["apiservicedefinitions"].take());
    let (owned_crds, owned_services): (Vec<Named>, Vec<Named>) =
        (part(&mut crds, "owned")?, part(&mut services, "owned")?);
    let required: [Vec<Named>; 2] = [part(&mut crds, "required")?, part(&mut services, "required")?];
    let related: Vec<RelatedImage> = part(&mut spec, "relatedImages")?;
    Ok(Csv {
        name: part(&mut metadata, "name")?,
        version: version.unwrap_or_default(),
        min_kube_version: part(&mut spec, "minKubeVersion")?,
        annotations: part(&mut metadata, "annotations")?,
        install_modes: supported().filter_map(|mode| InstallMode::named(&mode.name)).collect(),
        unknown_install_modes,
        deployments: part(&mut strategy, "deployments")?,
        permissions: part(&mut strategy, "permissions")?,
        cluster_permissions: part(&mut strategy, "clusterPermissions")?,
        webhooks: part(&mut spec, "webhookdefinitions")?,
        owns_api_services: !owned_services.is_empty(),
        owned_kinds: owned_crds.iter().chain(&owned_services).filter_map(Named::kind).collect(),
        owned_crds: owned_crds.into_iter().map(|named| named.name).collect(),
        required_kinds: required.iter().flatten().filter_map(Named::kind).collect(),
        related_images: related.into_iter().map(|related| related.image).collect(),
    })
}
