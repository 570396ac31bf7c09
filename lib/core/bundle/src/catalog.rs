//! A bundle as opm reads it for catalogs, which is laxer than installing it: of each file the first document counts,
//! hidden files and sub-folders are ignored, and so is a file that cannot be read.

use serde_json::Value;

use crate::{BundleFiles, CSV_KIND};

/// A manifest and its file.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// Path of the file.
    pub file: String,
    /// The object.
    pub object: Value,
}

impl Manifest {
    /// The kind of the object.
    pub fn kind(&self) -> &str {
        kind(&self.object)
    }
}

fn kind(object: &Value) -> &str {
    object.get("kind").and_then(Value::as_str).unwrap_or_default()
}

/// The first document of each file in `manifests/`, in the order of the names, with at most one
/// ClusterServiceVersion. Files that are left out are named in `warnings`.
pub fn first_manifests(files: &BundleFiles, warnings: &mut Vec<String>) -> Vec<Manifest> {
    let mut found: Vec<Manifest> = Vec::new();
    for (name, content) in files.below("manifests/") {
        if name.contains('/') || name.starts_with('.') {
            continue;
        }
        let file = format!("manifests/{name}");
        let (object, more) = match first_object(content) {
            Ok(read) => read,
            Err(problem) => {
                warnings.push(format!("{file}: ignored: {problem}"));
                continue;
            }
        };
        if more {
            warnings.push(format!("{file}: found more than one document, using only the first one"));
        }
        if kind(&object) == CSV_KIND && found.iter().any(|manifest| manifest.kind() == CSV_KIND) {
            warnings.push(format!("{file}: ignored: the bundle has a {CSV_KIND} already"));
            continue;
        }
        found.push(Manifest { file, object });
    }
    found
}

/// The first document of a file, and whether there are more.
fn first_object(content: &[u8]) -> Result<(Value, bool), String> {
    let text = olm_yaml::text(content).map_err(|error| error.to_string())?;
    let mut documents = olm_yaml::mixed(text);
    let object = match documents.next() {
        None => return Err("the file is empty".to_owned()),
        Some(Err(error)) => return Err(error.to_string()),
        Some(Ok(object)) => object,
    };
    if kind(&object).is_empty() {
        return Err("its first document is no object with a kind".to_owned());
    }
    // The rest is not used, so it may be wrong; an empty document is no object.
    let more = documents.next().is_some_and(|next| next.is_ok_and(|next| !kind(&next).is_empty()));
    Ok((object, more))
}

/// The first document of a file in `metadata/`.
#[derive(Debug, Clone, PartialEq)]
pub struct MetadataDocument {
    /// The document.
    pub value: Value,
    /// Whether it is written in JSON, where numbers are no strings.
    pub is_json: bool,
}

/// The first document of each file in `metadata/`, in the order of the names, whatever they are.
pub fn first_metadata(files: &BundleFiles) -> impl Iterator<Item = MetadataDocument> {
    let contents = files.below("metadata/").filter(|(name, _)| !name.contains('/'));
    contents.filter_map(|(_, content)| {
        let text = olm_yaml::text(content).ok()?;
        let value = olm_yaml::mixed(text).next()?.ok()?;
        Some(MetadataDocument { value, is_json: text.trim_start().starts_with('{') })
    })
}
