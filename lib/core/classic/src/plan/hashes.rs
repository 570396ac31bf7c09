//! Names and hashes of what is made of a ClusterServiceVersion. Existing clusters hold them: byte-compatible.

use olm_go::json::escape_html;
use serde::Serialize;

use crate::hashes::sha224;

/// Longest name, in characters.
const NAME_CHARS_MAX: usize = 63;

/// The hash of the value's JSON as Go marshals it.
pub(super) fn of_json<T: Serialize>(value: &T) -> Result<String, serde_json::Error> {
    Ok(sha224(escape_html(&serde_json::to_string(value)?).as_bytes()))
}

/// `base-hash`, the base cut so that 63 characters are enough. The hash is that of the value's JSON as Go encodes it, with a
/// line feed.
pub(super) fn name<T: Serialize>(base: &str, value: &T) -> Result<String, serde_json::Error> {
    let hash = sha224((escape_html(&serde_json::to_string(value)?) + "\n").as_bytes());
    let mut end = base.len();
    if base.len() + hash.len() > NAME_CHARS_MAX {
        end = base.floor_char_boundary(NAME_CHARS_MAX.saturating_sub(hash.len() + 1));
    }
    Ok(format!("{}-{hash}", base.get(..end).unwrap_or(base)))
}
