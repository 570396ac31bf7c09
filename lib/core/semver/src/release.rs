//! The release of a bundle: which packaging of one version it is.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

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
        if text.len() > RELEASE_BYTES_MAX {
            return Err(ParseError::ReleaseLength { text: text.to_owned() });
        }
        let (mut identifiers, mut segments) = (Vec::new(), Vec::new());
        for (index, (piece, position)) in version::pieces(text, 0).enumerate() {
            match version::identifier(piece, position) {
                Ok(identifier) => identifiers.push(identifier),
                Err(error) => segments.push((index, error)),
            }
        }
        if segments.is_empty() {
            Ok(Self(identifiers))
        } else {
            Err(ParseError::Release { text: text.to_owned(), segments })
        }
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

impl<'de> Deserialize<'de> for Release {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
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
        for (text, error, position) in [
            (
                "01.a.b_c",
                "invalid release \"01.a.b_c\": segment 0: Numeric PreRelease version must not contain leading \
                 zeroes \"01\"\nsegment 2: Invalid character(s) found in prerelease \"b_c\"",
                0,
            ),
            ("a..b", "invalid release \"a..b\": segment 1: Prerelease is empty", 2),
            (
                "aaaaaaaaaaaaaaaaaaaaa",
                "invalid release \"aaaaaaaaaaaaaaaaaaaaa\": exceeds maximum length of 20 characters",
                20,
            ),
        ] {
            let found = text.parse::<Release>().unwrap_err();
            assert_eq!((found.to_string().as_str(), found.position()), (error, position));
        }
    }
}
