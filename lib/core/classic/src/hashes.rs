//! Hashes in the names and labels of objects, as upstream makes them: it recognises its own objects by them.

use olm_go::{
    big_int,
    json::{Html, write_value},
};
use serde_json::Value;
use sha2::{Digest, Sha224};

/// Longest name, in characters.
const NAME_CHARS_MAX: usize = 63;

/// The SHA-224 of a text, as a number in base 62.
pub fn sha224(text: &[u8]) -> String {
    big_int::text(&Sha224::digest(text), 62)
}

/// The hash of a value: of its JSON as Go's encoder writes it, keys sorted, with a line feed if `line` says so.
pub fn of_json(value: &Value, line: bool) -> String {
    let mut text = Vec::new();
    write_value(&mut text, value, Html::Escaped);
    if line {
        text.push(b'\n');
    }
    sha224(&text)
}

/// `base-hash`, the base cut so that 63 characters are enough, with the SHA-224 of a text. As upstream's, the name has 64 if
/// base and hash have 63 together.
pub fn named(base: &str, text: &[u8]) -> String {
    let hash = sha224(text);
    let mut end = base.len();
    if base.len() + hash.len() > NAME_CHARS_MAX {
        end = base.floor_char_boundary(NAME_CHARS_MAX.saturating_sub(hash.len() + 1));
    }
    format!("{}-{hash}", base.get(..end).unwrap_or(base))
}

/// The FNV-1a hash of a text in 64 bits, in hexadecimal digits without leading zeros.
pub fn fnv(text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both were read from a cluster that upstream wrote.
    #[test]
    fn hashes_are_upstreams() {
        assert_eq!(sha224(b"st-nogroup/g1/admin"), "wlKYlds2DrldoAmCRwTi6hK39LKKZURLZsSdy");
        assert_eq!(fnv("ReqOne.v1.st.io"), "a61b01983833da6d");
    }

    #[test]
    fn names_are_cut_where_upstream_cuts_them() {
        let hash = sha224(b"x");
        for (length, kept) in [(5, 5), (63 - hash.len(), 63 - hash.len()), (64 - hash.len(), 62 - hash.len())]
        {
            assert_eq!(named(&"a".repeat(length), b"x"), format!("{}-{hash}", "a".repeat(kept)));
        }
        assert_eq!(named("", b"x"), format!("-{hash}"));
    }

    #[test]
    fn json_is_hashed_as_go_writes_it() {
        let value = serde_json::json!({"b": "<", "a": 1});
        assert_eq!(of_json(&value, true), sha224(b"{\"a\":1,\"b\":\"\\u003c\"}\n"));
        assert_ne!(of_json(&value, true), of_json(&value, false));
    }
}
