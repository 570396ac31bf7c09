//! JSON text as Go writes it.

use std::io;

use serde::Serialize;
use serde_json::{Serializer, Value, ser::Formatter};

/// Escapes in JSON text what Go's encoder escapes beyond the necessary; such characters occur in strings only.
pub fn go_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            c => out.push(c),
        }
    }
    out
}

/// A value's JSON as Go writes it, apart from what [`go_json`] escapes: floats have their own spelling.
pub(crate) fn go_value(value: &Value) -> String {
    struct GoNumbers;
    impl Formatter for GoNumbers {
        fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
            writer.write_all(go_float(value).as_bytes())
        }
    }
    let mut json = Vec::new();
    // Writing values to memory cannot fail.
    let _ = value.serialize(&mut Serializer::with_formatter(&mut json, GoNumbers));
    String::from_utf8_lossy(&json).into_owned()
}

/// The shortest digits, with an exponent only below 1e-6 and from 1e21 on.
fn go_float(value: f64) -> String {
    if value == 0.0 || (1e-6..1e21).contains(&value.abs()) {
        return format!("{value}");
    }
    let text = format!("{value:e}");
    match text.split_once('e') {
        Some((mantissa, power)) if !power.starts_with('-') => format!("{mantissa}e+{power}"),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::go_value;

    #[test]
    fn floats_are_spelled_as_go_spells_them() {
        for (value, text) in [
            (json!(4.2), "4.2"),
            (json!(0.000_001), "0.000001"),
            (json!(0.000_000_15), "1.5e-7"),
            (json!(1e22), "1e+22"),
            (json!(1.5e20), "150000000000000000000"),
            (json!({"a": [0.5, null, "x"]}), "{\"a\":[0.5,null,\"x\"]}"),
        ] {
            assert_eq!(go_value(&value), text);
        }
    }
}
