//! Formats of strings and numbers that the API server enforces; it ignores all others.
//!
//! Imitated: k8s.io/kube-openapi `pkg/validation/strfmt`. Its formats that no definition of an operator uses (ISBN,
//! credit cards, colours and the like) are undecided.

use std::{
    net::{IpAddr, Ipv6Addr},
    sync::LazyLock,
};

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
    Hostname,
    Ipv4,
    Ipv6,
    Cidr,
    Uuid,
    /// A format that is enforced but not implemented here.
    Unknown,
}

static UUID: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$").ok()
});

static HOSTNAME: LazyLock<Option<Regex>> = LazyLock::new(|| {
    // Letters and symbols of any script; the last part of a dotted name has letters only.
    let character = r"[a-zA-Z0-9\p{S}\p{L}]";
    let inner = r"[a-zA-Z0-9\-\p{S}\p{L}]";
    let single = format!(r"{character}(-?{character}{{0,62}})?");
    let label = format!(r"{character}({inner}{{0,61}}{character})?\.");
    Regex::new(&format!(r"^({single}|({label})+[a-zA-Z\p{{L}}]{{2,63}})$")).ok()
});

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
            "hostname" => Self::Hostname,
            "ipv4" => Self::Ipv4,
            "ipv6" => Self::Ipv6,
            "cidr" => Self::Cidr,
            "uuid" => Self::Uuid,
            "bsonobjectid" | "creditcard" | "hexcolor" | "isbn" | "isbn10" | "isbn13" | "mac" | "rgbcolor" | "ssn"
            | "uuid3" | "uuid4" | "uuid5"
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
            Self::Hostname => {
                let short = text.len() <= 255 && text.split('.').all(|label| label.len() <= 63);
                if short { by(HOSTNAME.as_ref()) } else { Tristate::No }
            }
            Self::Ipv4 => (text.contains('.') && address(text).is_some()).into(),
            Self::Ipv6 => (text.contains(':') && text.parse::<Ipv6Addr>().is_ok()).into(),
            Self::Cidr => is_cidr(text).into(),
            Self::Uuid => by(UUID.as_ref()),
            // The server also accepts durations as `3 days`.
            Self::Duration | Self::Unknown => Tristate::Undecided,
        }
    }
}

/// An address; octets may have leading zeros.
fn address(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        return text.parse().ok().map(IpAddr::V6);
    }
    let octets: Vec<u8> = text
        .split('.')
        .map(|octet| octet.bytes().all(|b| b.is_ascii_digit()).then(|| octet.parse().ok()).flatten())
        .collect::<Option<_>>()?;
    <[u8; 4]>::try_from(octets).ok().map(IpAddr::from)
}

fn is_cidr(text: &str) -> bool {
    let Some((ip, length)) = text.split_once('/') else { return false };
    let most = match address(ip) {
        Some(IpAddr::V4(_)) => 32,
        Some(IpAddr::V6(_)) => 128,
        None => return false,
    };
    length.bytes().all(|b| b.is_ascii_digit()) && length.parse::<u32>().is_ok_and(|length| length <= most)
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
            ("hostname", &["a", "a.example.com", "1a"], &["", "-a", "a_b", "a..b"]),
            ("ipv4", &["1.2.3.4", "01.2.3.4"], &["1.2.3", "1.2.3.256", "::1"]),
            ("ipv6", &["::1", "::ffff:1.2.3.4"], &["1.2.3.4", "::g"]),
            ("cidr", &["10.0.0.0/8", "::/0"], &["10.0.0.0", "10.0.0.0/33"]),
            ("uuid", &["6ba7b810-9dad-11d1-80b4-00c04fd430c8"], &["6ba7b810"]),
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
        for (format, text) in
            [("duration", "3 days"), ("duration", "five"), ("isbn", "1"), ("ssn", "1"), ("mac", "1")]
        {
            let fits = Format::of(format, &[Kind::String]).map(|format| format.fits(text));
            assert_eq!(fits, Some(Tristate::Undecided), "{format} {text:?}");
        }
        assert_eq!(Format::of("nonsense", &[Kind::String]), None);
        assert_eq!(Format::of("int32", &[Kind::String]), None);
        assert_eq!(Format::of("date", &[Kind::Object]), None);
    }
}
