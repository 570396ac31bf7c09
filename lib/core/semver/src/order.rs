//! Semver precedence. Build metadata plays no part in it.

use std::cmp::Ordering;

use crate::{BundleVersion, Identifier, Release, Version};

impl Version {
    /// Semver precedence: the three numbers, then pre-releases, where none is higher than any.
    pub fn cmp_precedence(&self, other: &Self) -> Ordering {
        self.numbers().cmp(&other.numbers()).then_with(|| {
            match (self.prerelease().is_empty(), other.prerelease().is_empty()) {
                (true, true) => Ordering::Equal,
                (true, false) => Ordering::Greater,
                (false, true) => Ordering::Less,
                (false, false) => self.prerelease().cmp(other.prerelease()),
            }
        })
    }
}

impl Release {
    /// As pre-releases compare, but an empty release is lower than any other.
    pub fn cmp_precedence(&self, other: &Self) -> Ordering {
        self.identifiers().cmp(other.identifiers())
    }
}

impl BundleVersion {
    fn release_identifiers(&self) -> &[Identifier] {
        self.release.as_ref().map_or(&[], Release::identifiers)
    }

    /// The version's precedence, then the release's. No release and an empty one are equal, and lower than
    /// any other.
    pub fn cmp_precedence(&self, other: &Self) -> Ordering {
        self.version
            .cmp_precedence(&other.version)
            .then_with(|| self.release_identifiers().cmp(other.release_identifiers()))
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use super::*;

    #[test]
    fn versions_are_ordered_by_semver_precedence() {
        let ascending = [
            "0.0.0-0",
            "0.0.0-alpha",
            "0.0.0",
            "1.0.0-1",
            "1.0.0-2",
            "1.0.0-10",
            "1.0.0--",
            "1.0.0-alpha",
            "1.0.0-alpha.1",
            "1.0.0-alpha.beta",
            "1.0.0-beta",
            "1.0.0-beta.2",
            "1.0.0-beta.11",
            "1.0.0-rc.1",
            "1.0.0",
            "1.0.1",
            "1.2.0",
            "1.10.0",
            "2.0.0",
            "18446744073709551615.0.0",
        ];
        for (i, a) in ascending.iter().enumerate() {
            for (j, b) in ascending.iter().enumerate() {
                let (a, b): (Version, Version) = (a.parse().unwrap(), b.parse().unwrap());
                assert_eq!(a.cmp_precedence(&b), i.cmp(&j), "{a} {b}");
            }
        }
    }

    #[test]
    fn build_metadata_plays_no_part() {
        let [a, b]: [Version; 2] = ["1.0.0+a", "1.0.0+b"].map(|v| v.parse().unwrap());
        assert_eq!(a.cmp_precedence(&b), Ordering::Equal);
        assert_ne!(a, b);
    }

    #[test]
    fn releases_decide_between_equal_versions() {
        let ascending = [
            ("1.0.0-rc", Some("9")),
            ("1.0.0", None),
            ("1.0.0", Some("1")),
            ("1.0.0", Some("2")),
            ("1.0.0", Some("2.1")),
            ("1.0.0", Some("10")),
            ("1.0.0", Some("a")),
            ("1.0.1", Some("")),
        ];
        let parse = |(version, release): (&str, Option<&str>)| match release {
            Some(release) => BundleVersion::explicit(version, release).unwrap(),
            None => BundleVersion::legacy(version).unwrap(),
        };
        for (i, a) in ascending.into_iter().enumerate() {
            for (j, b) in ascending.into_iter().enumerate() {
                assert_eq!(parse(a).cmp_precedence(&parse(b)), i.cmp(&j), "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn an_empty_release_is_no_release() {
        let (empty, none) =
            (BundleVersion::explicit("1.0.0", "").unwrap(), BundleVersion::legacy("1.0.0").unwrap());
        assert_eq!(empty.cmp_precedence(&none), Ordering::Equal);
    }
}
