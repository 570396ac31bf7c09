//! Names and hashes of what is made of a ClusterServiceVersion. Existing clusters hold them: byte-compatible.

use olm_go::json::escape_html;
use serde::Serialize;

use crate::hashes::{named, sha224};

/// The hash of the value's JSON as Go marshals it.
pub(super) fn of_json<T: Serialize>(value: &T) -> Result<String, serde_json::Error> {
    Ok(sha224(escape_html(&serde_json::to_string(value)?).as_bytes()))
}

/// `base-hash`, cut. The hash is that of the value's JSON as Go encodes it, with a line feed.
pub(super) fn name<T: Serialize>(base: &str, value: &T) -> Result<String, serde_json::Error> {
    Ok(named(base, (escape_html(&serde_json::to_string(value)?) + "\n").as_bytes()))
}
