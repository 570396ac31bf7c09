//! The large real catalog, a small one cut from it, and the names in it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

/// Size of the small catalog, about.
const SMALL_BYTES: usize = 6_000_000;
/// The catalog in the folder with data.
const FILE: &str = "community.jsonl.zst";

/// A catalog as JSON lines.
pub(super) struct LargeCatalog {
    /// All of it.
    pub(super) content: Vec<u8>,
    /// Whole packages of it, together about 6 MB.
    pub(super) small: Vec<u8>,
    /// The names of its packages.
    pub(super) packages: Vec<String>,
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    schema: std::borrow::Cow<'a, str>,
    #[serde(borrow, default)]
    package: std::borrow::Cow<'a, str>,
    #[serde(borrow, default)]
    name: std::borrow::Cow<'a, str>,
}

impl LargeCatalog {
    /// Reads it; `None`, said on standard output, when it is absent.
    pub(super) fn read(data: &Path) -> Result<Option<Self>> {
        let path = data.join(FILE);
        if !path.is_file() {
            println!("skipped: figures on a large catalog, there is no {}", path.display());
            return Ok(None);
        }
        let mut content = Vec::new();
        zstd::Decoder::new(File::open(&path)?)?
            .read_to_end(&mut content)
            .with_context(|| format!("unpacking {}", path.display()))?;
        let mut by_package: BTreeMap<String, Vec<&[u8]>> = BTreeMap::new();
        for line in content.split_inclusive(|byte| *byte == b'\n').filter(|l| !l.trim_ascii().is_empty()) {
            let blob: Line<'_> = serde_json::from_slice(line)?;
            let package = if blob.schema == olm_fbc::SCHEMA_PACKAGE { blob.name } else { blob.package };
            by_package.entry(package.into_owned()).or_default().push(line);
        }
        let mut small = Vec::new();
        for lines in by_package.values() {
            let bytes: usize = lines.iter().map(|line| line.len()).sum();
            if small.len() + bytes <= SMALL_BYTES {
                small.extend(lines.iter().copied().flatten());
            }
        }
        let packages = by_package.into_keys().filter(|name| !name.is_empty()).collect();
        Ok(Some(Self { content, small, packages }))
    }
}
