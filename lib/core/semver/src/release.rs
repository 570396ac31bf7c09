//! The release of a bundle: which packaging of one version it is.

use std::{fmt, str::FromStr};

use olm_go::Quoted;
use serde::{Serialize, Serializer};

use crate::{Identifier, ParseError, RELEASE_BYTES_MAX, version};

/// Dot-separated identifiers with the rules of semver pre-releases, at most [`RELEASE_BYTES_MAX`] bytes.
/// An empty release says explicitly that there is none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Release(Vec<Identifier>);

impl Release {
    /// The identifiers.
    pub fn identifiers(&self) -> &[Identifier] {
        &self.0
    }

    /// Whether there is no identifier.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromStr for Release {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        let invalid = |why: &str| ParseError::new(format!("invalid release {}: {why}", Quoted(text)));
        if text.len() > RELEASE_BYTES_MAX {
            return Err(invalid(&format!("exceeds maximum length of {RELEASE_BYTES_MAX} characters")));
        }
        let (mut identifiers, mut segments) = (Vec::new(), Vec::new());
        for (index, segment) in text.split('.').enumerate() {
            match version::identifier(segment) {
                Ok(identifier) => identifiers.push(identifier),
                Err(error) => segments.push(format!("segment {index}: {error}")),
            }
        }
        if segments.is_empty() { Ok(Self(identifiers)) } else { Err(invalid(&segments.join("\n"))) }
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        version::write_identifiers(f, &self.0)
    }
}

impl Serialize for Release {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_up_to_twenty_bytes_of_identifiers() {
        for text in ["", "1", "0", "2.alpha-1", "a.b.c", "12345678901234567890", "abcdefghij.klmnopqrs"] {
            assert_eq!(text.parse::<Release>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn names_every_bad_segment() {
        for (text, error) in [
            (
                "01.a.b_c",
                "invalid release \"01.a.b_c\": segment 0: Numeric PreRelease version must not contain leading \
                 zeroes \"01\"\nsegment 2: Invalid character(s) found in prerelease \"b_c\"",
            ),
            ("a..b", "invalid release \"a..b\": segment 1: Prerelease is empty"),
            (
                "aaaaaaaaaaaaaaaaaaaaa",
                "invalid release \"aaaaaaaaaaaaaaaaaaaaa\": exceeds maximum length of 20 characters",
            ),
        ] {
            assert_eq!(text.parse::<Release>().unwrap_err().to_string(), error);
        }
    }
}
