//! The objects in `manifests/`: the first document of each file, in the order of the names.

use serde_json::Value;

use super::{BundleTree, CSV_KIND, Manifest, kind};

const FOLDER: &str = "manifests/";

/// Reads what can be read; the rest is named in `warnings`.
pub(super) fn read(files: &BundleTree, warnings: &mut Vec<String>) -> Vec<Manifest> {
    let mut found: Vec<Manifest> = Vec::new();
    let mut csv_seen = false;
    for (path, content) in files {
        let Some(name) = path.strip_prefix(FOLDER) else { continue };
        if name.contains('/') || name.starts_with('.') {
            continue;
        }
        let (object, more) = match first_document(content) {
            Ok(read) => read,
            Err(problem) => {
                warnings.push(format!("{path}: ignored: {problem}"));
                continue;
            }
        };
        if more {
            warnings.push(format!("{path}: found more than one document, using only the first one"));
        }
        if kind(&object) == CSV_KIND {
            if csv_seen {
                warnings.push(format!("{path}: ignored: the bundle has a {CSV_KIND} already"));
                continue;
            }
            csv_seen = true;
        }
        found.push(Manifest { file: path.clone(), object });
    }
    found
}

/// The first document of a file, and whether there are more.
fn first_document(content: &[u8]) -> Result<(Value, bool), String> {
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
    // What follows is not used, so it need not be right; an empty document is no object.
    let more = documents.next().is_some_and(|next| next.is_ok_and(|next| !kind(&next).is_empty()));
    Ok((object, more))
}
