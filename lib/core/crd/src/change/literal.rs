//! Values in the spelling of Go's formatting verbs, which crdify's texts use.

use std::fmt::Write;

use serde_json::{Map, Number, Value};

/// A string as `%q` writes it.
pub(crate) fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            _ if is_printable(character) => quoted.push(character),
            _ => {
                let code = u32::from(character);
                // Writing to a string cannot fail.
                let _ = match code {
                    0..=0x7f => write!(quoted, "\\x{code:02x}"),
                    0x80..=0xffff => write!(quoted, "\\u{code:04x}"),
                    _ => write!(quoted, "\\U{code:08x}"),
                };
            }
        }
    }
    quoted.push('"');
    quoted
}

/// Whether Go would print the character as it is: letters, marks, numbers, punctuation, symbols and
/// the blank.
fn is_printable(character: char) -> bool {
    if character.is_ascii() {
        return !character.is_ascii_control();
    }
    // Behind another character, escape_debug escapes what is not printable and nothing else.
    let pair: String = ['a', character].into_iter().collect();
    pair.escape_debug().nth(1) == Some(character)
}

/// A float as `%v` writes it: the shortest form, scientific when the exponent is below -4 or at
/// least 6.
pub(crate) fn float(value: f64) -> String {
    scientific(value, -4, 6)
}

/// The shortest form of a float, scientific when its exponent is below `low` or at least `high`.
fn scientific(value: f64, low: i32, high: i32) -> String {
    if value == 0.0 {
        return if value.is_sign_negative() { "-0" } else { "0" }.to_owned();
    }
    // `{:e}` gives the shortest digits that read back as the same value.
    let shortest = format!("{value:e}");
    let Some((mantissa, exponent)) = shortest.split_once('e') else {
        return shortest;
    };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (low..high).contains(&exponent) {
        return format!("{value}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
}

/// A JSON value as Go's encoder writes it: compact, keys sorted, whole floats without a point, and
/// the characters that are special in HTML escaped.
pub(crate) fn json(value: &Value) -> String {
    let mut text = String::new();
    write_json(&mut text, value);
    text
}

fn write_json(text: &mut String, value: &Value) {
    match value {
        Value::Null => text.push_str("null"),
        Value::Bool(value) => text.push_str(if *value { "true" } else { "false" }),
        Value::Number(number) => text.push_str(&json_number(number)),
        Value::String(string) => write_json_string(text, string),
        Value::Array(list) => {
            text.push('[');
            for (index, element) in list.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write_json(text, element);
            }
            text.push(']');
        }
        Value::Object(object) => {
            text.push('{');
            for (index, (key, member)) in sorted(object).into_iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write_json_string(text, key);
                text.push(':');
                write_json(text, member);
            }
            text.push('}');
        }
    }
}

/// The members by name: whether a map is sorted depends on the features with which serde_json is built.
fn sorted(object: &Map<String, Value>) -> Vec<(&String, &Value)> {
    let mut members: Vec<_> = object.iter().collect();
    members.sort_by_key(|(key, _)| *key);
    members
}

fn json_number(number: &Number) -> String {
    if number.is_f64() {
        let value = number.as_f64().unwrap_or_default();
        // Go strips the leading zero of a negative exponent here, and only here.
        return scientific(value, -6, 21).replace("e-0", "e-");
    }
    number.to_string()
}

fn write_json_string(text: &mut String, string: &str) {
    text.push('"');
    for character in string.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\u{8}' => text.push_str("\\b"),
            '\u{c}' => text.push_str("\\f"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => {
                // Writing to a string cannot fail.
                let _ = write!(text, "\\u{:04x}", u32::from(character));
            }
            _ => text.push(character),
        }
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{float, json, quote};

    #[test]
    fn strings_are_quoted_as_go_does() {
        for (text, quoted) in [
            ("plain", r#""plain""#),
            ("a\"b\\c", r#""a\"b\\c""#),
            ("tab\tbell\u{7}", r#""tab\tbell\a""#),
            ("\u{1}\u{7f}", r#""\x01\x7f""#),
            ("é e\u{301} 日本", "\"é e\u{301} 日本\""),
            ("\u{a0}\u{200b}\u{feff}", r#""\u00a0\u200b\ufeff""#),
            ("\u{e0001}", r#""\U000e0001""#),
        ] {
            assert_eq!(quote(text), quoted);
        }
    }

    #[test]
    fn floats_have_gos_shortest_form() {
        for (value, text) in [
            (0.0, "0"),
            (1.0, "1"),
            (-2.5, "-2.5"),
            (999_999.0, "999999"),
            (5_000_000.0, "5e+06"),
            (1_234_567.0, "1.234567e+06"),
            (0.0001, "0.0001"),
            (0.000_01, "1e-05"),
            (9_007_199_254_740_991.0, "9.007199254740991e+15"),
        ] {
            assert_eq!(float(value), text);
        }
    }

    #[test]
    fn json_is_written_as_go_does() {
        for (value, text) in [
            (json!({"b": 1, "a": [null, true]}), r#"{"a":[null,true],"b":1}"#),
            (json!(1.0), "1"),
            (json!(5_000_000.0), "5000000"),
            (json!(1e21), "1e+21"),
            (json!(1e-7), "1e-7"),
            (json!("a<b>&\u{2028}\u{1}"), r#""a\u003cb\u003e\u0026\u2028\u0001""#),
        ] {
            assert_eq!(json(&value), text);
        }
    }
}
