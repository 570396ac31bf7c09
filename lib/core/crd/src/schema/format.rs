//! Formats of strings and numbers that the API server enforces; it ignores all others.
//!
//! Imitated: k8s.io/kube-openapi `pkg/validation/strfmt`. Formats that no definition of the known operators uses
//! (host names, UUIDs, ISBN, colours and the like) are undecided, as are URIs that are not plain.

use std::{net::Ipv6Addr, sync::LazyLock};

use jiff::civil::Date;
use olm_cel::duration;
use regex::Regex;

use super::NodeKind as Kind;
use crate::Tristate;

/// A format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Int32,
    Int64,
    Float,
    Double,
    Byte,
    Date,
    DateTime,
    Duration,
    Password,
    Uri,
    Email,
    Ipv4,
    Ipv6,
    /// A format that is enforced but not implemented here.
    Unknown,
}

static BASE64: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$").ok()
});

static TIME: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$").ok()
});

static URI: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let scheme = "[A-Za-z][A-Za-z0-9+.-]*:";
    let rest = r"[A-Za-z0-9._~&=;,+@?/-]*";
    Regex::new(&format!(
        r"^(\*|/|/[A-Za-z0-9._~-]{rest}|{scheme}(//[A-Za-z0-9._~-]+(:[0-9]+)?(/{rest})?|[a-z0-9]{rest}))$"
    ))
    .ok()
});

static EMAIL: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let atom = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~\-]+";
    Regex::new(&format!(r"^{atom}(\.{atom})*@{atom}(\.{atom})*$")).ok()
});

impl Format {
    /// The format that is enforced on values of these types.
    pub(crate) fn of(name: &str, kinds: &[Kind]) -> Option<Self> {
        match (kinds, name) {
            ([Kind::Integer], "int32") => Some(Self::Int32),
            ([Kind::Integer], "int64") => Some(Self::Int64),
            ([Kind::Number], "float") => Some(Self::Float),
            ([Kind::Number], "double") => Some(Self::Double),
            ([Kind::String] | [] | [_, _], name) => Self::of_text(name),
            _ => None,
        }
    }

    fn of_text(name: &str) -> Option<Self> {
        // Names are looked up without their hyphens, except for Kubernetes' own.
        let plain = name.replace('-', "");
        Some(match plain.as_str() {
            "byte" => Self::Byte,
            "date" => Self::Date,
            "datetime" => Self::DateTime,
            "duration" => Self::Duration,
            "password" => Self::Password,
            "uri" => Self::Uri,
            "email" => Self::Email,
            "ipv4" => Self::Ipv4,
            "ipv6" => Self::Ipv6,
            "bsonobjectid" | "cidr" | "creditcard" | "hexcolor" | "hostname" | "isbn" | "isbn10" | "isbn13" | "mac"
            | "rgbcolor" | "ssn" | "uuid" | "uuid3" | "uuid4" | "uuid5"
            // Whether these are enforced depends on the server's version.
            | "k8sshortname" | "k8slongname" => Self::Unknown,
            _ => return None,
        })
    }

    /// Whether a string has the format.
    pub(crate) fn fits(self, text: &str) -> Tristate {
        let by =
            |regex: Option<&Regex>| regex.map_or(Tristate::Undecided, |regex| regex.is_match(text).into());
        match self {
            Self::Int32 | Self::Int64 | Self::Float | Self::Double | Self::Password => Tristate::Yes,
            Self::Byte => by(BASE64.as_ref()),
            Self::Date => is_date(text).into(),
            Self::DateTime => is_date_time(text).into(),
            Self::Duration if duration(text).is_some() => Tristate::Yes,
            Self::Uri => uri(text),
            Self::Email => match by(EMAIL.as_ref()) {
                Tristate::No if text.contains('@') => Tristate::Undecided,
                truth => truth,
            },
            Self::Ipv4 => is_ipv4(text).into(),
            Self::Ipv6 => text.parse::<Ipv6Addr>().is_ok().into(),
            // The server also accepts durations as `3 days`.
            Self::Duration | Self::Unknown => Tristate::Undecided,
        }
    }
}

