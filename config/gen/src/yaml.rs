//! Values as YAML in block style, the way people write manifests.
//!
//! Only what generated manifests need: no comments, no anchors. Texts that are more than plain words are in
//! double quotes with JSON's escapes, which YAML shares, so that every YAML reader reads them as texts.

use std::collections::BTreeMap;

use serde_json::Value;

/// The document, ending in a line break.
pub(crate) fn write(value: &Value) -> String {
    let mut out = String::new();
    block(&mut out, value, 0);
    out
}

fn block(out: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            // Sorted here: serde_json's own order depends on features that other crates turn on.
            for (key, value) in map.iter().collect::<BTreeMap<_, _>>() {
                margin(out, indent);
                out.push_str(&text(key));
                out.push(':');
                if nested(value) {
                    out.push('\n');
                    // A list stands under its key without being indented, as kubectl writes it.
                    block(out, value, if value.is_array() { indent } else { indent + 2 });
                } else {
                    out.push(' ');
                    scalar(out, value);
                }
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                margin(out, indent);
                out.push_str("- ");
                block(out, item, indent + 2);
            }
        }
        _ => scalar(out, value),
    }
}

/// Indents a line that begins here; what is first in a list item stands behind its dash.
fn margin(out: &mut String, indent: usize) {
    if out.is_empty() || out.ends_with('\n') {
        out.extend(std::iter::repeat_n(' ', indent));
    }
}

fn nested(value: &Value) -> bool {
    match value {
        Value::Object(map) => !map.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    }
}

fn scalar(out: &mut String, value: &Value) {
    match value {
        Value::String(string) => out.push_str(&text(string)),
        // Limits are floating point numbers in a schema's types and whole numbers in what people write.
        Value::Number(number) => out.push_str(number.to_string().trim_end_matches(".0")),
        other => out.push_str(&other.to_string()),
    }
    out.push('\n');
}

/// A text bare where that is safe under every YAML version, else quoted.
fn text(text: &str) -> String {
    const WORDS: [&str; 10] = ["true", "false", "yes", "no", "on", "off", "null", "y", "n", "nan"];
    let plain = text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || " ./_-,()".contains(c))
        && !text.ends_with(' ')
        && !WORDS.contains(&text.to_ascii_lowercase().as_str());
    if plain { text.to_owned() } else { Value::from(text).to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_in_block_style() {
        let value = serde_json::json!({
            "a": {"list": [1, {"k": "v", "l": ["m"]}, [true]], "none": {}, "empty": []},
            "max": 720.0,
            "on": "Yes",
            "text": "it's: \"x\"\n",
        });
        assert_eq!(
            write(&value),
            "a:\n  empty: []\n  list:\n  - 1\n  - k: v\n    l:\n    - m\n  - - true\n  none: {}\nmax: 720\n\
             \"on\": \"Yes\"\ntext: \"it's: \\\"x\\\"\\n\"\n"
        );
    }
}
