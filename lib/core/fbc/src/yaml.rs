//! One YAML document as a JSON value, within the limits of a catalog's document.

use olm_yaml::{Limits, RepairBudget, YamlError};
use serde_json::Value;

use crate::{
    FbcError,
    limits::{DOCUMENT_BYTES_MAX, DOCUMENT_DEPTH_MAX, DOCUMENT_NODES_MAX},
};

/// Reads the document in `text`; an empty one is null. `lines_before` is where it starts in its file.
pub fn document(text: &str, lines_before: u64, repairs: &RepairBudget) -> Result<Value, FbcError> {
    let limits = Limits {
        bytes: DOCUMENT_BYTES_MAX,
        depth: DOCUMENT_DEPTH_MAX,
        nodes: DOCUMENT_NODES_MAX,
        expanded_bytes: DOCUMENT_BYTES_MAX,
        ..Limits::default()
    };
    olm_yaml::one_within(text, limits, repairs).map_err(|error| {
        let line = lines_before + error.line() as u64;
        let problem = match error {
            YamlError::Syntax { message, .. } | YamlError::Json { message, .. } => message,
            YamlError::Value { message, .. } => message.to_owned(),
            other => other.to_string(),
        };
        FbcError::Yaml { line, problem }
    })
}
