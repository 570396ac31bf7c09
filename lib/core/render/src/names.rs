//! Names of generated objects. Existing clusters hold them and RBAC refers to them: byte-compatible.
//!
//! As in operator-controller's internal/shared/util/hash and internal/operator-controller/rukpak/util/util.go.

use olm_go::{big_int, json::escape_html};
use serde::Serialize;
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
    let mut json = escape_html(&serde_json::to_string(value)?);
    json.push('\n');
    Ok(big_int::text(&Sha224::digest(json.as_bytes()), 36))
}

#[cfg(test)]
mod tests {
    use serde::Serialize;
    use serde_json::json;

    use super::{deep_hash, object_name};

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
}
