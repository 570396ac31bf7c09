//! Digests of a revision's content.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::phase::Phase;

/// Lower-case hexadecimal text.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Digest of one phase as recorded in `status.observedPhases`: SHA-256 over the JSON of its name and objects.
///
/// It is the JSON that the original's language writes, so that revisions the original has recorded are known
/// again.
pub fn phase_digest(phase: &Phase) -> String {
    let mut text = String::new();
    write_as_go(&json!({"name": phase.name, "objects": phase.objects}), &mut text);
    format!("sha256:{}", hex(&Sha256::digest(text.as_bytes())))
}

/// Digest of a revision's content: of the names of its phases and their digests, in order.
pub fn content_digest<'a>(phases: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    sha256(&phases.into_iter().map(|(name, digest)| json!([name, digest])).collect())
}

/// Digest of any JSON value; keys are sorted, so equal values have equal digests.
pub fn sha256(value: &Value) -> String {
    format!("sha256:{}", hex(&Sha256::digest(value.to_string().as_bytes())))
}

/// Compact JSON as Go's encoder writes it: characters that mean something in HTML are escaped, and numbers
/// have no fraction that they do not need.
fn write_as_go(value: &Value, text: &mut String) {
    match value {
        Value::Object(fields) => {
            for (index, (key, field)) in fields.iter().enumerate() {
                text.push(if index == 0 { '{' } else { ',' });
                write_string(key, text);
                text.push(':');
                write_as_go(field, text);
            }
            text.push_str(if fields.is_empty() { "{}" } else { "}" });
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                text.push(if index == 0 { '[' } else { ',' });
                write_as_go(item, text);
            }
            text.push_str(if items.is_empty() { "[]" } else { "]" });
        }
        Value::String(string) => write_string(string, text),
        Value::Number(number) => match number.as_f64().filter(|_| number.as_i64().is_none()) {
            Some(float) => text.push_str(&float_text(float)),
            None => text.push_str(&number.to_string()),
        },
        Value::Null | Value::Bool(_) => text.push_str(&value.to_string()),
    }
}

fn write_string(string: &str, text: &mut String) {
    for character in Value::from(string).to_string().chars() {
        match character {
            '<' => text.push_str("\\u003c"),
            '>' => text.push_str("\\u003e"),
            '&' => text.push_str("\\u0026"),
            '\u{2028}' => text.push_str("\\u2028"),
            '\u{2029}' => text.push_str("\\u2029"),
            other => text.push(other),
        }
    }
}

/// The shortest form; with an exponent only where the digits would be many.
fn float_text(float: f64) -> String {
    let size = float.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        let text = format!("{float:e}");
        return if text.contains("e-") { text } else { text.replace('e', "e+") };
    }
    format!("{float}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_written_as_the_original_does() {
        let rows = [
            (json!({"b": [], "a": {}}), r#"{"a":{},"b":[]}"#),
            (json!("<a href=\"x\">&\u{2028}\n\u{1}"), r#""\u003ca href=\"x\"\u003e\u0026\u2028\n\u0001""#),
            (json!([1, -2, 1.0, 0.5, 1e21, 1.5e-7, 0.0]), "[1,-2,1,0.5,1e+21,1.5e-7,0]"),
            (json!([u64::MAX, true, null]), "[18446744073709552000,true,null]"),
        ];
        for (value, expected) in rows {
            let mut text = String::new();
            write_as_go(&value, &mut text);
            assert_eq!(text, expected);
        }
    }

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
        let phase = |n: i32| Phase { name: "p".into(), objects: vec![json!({"n": n})] };
        assert_ne!(phase_digest(&phase(1)), phase_digest(&phase(2)));
        assert!(phase_digest(&phase(1)).starts_with("sha256:"));
    }
}
