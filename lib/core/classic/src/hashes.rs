//! Hashes in the names and labels of objects, as upstream makes them: it recognises its own objects by them.

use olm_go::{
    big_int,
    json::{Html, write_value},
};
use serde_json::Value;
use sha2::{Digest, Sha224};

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
    fn json_is_hashed_as_go_writes_it() {
        let value = serde_json::json!({"b": "<", "a": 1});
        assert_eq!(of_json(&value, true), sha224(b"{\"a\":1,\"b\":\"\\u003c\"}\n"));
        assert_ne!(of_json(&value, true), of_json(&value, false));
    }
}
