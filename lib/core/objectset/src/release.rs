//! Reading a release that operator-controller's Helm runtime has stored.
//!
//! A release is gzip of the JSON of Helm's record, with a top-level map of labels for the bundle; its
//! manifest has one object per line. Only what a revision needs is read. Texts of errors have the place
//! of a fault and never the content, because manifests may hold Secrets.

use std::{collections::BTreeMap, io::Read};

use flate2::read::GzDecoder;
use serde::Deserialize;
use serde_json::{Value, error::Category};
use thiserror::Error;

use crate::limits;

/// Status of a release that is installed.
const DEPLOYED: &str = "deployed";

/// A release that Helm has installed.
#[derive(Debug, Clone, PartialEq)]
pub struct Release {
    /// Its name, the extension's.
    pub name: String,
    /// The namespace it was installed into.
    pub namespace: String,
    /// Its labels: package, name, version and image of the bundle.
    pub labels: BTreeMap<String, String>,
    /// The objects of its manifest, in Helm's order.
    pub objects: Vec<Value>,
}

/// Why a stored release cannot be read.
#[derive(Debug, Error)]
pub enum ReleaseError {
    /// The bytes are not gzip.
    #[error("it is not gzip: {0}")]
    Decompress(#[from] std::io::Error),
    /// It expands beyond the limit.
    #[error("it has more than {} bytes after decompression", limits::RELEASE_BYTES_MAX)]
    TooLarge,
    /// It is not the JSON of a release.
    #[error("it is {what} at line {line}, column {column}")]
    Json {
        /// What was found.
        what: &'static str,
        /// Line of the JSON, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
    },
    /// Secret and content disagree.
    #[error("its status is not \"{DEPLOYED}\" although its Secret says so")]
    NotDeployed,
    /// A line of the manifest is not an object.
    #[error("line {line} of its manifest is {what}")]
    Object {
        /// Line of the manifest, from 1.
        line: usize,
        /// What was found.
        what: &'static str,
    },
    /// The manifest has more objects than a revision can hold.
    #[error("its manifest has more than {} objects", limits::RELEASE_OBJECTS_MAX)]
    TooManyObjects,
    /// The manifest has no object.
    #[error("its manifest is empty")]
    Empty,
}

#[derive(Deserialize)]
struct Record {
    name: String,
    namespace: String,
    info: Info,
    manifest: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Info {
    status: String,
}

impl Release {
    /// Reads a deployed release from the joined chunks of its Secrets.
    ///
    /// # Errors
    /// It is damaged, larger than the limits, or not deployed.
    pub fn decode(chunks: &[u8]) -> Result<Self, ReleaseError> {
        let mut text = Vec::new();
        GzDecoder::new(chunks).take(limits::RELEASE_BYTES_MAX + 1).read_to_end(&mut text)?;
        if text.len() as u64 > limits::RELEASE_BYTES_MAX {
            return Err(ReleaseError::TooLarge);
        }
        let record: Record = serde_json::from_slice(&text).map_err(|error| ReleaseError::Json {
            what: found(&error, "not a release of Helm"),
            line: error.line(),
            column: error.column(),
        })?;
        if record.info.status != DEPLOYED {
            return Err(ReleaseError::NotDeployed);
        }
        let objects = objects(&record.manifest)?;
        Ok(Self { name: record.name, namespace: record.namespace, labels: record.labels, objects })
    }
}

fn objects(manifest: &str) -> Result<Vec<Value>, ReleaseError> {
    let mut objects = Vec::new();
    for (index, line) in manifest.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let wrong = |what| ReleaseError::Object { line: index + 1, what };
        if line.len() as u64 > limits::OBJECT_BYTES_MAX {
            return Err(wrong("longer than an object can be"));
        }
        if objects.len() == limits::RELEASE_OBJECTS_MAX {
            return Err(ReleaseError::TooManyObjects);
        }
        let object: Value = serde_json::from_str(line).map_err(|e| wrong(found(&e, "not an object")))?;
        if !object.is_object() {
            return Err(wrong("not an object"));
        }
        objects.push(object);
    }
    if objects.is_empty() { Err(ReleaseError::Empty) } else { Ok(objects) }
}

/// The fault, without a word of the content.
fn found(error: &serde_json::Error, otherwise: &'static str) -> &'static str {
    match error.classify() {
        Category::Eof => "cut off",
        Category::Syntax | Category::Io => "not JSON",
        Category::Data => otherwise,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn gzip(content: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    }

    fn stored(status: &str, manifest: &str) -> Vec<u8> {
        let record = json!({
            "name": "ext", "namespace": "n", "version": 3, "info": {"status": status},
            "chart": {"templates": [{"name": "object-1.json"}]}, "manifest": manifest,
            "labels": {"olm.operatorframework.io/bundle-name": "pkg.v1.0.0"},
        });
        gzip(record.to_string().as_bytes())
    }

    #[test]
    fn a_deployed_release_is_read() {
        let manifest = "\n{\"kind\":\"A\"}\n\n{\"kind\":\"B\"}\n";
        let release = Release::decode(&stored("deployed", manifest)).unwrap();
        assert_eq!((release.name.as_str(), release.namespace.as_str()), ("ext", "n"));
        assert_eq!(release.objects, [json!({"kind": "A"}), json!({"kind": "B"})]);
        assert_eq!(release.labels["olm.operatorframework.io/bundle-name"], "pkg.v1.0.0");
    }

    #[test]
    fn damage_is_told_without_the_content() {
        let secret = "{\"kind\":\"Secret\",\"stringData\":{\"p\":\"hunter2\"";
        let whole = stored("deployed", "{\"kind\":\"A\"}");
        let rows = [
            (b"hunter2 hunter2".to_vec(), "it is not gzip: invalid gzip header"),
            (whole[..whole.len() / 2].to_vec(), "it is not gzip: "),
            (gzip(b"[\"hunter2\"]"), "it is not a release of Helm at line 1, column "),
            (gzip(b"{\"name\":\"hunter2\""), "it is cut off at line 1, column "),
            (gzip(b"hunter2"), "it is not JSON at line 1, column "),
            (stored("superseded", "{}"), "its status is not \"deployed\" although its Secret says so"),
            (stored("deployed", secret), "line 1 of its manifest is cut off"),
            (stored("deployed", "{}\n\"hunter2\""), "line 2 of its manifest is not an object"),
            (stored("deployed", "kind: hunter2"), "line 1 of its manifest is not JSON"),
            (stored("deployed", "\n"), "its manifest is empty"),
        ];
        for (bytes, text) in rows {
            let error = Release::decode(&bytes).unwrap_err().to_string();
            assert!(error.starts_with(text), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn a_bomb_is_refused() {
        let zeros = vec![b' '; usize::try_from(limits::RELEASE_BYTES_MAX).unwrap() + 1];
        let bomb = gzip(&zeros);
        assert!(bomb.len() < 1 << 20, "{}", bomb.len());
        assert!(matches!(Release::decode(&bomb), Err(ReleaseError::TooLarge)));
        let many = "{}\n".repeat(limits::RELEASE_OBJECTS_MAX + 1);
        assert!(matches!(Release::decode(&stored("deployed", &many)), Err(ReleaseError::TooManyObjects)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
            prop_assert!(Release::decode(&bytes).is_err());
            prop_assert!(Release::decode(&gzip(&bytes)).is_err());
        }
    }
}
