//! The version of a bundle with its release.

use std::fmt;

use olm_go::Quoted;
use serde::Serialize;

use crate::{ParseError, Release, Version};

/// Whether explicit releases are honoured (feature gate `BundleReleaseSupport`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ReleaseSupport {
    /// An explicit release field wins over build metadata.
    #[default]
    On,
    /// Releases are taken from build metadata only; the release field is ignored.
    Off,
}

/// Version and release of a bundle. Equality is that of the texts; see [`BundleVersion::cmp_precedence`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct BundleVersion {
    /// The version, without the release.
    pub version: Version,
    /// The release; `Some` of an empty one when the bundle says explicitly that it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release: Option<Release>,
}

impl BundleVersion {
    /// Version and release from the fields `version` and `release` of an `olm.package` property, or of an
    /// installed bundle's record.
    ///
    /// # Errors
    /// The version is not strict semver, or the explicit release is invalid.
    pub fn from_fields(
        version: &str,
        release: Option<&str>,
        support: ReleaseSupport,
    ) -> Result<Self, ParseError> {
        match (support, release) {
            (ReleaseSupport::On, Some(release)) => Self::explicit(version, release),
            (ReleaseSupport::On, None) | (ReleaseSupport::Off, _) => Self::legacy(version),
        }
    }

    /// From a registry+v1 version: build metadata that have the form of a release are the release, and no
    /// longer part of the version; others stay build metadata.
    ///
    /// # Errors
    /// The version is not strict semver.
    pub fn legacy(text: &str) -> Result<Self, ParseError> {
        let version: Version = text.parse()?;
        match version.build().parse::<Release>() {
            Ok(release) if !release.is_empty() => {
                Ok(Self { version: version.without_build(), release: Some(release) })
            }
            // Metadata that are no release do not make the version wrong.
            Ok(_) | Err(_) => Ok(Self { version, release: None }),
        }
    }

    /// From a version and an explicit release, which may be empty; build metadata stay what they are.
    ///
    /// # Errors
    /// The version is not strict semver, or the release is invalid.
    pub fn explicit(version: &str, release: &str) -> Result<Self, ParseError> {
        let within = |part: &str, text: &str, error: &ParseError| {
            ParseError::new(format!("error parsing {part} {}: {error}", Quoted(text)))
        };
        Ok(Self {
            version: version.parse().map_err(|error| within("version", version, &error))?,
            release: Some(release.parse().map_err(|error| within("release", release, &error))?),
        })
    }

    /// The texts of version and release as they are recorded on an installed extension: apart when releases
    /// are supported, else in one version text, the release as build metadata.
    pub fn recorded(&self, support: ReleaseSupport) -> (String, Option<String>) {
        match support {
            ReleaseSupport::On => (self.version.to_string(), self.release.as_ref().map(ToString::to_string)),
            ReleaseSupport::Off => (self.to_string(), None),
        }
    }
}

/// One text: the version, with a release in the place of build metadata.
impl fmt::Display for BundleVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.release {
            Some(release) if !release.is_empty() => {
                write!(f, "{}+{release}", self.version.clone().without_build())
            }
            Some(_) | None => write!(f, "{}", self.version),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Version, release field, gate; version and release found, as recorded.
    type Row = (&'static str, Option<&'static str>, ReleaseSupport, &'static str, Option<&'static str>);

    #[test]
    fn the_release_is_the_explicit_one_or_the_build_metadata() {
        use ReleaseSupport::{Off, On};
        let rows: [Row; 14] = [
            ("1.0.0", None, On, "1.0.0", None),
            ("1.0.0+2", None, On, "1.0.0", Some("2")),
            ("1.0.0+2.b-3", None, On, "1.0.0", Some("2.b-3")),
            ("1.0.0+001", None, On, "1.0.0+001", None),
            ("1.0.0+abcdefghijklmnopqrstu", None, On, "1.0.0+abcdefghijklmnopqrstu", None),
            ("1.0.0+abcdefghijklmnopqrst", None, On, "1.0.0", Some("abcdefghijklmnopqrst")),
            ("1.0.0", Some("2"), On, "1.0.0", Some("2")),
            ("1.0.0+g1", Some("2"), On, "1.0.0+g1", Some("2")),
            ("1.0.0+2", Some(""), On, "1.0.0+2", Some("")),
            ("1.0.0", Some("2"), Off, "1.0.0", None),
            ("1.0.0+2", None, Off, "1.0.0+2", None),
            ("1.0.0+2", Some("3"), Off, "1.0.0+2", None),
            ("1.0.0+001", Some("!"), Off, "1.0.0+001", None),
            ("1.0.0-rc.1+2", None, Off, "1.0.0-rc.1+2", None),
        ];
        for (version, release, support, recorded_version, recorded_release) in rows {
            let found = BundleVersion::from_fields(version, release, support).unwrap();
            let (v, r) = found.recorded(support);
            assert_eq!(
                (v.as_str(), r.as_deref()),
                (recorded_version, recorded_release),
                "{version} {release:?}"
            );
        }
        // Off, the release is still taken from the build metadata for order.
        assert!(BundleVersion::from_fields("1.0.0+2", None, Off).unwrap().release.is_some());
    }

    #[test]
    fn errors_have_upstreams_texts() {
        for (version, release, error) in [
            ("1.0", None, "No Major.Minor.Patch elements found"),
            ("1.0", Some("1"), r#"error parsing version "1.0": No Major.Minor.Patch elements found"#),
            (
                "1.0.0",
                Some("01"),
                "error parsing release \"01\": invalid release \"01\": segment 0: Numeric PreRelease version must \
                 not contain leading zeroes \"01\"",
            ),
        ] {
            let found = BundleVersion::from_fields(version, release, ReleaseSupport::On).unwrap_err();
            assert_eq!(found.to_string(), error);
        }
    }

    #[test]
    fn what_was_recorded_is_read_back() {
        for (version, release) in
            [("1.0.0+2", None), ("1.0.0+g1", Some("2")), ("1.0.0+2", Some("")), ("1.0.0+01", None)]
        {
            let first = BundleVersion::from_fields(version, release, ReleaseSupport::On).unwrap();
            let (version, release) = first.recorded(ReleaseSupport::On);
            assert_eq!(
                BundleVersion::from_fields(&version, release.as_deref(), ReleaseSupport::On).unwrap(),
                first
            );
        }
    }
}
