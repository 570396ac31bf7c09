//! The text inside Helm's releases, which are gzip of JSON.

use std::io::{Read, Write};

use anyhow::{Context, Result};
use base64::{Engine, engine::general_purpose::STANDARD};
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use serde_json::Value;

const INDEX_TYPE: &str = "operatorframework.io/index.v1";

/// The JSON of a release, if the object holds one, whole and in one piece.
pub(super) fn release_text(object: &Value) -> Result<Option<String>> {
    if object["type"] != INDEX_TYPE {
        return Ok(None);
    }
    let chunk = object["data"]["chunk"].as_str().context("a release without content")?;
    let mut text = String::new();
    let read = GzDecoder::new(&*STANDARD.decode(chunk)?).read_to_string(&mut text);
    Ok(read.is_ok().then_some(text))
}

/// Changes the JSON of a release, if the object holds one.
pub(super) fn with_release_text(object: &mut Value, change: impl FnOnce(&str) -> String) -> Result<()> {
    let Some(text) = release_text(object)? else { return Ok(()) };
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(change(&text).as_bytes())?;
    object["data"]["chunk"] = STANDARD.encode(encoder.finish()?).into();
    Ok(())
}