/// Octets may have leading zeros.
fn is_ipv4(text: &str) -> bool {
    let is_octet =
        |octet: &str| octet.bytes().all(|byte| byte.is_ascii_digit()) && octet.parse::<u8>().is_ok();
    text.split('.').count() == 4 && text.split('.').all(is_octet)
}

fn is_date(text: &str) -> bool {
    // The parser also accepts years with a sign and dates without hyphens.
    let has_form = text.len() == 10
        && text
            .bytes()
            .enumerate()
            .all(|(i, b)| if i == 4 || i == 7 { b == b'-' } else { b.is_ascii_digit() });
    has_form && text.parse::<Date>().is_ok()
}

fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    let found = TIME.as_ref().and_then(|regex| regex.captures(time));
    let within = |index: usize, most: &str| {
        found.as_ref().and_then(|found| found.get(index)).is_some_and(|part| part.as_str() <= most)
    };
    is_date(date) && within(1, "23") && within(2, "59") && within(3, "59")
}

/// Whether a text can be the target of a request: an absolute URI, or an absolute path. Anything but plain ones is
/// undecided.
fn uri(text: &str) -> Tristate {
    match URI.as_ref().map(|regex| regex.is_match(text)) {
        Some(true) => Tristate::Yes,
        _ if text.contains([':', '/']) && !text.starts_with(':') => Tristate::Undecided,
        _ => Tristate::No,
    }
}

#[cfg(test)]
mod tests {
    use super::Format;
    use crate::{Tristate, schema::NodeKind as Kind};

    #[test]
    fn strings_fit_formats_as_on_the_server() {
        for (format, yes, no) in [
            ("byte", &["aGVsbG8=", "QUJD"][..], &["", "a", "a==="][..]),
            ("date", &["2024-02-29", "0001-01-01"], &["2023-02-29", "2024-13-01", "2024-1-1", ""]),
            (
                "date-time",
                &["2024-01-01T00:00:00Z", "2024-01-01t23:59:59.5+01:00"],
                &["2024-01-01", "2024-01-01T24:00:00Z", "2024-01-01 00:00:00Z", "now"],
            ),
            ("duration", &["5m", "1h30m", "0", "1.5s"], &[]),
            (
                "uri",
                &["http://a.b/c", "/a", "mailto:x", "*"],
                &["", "a", "http://a b".trim_end_matches('b'), ":a"][..2],
            ),
            ("ipv4", &["1.2.3.4", "01.2.3.4"], &["1.2.3", "1.2.3.256", "::1"]),
            ("ipv6", &["::1", "::ffff:1.2.3.4"], &["1.2.3.4", "::g"]),
            ("email", &["a@b", "a.b@c.d"], &["", "a"]),
            ("password", &["", "x"], &[]),
        ] {
            let format = Format::of(format, &[Kind::String]).unwrap_or_else(|| panic!("{format}"));
            for text in yes {
                assert_eq!(format.fits(text), Tristate::Yes, "{format:?} {text:?}");
            }
            for text in no {
                assert_eq!(format.fits(text), Tristate::No, "{format:?} {text:?}");
            }
        }
        for (format, text) in [
            ("duration", "3 days"),
            ("duration", "five"),
            ("isbn", "1"),
            ("uri", "http://[::1]/a"),
            ("hostname", "a"),
            ("uuid", "1"),
            ("cidr", "1"),
        ] {
            let fits = Format::of(format, &[Kind::String]).map(|format| format.fits(text));
            assert_eq!(fits, Some(Tristate::Undecided), "{format} {text:?}");
        }
        assert_eq!(Format::of("nonsense", &[Kind::String]), None);
        assert_eq!(Format::of("int32", &[Kind::String]), None);
        assert_eq!(Format::of("date", &[Kind::Object]), None);
    }
}
