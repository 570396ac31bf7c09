//! From a catalog back to a template, as the text of one JSON document.

use olm_fbc::SCHEMA_BUNDLE;
use olm_go::json;
use serde_json::value::RawValue;

use super::TemplateKind;
use crate::{Blob, BundleBlob, DecodeError};

/// The basic template of a catalog: its bundles are given by their images alone.
///
/// # Errors
/// A bundle cannot be read.
pub fn to_basic(blobs: &[Blob]) -> Result<Box<RawValue>, DecodeError> {
    let entry = |blob: &Blob| {
        if blob.schema != SCHEMA_BUNDLE {
            return Ok(blob.clone());
        }
        let image = BundleBlob::read(blob)?.image;
        Ok(BundleBlob { image, ..BundleBlob::default() }.to_blob())
    };
    let entries: Vec<Blob> = blobs.iter().map(entry).collect::<Result<_, DecodeError>>()?;
    Ok(template(TemplateKind::Basic, &entries))
}

/// The substitutes template of a catalog, with no substitution yet.
pub fn to_substitutes(blobs: &[Blob]) -> Box<RawValue> {
    template(TemplateKind::Substitutes, blobs)
}

fn template(kind: TemplateKind, entries: &[Blob]) -> Box<RawValue> {
    let entries: Vec<String> = entries.iter().map(|entry| json::escape_html(entry.json.get())).collect();
    let substitutions = if kind == TemplateKind::Substitutes { ",\"substitutions\":[]" } else { "" };
    let (schema, entries) = (kind.schema(), entries.join(","));
    json::into_raw(format!("{{\"schema\":\"{schema}\",\"entries\":[{entries}]{substitutions}}}").into_bytes())
}
