//! Which candidate is better.

use std::{cmp::Ordering, collections::BTreeSet};

use olm_fbc::Bundle;
use olm_semver::BundleVersion;

use crate::{BundleVersionError, candidates::Found};

/// A bundle with what it is ordered by.
#[derive(Debug)]
pub(crate) struct Candidate<'a> {
    pub(crate) bundle: &'a Bundle,
    pub(crate) version: Result<BundleVersion, BundleVersionError>,
    pub(crate) deprecated: bool,
}

/// Within a catalog, best first: not deprecated, then the highest version and release, invalid ones last.
pub(crate) fn candidates(a: &Candidate<'_>, b: &Candidate<'_>) -> Ordering {
    a.deprecated.cmp(&b.deprecated).then_with(|| match (&a.version, &b.version) {
        (Ok(a), Ok(b)) => b.cmp_precedence(a),
        (Ok(_), Err(_)) => Ordering::Less,
        (Err(_), Ok(_)) => Ordering::Greater,
        (Err(_), Err(_)) => Ordering::Equal,
    })
}

/// The choice among the catalogs' best candidates.
#[derive(Debug)]
pub(crate) enum Choice<'a> {
    /// No catalog has a candidate.
    Nothing,
    /// The first is the answer; the others are rejected.
    One(Found<'a>, Vec<Found<'a>>),
    /// Several catalogs of the highest priority offer different bundles. Names all catalogs with a candidate,
    /// those of lower priority too, as upstream.
    Ambiguous(Vec<Found<'a>>),
}

/// Chooses among the catalogs' candidates. A candidate that is not deprecated beats deprecated ones, whatever
/// the priorities; then the highest priority wins. Versions are not compared across catalogs. Catalogs of
/// equal priority that offer the same bundle by the same digest are no ambiguity: the first by name is taken.
pub(crate) fn choose(mut found: Vec<Found<'_>>) -> Choice<'_> {
    found.sort_by(|a, b| {
        let key = |f: &Found<'_>| (f.candidate.deprecated, std::cmp::Reverse(f.catalog.priority));
        key(a).cmp(&key(b)).then_with(|| a.catalog.name.cmp(b.catalog.name))
    });
    let Some(first) = found.first() else { return Choice::Nothing };
    let rivals: Vec<&Found<'_>> = found
        .iter()
        .take_while(|f| {
            f.candidate.deprecated == first.candidate.deprecated
                && f.catalog.priority == first.catalog.priority
        })
        .collect();
    if rivals.len() > 1 && !same_content(&rivals) {
        let deprecated = first.candidate.deprecated;
        found.retain(|f| f.candidate.deprecated == deprecated);
        return Choice::Ambiguous(found);
    }
    let first = found.remove(0);
    Choice::One(first, found)
}

/// Whether all offer one bundle name and one image, named by digest.
fn same_content(found: &[&Found<'_>]) -> bool {
    let offers: BTreeSet<_> =
        found.iter().map(|f| (f.candidate.bundle.name.as_str(), f.candidate.bundle.image.as_str())).collect();
    offers.len() == 1 && offers.iter().all(|(_, image)| has_digest(image))
}

/// Whether the image reference ends with `@<algorithm>:<hex>`.
fn has_digest(image: &str) -> bool {
    image.rsplit_once('@').and_then(|(_, digest)| digest.split_once(':')).is_some_and(|(algorithm, hex)| {
        !algorithm.is_empty() && !hex.is_empty() && hex.bytes().all(|b| b.is_ascii_hexdigit())
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn digests_are_distinguished_from_tags() {
        for (image, want) in [
            ("quay.io/a/b@sha256:0123abc", true),
            ("quay.io/a/b:v1@sha256:0123abc", true),
            ("quay.io/a/b:v1", false),
            ("quay.io/a/b@sha256:", false),
            ("quay.io/a/b@v1", false),
            ("", false),
        ] {
            assert_eq!(super::has_digest(image), want, "{image}");
        }
    }
}
