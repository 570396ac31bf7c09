//! Content digests: parsed strictly, computed while bytes pass by.
//!
//! The algorithms are those registries use (SHA-256, SHA-384, SHA-512); the texts of the errors are those of
//! the Go digest package that upstream shows to users.

use std::{fmt, str::FromStr};

use sha2::{Sha256, Sha384, Sha512, digest::DynDigest};
use thiserror::Error;

/// Why a text is not a digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum DigestError {
    /// Not `algorithm:lower-case-hex`.
    #[error("invalid checksum digest format")]
    Format,
    /// The number of hex characters does not fit the algorithm.
    #[error("invalid checksum digest length")]
    Length,
    /// Well formed, of an algorithm we cannot compute.
    #[error("unsupported digest algorithm")]
    Unsupported,
}

/// The algorithms a digest can be of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    /// SHA-256, what every registry uses.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

impl Algorithm {
    fn parse(name: &str) -> Option<Self> {
        match name {
            "sha256" => Some(Self::Sha256),
            "sha384" => Some(Self::Sha384),
            "sha512" => Some(Self::Sha512),
            _ => None,
        }
    }

    /// The name before the colon.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Sha384 => "sha384",
            Self::Sha512 => "sha512",
        }
    }

    fn hex_length(self) -> usize {
        match self {
            Self::Sha256 => 64,
            Self::Sha384 => 96,
            Self::Sha512 => 128,
        }
    }
}

/// A digest such as `sha256:<64 lower-case hex characters>`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest {
    algorithm: Algorithm,
    hex: String,
}

impl Digest {
    /// The SHA-256 digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        let mut hasher = Hasher::new(Algorithm::Sha256);
        hasher.update(bytes);
        hasher.finish()
    }

    /// The digest of `bytes` by the algorithm of this one.
    #[must_use]
    pub fn recompute(&self, bytes: &[u8]) -> Self {
        let mut hasher = Hasher::new(self.algorithm);
        hasher.update(bytes);
        hasher.finish()
    }

    /// The algorithm.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The lower-case hex characters after the colon.
    pub fn hex(&self) -> &str {
        &self.hex
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let (name, hex) = text.split_once(':').ok_or(DigestError::Format)?;
        if name.is_empty() || hex.is_empty() {
            return Err(DigestError::Format);
        }
        let Some(algorithm) = Algorithm::parse(name) else {
            let well_formed = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"+._-".contains(&b))
                && hex.bytes().all(|b| b.is_ascii_hexdigit());
            return Err(if well_formed { DigestError::Unsupported } else { DigestError::Format });
        };
        if hex.len() != algorithm.hex_length() {
            return Err(DigestError::Length);
        }
        if !hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(DigestError::Format);
        }
        Ok(Self { algorithm, hex: hex.to_owned() })
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm.as_str(), self.hex)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl serde::Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Digest {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Computes a [`Digest`] over bytes given piece by piece.
pub(crate) struct Hasher {
    algorithm: Algorithm,
    state: Box<dyn DynDigest + Send>,
}

impl Hasher {
    pub(crate) fn new(algorithm: Algorithm) -> Self {
        let state: Box<dyn DynDigest + Send> = match algorithm {
            Algorithm::Sha256 => Box::new(Sha256::default()),
            Algorithm::Sha384 => Box::new(Sha384::default()),
            Algorithm::Sha512 => Box::new(Sha512::default()),
        };
        Self { algorithm, state }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.state.update(bytes);
    }

    pub(crate) fn finish(self) -> Digest {
        digest(self.algorithm, &self.state.finalize())
    }
}

fn digest(algorithm: Algorithm, bytes: &[u8]) -> Digest {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut hex = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        hex.push(char::from(HEX[usize::from(byte >> 4)]));
        hex.push(char::from(HEX[usize::from(byte & 15)]));
    }
    Digest { algorithm, hex }
}
