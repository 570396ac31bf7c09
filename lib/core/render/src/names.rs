//! Names of generated objects. Existing clusters hold them and RBAC refers to them: byte-compatible.
//!
//! Source: operator-controller `internal/shared/util/hash` and `rukpak/util`.

use std::io;

use serde::Serialize;
use serde_json::{Serializer, Value, ser::Formatter};
use sha2::{Digest, Sha224};

/// Longest name that is generated without cutting the base.
const NAME_CHARS_MAX: usize = 63;

/// `base-suffix`, the base cut so that 63 characters are enough.
///
/// As upstream forgets the hyphen, lengths that add up to exactly 63 give 64 characters; RBAC names allow
/// that, and other names would not be found again.
pub(crate) fn object_name(base: &str, suffix: &str) -> String {
    let mut kept = base.len();
    if base.len() + suffix.len() > NAME_CHARS_MAX {
        kept = NAME_CHARS_MAX.saturating_sub(suffix.len() + 1).min(base.len());
        while !base.is_char_boundary(kept) {
            kept -= 1;
        }
    }
    format!("{}-{suffix}", base.get(..kept).unwrap_or(base))
}

/// SHA-224 in base 36 of the value's JSON as Go writes it, with a line feed. Fields in declaration order.
pub(crate) fn deep_hash<T: Serialize>(value: &T) -> Result<String, serde_json::Error> {
    let mut json = go_json(&serde_json::to_string(value)?);
    json.push('\n');
    Ok(base36(Sha224::digest(json.as_bytes()).to_vec()))
}

/// Escapes in JSON text what Go's encoder escapes beyond the necessary; such characters occur in strings only.
pub(crate) fn go_json(json: &str) -> String {
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

/// The bytes as one big-endian number in base 36, without leading zeros.
fn base36(mut number: Vec<u8>) -> String {
    let mut digits = Vec::new();
    while number.iter().any(|byte| *byte != 0) {
        let mut rest: u32 = 0;
        for byte in &mut number {
            let value = rest << 8 | u32::from(*byte);
            // value < 36 * 256, so the quotient fits a byte.
            *byte = u8::try_from(value / 36).unwrap_or(u8::MAX);
            rest = value % 36;
        }
        digits.extend(char::from_digit(rest, 36));
    }
    if digits.is_empty() {
        return "0".to_owned();
    }
    digits.into_iter().rev().collect()
}

#[cfg(test)]
mod tests {
    use serde::Serialize;
    use serde_json::json;

    use super::{deep_hash, go_value, object_name};

    #[derive(Serialize)]
    #[serde(rename_all = "PascalCase")]
    struct Sample {
        str: &'static str,
        num: u8,
        obj: serde_json::Value,
        arr: [u8; 2],
        b: bool,
        n: Option<u8>,
    }

    // The values are those of upstream's own tests.
    #[test]
    fn hashes_are_upstreams() {
        let sample =
            |num| Sample { str: "foobar", num, obj: json!({"Foo": "bar"}), arr: [0, 1], b: true, n: None };
        assert_eq!(deep_hash(&sample(22)).unwrap(), "gta1bt5sybll5qjqxdiekmjm7py93glrinmnrfb31fj");
        assert_eq!(deep_hash(&sample(23)).unwrap(), "1ftn1z2ieih8hsmi2a8c6mkoef6uodrtn4wtt1qapioh");
        assert_eq!(deep_hash(&json!({})).unwrap(), "16jfjhihxbzhfhs1k5mimq740kvioi98pfbea9q6qtf9");
        assert_eq!(deep_hash(&"a").unwrap(), "1lu1qv1451mq7gv9upu1cx8ffffi07rel5xvbvvc44dh");
        assert_eq!(deep_hash(&()).unwrap(), "2im0kl1kwvzn46sr4cdtkvmdzrlurvj51xdzhwdht8l0");
    }

    #[test]
    fn long_names_are_cut_and_the_hyphen_is_forgotten() {
        let base = "my.object.thing.has.a.really.really.really.really.really.long.name";
        assert_eq!(
            object_name(base, "suffix"),
            "my.object.thing.has.a.really.really.really.really.really-suffix"
        );
        assert_eq!(object_name(&"b".repeat(19), &"s".repeat(44)).len(), 64);
        assert_eq!(object_name(&"b".repeat(20), &"s".repeat(44)).len(), 63);
    }

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
