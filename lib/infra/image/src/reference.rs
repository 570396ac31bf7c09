//! Image references: strict parsing with upstream's rules and texts.
//!
//! The grammar is that of distribution's `reference` package; as in upstream's puller a reference must be fully
//! qualified (it has a domain) and already in its normal form. A tag together with a digest parses, but cannot
//! be pulled. Short names and default tags are never filled in.

use std::{fmt, str::FromStr};

use olm_go::Quoted;
use thiserror::Error;

use crate::digest::{Digest, DigestError};

mod grammar;
#[cfg(test)]
mod tests;

pub(crate) use grammar::{is_domain, is_path_component};

/// Longest repository name (domain and path) in bytes, as distribution limits it.
const NAME_BYTES_MAX: usize = 255;
const DEFAULT_DOMAIN: &str = "docker.io";
const LEGACY_DEFAULT_DOMAIN: &str = "index.docker.io";
const OFFICIAL_REPOSITORY: &str = "library";

/// A text that is not a usable image reference. The display is upstream's.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("error parsing image reference {}: {cause}", Quoted(.reference))]
pub struct ReferenceError {
    /// The text as given.
    pub reference: String,
    /// What is wrong with it.
    #[source]
    pub cause: ReferenceCause,
}

/// What is wrong with a reference. The texts are those of distribution's `reference` package.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ReferenceCause {
    /// Not in the form `domain/path[:tag][@digest]`.
    #[error("invalid reference format")]
    Format,
    /// A path component has upper-case letters.
    #[error("invalid reference format: repository name must be lowercase")]
    PathUppercase,
    /// Would be valid in lower case.
    #[error("repository name must be lowercase")]
    Uppercase,
    /// Name longer than 255 bytes.
    #[error("repository name must not be more than 255 characters")]
    TooLong,
    /// No domain, or another spelling of the default one.
    #[error("repository name must be canonical")]
    NotCanonical,
    /// 64 hex characters, which could be taken for an image ID.
    #[error("invalid repository name ({0}), cannot specify 64-byte hexadecimal strings")]
    Identifier(String),
    /// The digest is not one.
    #[error(transparent)]
    Digest(#[from] DigestError),
}

/// The repository: domain (with port) and path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Repository {
    domain: String,
    path: String,
}

impl Repository {
    /// The registry's host, with its port when it has one, as written.
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// The repository within the registry.
    pub fn path(&self) -> &str {
        &self.path
    }
}

impl fmt::Display for Repository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.domain, self.path)
    }
}

/// A fully qualified reference to an image: repository, and tag or digest or neither (or both, which parses as
/// upstream parses it and is refused when pulled).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reference {
    repository: Repository,
    tag: Option<String>,
    digest: Option<Digest>,
}

impl Reference {
    /// Parses strictly: nothing is filled in or normalised.
    ///
    /// # Errors
    /// The text is no such reference.
    pub fn parse(text: &str) -> Result<Self, ReferenceError> {
        parse(text).map_err(|cause| ReferenceError { reference: text.to_owned(), cause })
    }

    /// Parses as kubelets do: what has no registry is one of Docker Hub, and what has neither tag nor digest is the
    /// tag `latest`. A tag beside a digest is dropped.
    ///
    /// # Errors
    /// The text is no reference.
    pub fn familiar(text: &str) -> Result<Self, ReferenceError> {
        let (domain, remainder) = split_domain(text);
        let mut reference = Self::parse(&format!("{domain}/{remainder}"))?;
        match (&reference.tag, &reference.digest) {
            (None, None) => reference.tag = Some("latest".to_owned()),
            (Some(_), Some(_)) => reference.tag = None,
            _ => {}
        }
        Ok(reference)
    }

    /// Domain and path.
    pub fn repository(&self) -> &Repository {
        &self.repository
    }

    /// The tag.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// The digest.
    pub fn digest(&self) -> Option<&Digest> {
        self.digest.as_ref()
    }

