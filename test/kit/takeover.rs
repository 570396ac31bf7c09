//! Recorded clusters on which upstream has installed operators, put into a fresh API server.
//!
//! The server gives out UIDs, resource versions and generations anew; what refers to them is adapted: owner
//! references, keys of managed fields, observed generations, and the owner inside Helm's releases. Everything
//! else is as it was recorded. Nothing may act on the objects meanwhile: stop the cluster's controllers first.

mod load;
mod text;

use std::fs::File;

use crate::prelude::*;
pub use load::load;
use text::{release_text, with_release_text};

/// Annotations of a revision, or labels of a release, that tell about its bundle.
const BUNDLE: [&str; 3] = [
    "olm.operatorframework.io/package-name",
    "olm.operatorframework.io/bundle-version",
    "olm.operatorframework.io/bundle-reference",
];

/// An object of a dump.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// The plural of its kind.
    pub resource: String,
    /// The object as it was recorded.
    pub object: Value,
}

impl Recorded {
    /// A field as text, or nothing.
    pub fn text(&self, pointer: &str) -> &str {
        olm_object::text(&self.object, pointer)
    }

    /// Its kind.
    pub fn kind(&self) -> &str {
        self.text("/kind")
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.text("/metadata/name")
    }
}

/// A recorded cluster.
#[derive(Clone, Debug)]
pub struct Dump {
    /// Its objects.
    pub objects: Vec<Recorded>,
}

/// The folder of a dump below the data, or `None`, said on standard output.
pub fn folder(name: &str) -> Option<PathBuf> {
    crate::data::find(&format!("takeover/{name}"))
}

impl Dump {
    /// Reads the lists of a folder, one per kind.
    pub fn read(folder: &Path) -> Result<Self> {
        let mut objects = Vec::new();
        let mut paths: Vec<PathBuf> =
            fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
        paths.sort();
        for path in paths {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let Some(place) = name.strip_suffix(".json.zst") else { continue };
            let resource = place.split('.').next().unwrap_or(place).to_owned();
            let decoder = zstd::Decoder::new(File::open(&path)?)?;
            let list: Value =
                serde_json::from_reader(decoder).with_context(|| format!("reading {}", path.display()))?;
            for object in list["items"].as_array().into_iter().flatten() {
                objects.push(Recorded { resource: resource.clone(), object: object.clone() });
            }
        }
        ensure!(!objects.is_empty(), "no lists in {}", folder.display());
        Ok(Self { objects })
    }

    /// Without the objects of these kinds.
    #[must_use]
    pub fn without(mut self, kinds: &[&str]) -> Self {
        self.objects.retain(|one| !kinds.contains(&one.kind()));
        self
    }

    /// Without what belongs to other extensions than these: their objects and everything in their namespaces.
    #[must_use]
    pub fn only(mut self, extensions: &[&str]) -> Self {
        let others: Vec<(String, String)> = self
            .objects
            .iter()
            .filter(|one| one.kind() == "ClusterExtension" && !extensions.contains(&one.name()))
            .map(|one| (one.name().to_owned(), one.text("/spec/namespace").to_owned()))
            .collect();
        let of_another = |one: &Recorded| {
            let labels = ["/metadata/labels/olm.operatorframework.io~1owner-name", "/metadata/labels/name"];
            others.iter().any(|(name, namespace)| {
                one.kind() == "ClusterExtension" && one.name() == name
                    || labels.iter().any(|label| one.text(label) == name)
                    || one.text("/metadata/namespace") == namespace
            })
        };
        self.objects.retain(|one| !of_another(one));
        self
    }

    /// The bundle images that are installed: package and version by reference.
    pub fn bundles(&self) -> Result<BTreeMap<String, (String, String)>> {
        let mut bundles = BTreeMap::new();
        for one in &self.objects {
            let release = release_text(&one.object)?;
            let release: Value = match &release {
                Some(text) => serde_json::from_str(text)?,
                None => Value::Null,
            };
            for told in [&one.object["metadata"]["annotations"], &release["labels"]] {
                let [package, version, reference] = BUNDLE.map(|key| told[key].as_str());
                if let (Some(package), Some(version), Some(reference)) = (package, version, reference) {
                    bundles.insert(reference.to_owned(), (package.to_owned(), version.to_owned()));
                }
            }
        }
        Ok(bundles)
    }

    /// Replaces texts everywhere, inside Helm's releases too.
    pub fn replace(&mut self, pairs: &[(String, String)]) -> Result<()> {
        let replaced =
            |text: &str| pairs.iter().fold(text.to_owned(), |text, (old, new)| text.replace(old, new));
        for one in &mut self.objects {
            with_release_text(&mut one.object, replaced)?;
            one.object = serde_json::from_str(&replaced(&one.object.to_string()))?;
        }
        Ok(())
    }
}
