//! Digests of a revision's content.

use olm_go::json::marshal;
use olm_object::hex;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Digest of one phase as recorded in `status.observedPhases`: SHA-256 over the JSON of its name and objects.
///
/// It is the JSON that operator-controller hashes, so that revisions which it has recorded are recognised.
pub fn phase_digest<'a>(name: &str, objects: impl IntoIterator<Item = &'a Value>) -> String {
    let mut hash = Sha256::new();
    hash.update(format!(r#"{{"name":{},"objects":["#, marshal(&json!(name))));
    // Object by object: a phase may be large, and is not copied to be hashed.
    for (at, object) in objects.into_iter().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        hash.update(comma);
        hash.update(marshal(object));
    }
    hash.update("]}");
    format!("sha256:{}", hex(&hash.finalize()))
}

/// Digest of a revision's content: of the names of its phases and their digests, in order.
pub fn content_digest<'a>(phases: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    sha256(&phases.into_iter().map(|(name, digest)| json!([name, digest])).collect())
}

/// Digest of any JSON value; keys are sorted, so equal values have equal digests.
pub fn sha256(value: &Value) -> String {
    format!("sha256:{}", hex(&Sha256::digest(value.to_string().as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_known_by_its_phases_in_order() {
        let one = content_digest([("a", "sha256:1"), ("b", "sha256:2")]);
        // What earlier versions wrote for content without a reinstallation.
        assert_eq!(one, sha256(&json!([["a", "sha256:1"], ["b", "sha256:2"]])));
        assert_ne!(one, content_digest([("b", "sha256:2"), ("a", "sha256:1")]));
        assert_ne!(one, content_digest([("a", "sha256:1")]));
    }

    #[test]
    fn keys_are_hashed_in_sorted_order() {
        // Guards against serde_json's `preserve_order`, which any dependency could turn on.
        let a: Value = serde_json::from_str(r#"{"b":1,"a":2}"#).unwrap();
        assert_eq!(a.to_string(), r#"{"a":2,"b":1}"#);
    }

    #[test]
    fn a_change_in_an_object_changes_the_phase() {
        assert_ne!(phase_digest("p", [&json!({"n": 1})]), phase_digest("p", [&json!({"n": 2})]));
    }

    #[test]
    fn a_phase_is_hashed_as_one_json_value() {
        let objects = [json!({"a": "<b>"}), json!({"c": [1, null]})];
        let whole = json!({"name": "p&q", "objects": objects});
        let whole = format!("sha256:{}", hex(&Sha256::digest(marshal(&whole))));
        assert_eq!(phase_digest("p&q", &objects), whole);
        assert_eq!(
            phase_digest("p", []),
            format!("sha256:{}", hex(&Sha256::digest(r#"{"name":"p","objects":[]}"#)))
        );
    }
}