    /// The same repository at a digest.
    pub fn at(&self, digest: Digest) -> CanonicalReference {
        CanonicalReference { repository: self.repository.clone(), digest }
    }
}

impl FromStr for Reference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        Self::parse(text)
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(f, "@{digest}")?;
        }
        Ok(())
    }
}

/// A reference that names content: repository and digest, without a tag.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CanonicalReference {
    repository: Repository,
    digest: Digest,
}

impl CanonicalReference {
    /// Parses `domain/path@digest`; a reference without a digest, or with a tag, is refused as not canonical.
    ///
    /// # Errors
    /// The text is no such reference.
    pub fn parse(text: &str) -> Result<Self, ReferenceError> {
        match Reference::parse(text)? {
            Reference { repository, tag: None, digest: Some(digest) } => Ok(Self { repository, digest }),
            _ => Err(ReferenceError { reference: text.to_owned(), cause: ReferenceCause::NotCanonical }),
        }
    }

    /// An image of a layout on disk, which knows no repositories.
    pub(crate) fn of_layout(digest: Digest) -> Self {
        let repository = Repository { domain: "layout.invalid".to_owned(), path: "image".to_owned() };
        Self { repository, digest }
    }

    /// Domain and path.
    pub fn repository(&self) -> &Repository {
        &self.repository
    }

    /// The digest.
    pub fn digest(&self) -> &Digest {
        &self.digest
    }
}

impl fmt::Display for CanonicalReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.repository, self.digest)
    }
}

fn parse(text: &str) -> Result<Reference, ReferenceCause> {
    if text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
        return Err(ReferenceCause::Identifier(text.to_owned()));
    }
    let (domain, remainder) = split_domain(text);
    let path = remainder.split(':').next().unwrap_or_default();
    if path.chars().any(char::is_uppercase) {
        return Err(ReferenceCause::PathUppercase);
    }
    let whole = format!("{domain}/{remainder}");
    let Some(parts) = grammar::split(&whole) else {
        let lower_case_would_do = grammar::split(&whole.to_lowercase()).is_some();
        return Err(if lower_case_would_do { ReferenceCause::Uppercase } else { ReferenceCause::Format });
    };
    if parts.domain.len() + 1 + parts.path.len() > NAME_BYTES_MAX {
        return Err(ReferenceCause::TooLong);
    }
    let digest = parts.digest.map(Digest::from_str).transpose()?;
    if whole != text {
        return Err(ReferenceCause::NotCanonical);
    }
    Ok(Reference {
        repository: Repository { domain: parts.domain.to_owned(), path: parts.path.to_owned() },
        tag: parts.tag.map(str::to_owned),
        digest,
    })
}

/// Domain and rest as Docker's clients read them: the first component is a domain only if it looks like one.
fn split_domain(text: &str) -> (String, String) {
    let (domain, remainder) = match text.split_once('/') {
        Some((first, rest))
            if first.contains(['.', ':']) || first == "localhost" || first.to_lowercase() != first =>
        {
            (first, rest)
        }
        _ => (DEFAULT_DOMAIN, text),
    };
    let domain = if domain == LEGACY_DEFAULT_DOMAIN { DEFAULT_DOMAIN } else { domain };
    if domain == DEFAULT_DOMAIN && !remainder.contains('/') {
        return (domain.to_owned(), format!("{OFFICIAL_REPOSITORY}/{remainder}"));
    }
    (domain.to_owned(), remainder.to_owned())
}

/// Whether a text is an image reference as container tools take it: short names are, which pulling refuses.
///
/// # Errors
/// It is none; the text is upstream's.
pub fn image_syntax(text: &str) -> Result<(), String> {
    match Reference::parse(text) {
        Ok(_) => Ok(()),
        Err(error) if error.cause == ReferenceCause::NotCanonical => Ok(()),
        Err(error) => Err(error.cause.to_string()),
    }
}
