//! The bundles of one catalog that a request allows.

use std::collections::BTreeSet;

use olm_fbc::{Bundle, Channel, PackageContent, SCHEMA_BUNDLE};
use olm_semver::BundleVersion;

use crate::{
    BundleVersionError, CatalogView, Cause, Ceiling, bundle_version,
    order::{self, Candidate},
    request::Query,
    successors::successors,
};

/// The request's conditions, prepared for one catalog.
pub(crate) struct Filter<'a> {
    query: &'a Query<'a>,
    /// The catalog's name.
    catalog: &'a str,
    /// Bundles in the wanted channels, when channels are wanted.
    in_channels: Option<BTreeSet<&'a str>>,
    /// Version and successors of the installed bundle, when edges bind.
    upgrade: Option<(BundleVersion, BTreeSet<&'a str>)>,
    deprecated: BTreeSet<&'a str>,
}

/// The channels that count: those wanted, or all. Edges of other channels do not count either.
fn channels<'a>(query: &'a Query<'_>, content: &'a PackageContent) -> impl Iterator<Item = &'a Channel> {
    let wanted = &query.request.channels;
    content.channels.iter().filter(move |channel| wanted.is_empty() || wanted.contains(&channel.name))
}

impl<'a> Filter<'a> {
    pub(crate) fn new(
        query: &'a Query<'a>,
        catalog: &'a str,
        content: &'a PackageContent,
    ) -> Result<Self, Cause> {
        let names = |channel: &'a Channel| channel.entries.iter().map(|entry| entry.name.as_str());
        let in_channels =
            (!query.request.channels.is_empty()).then(|| channels(query, content).flat_map(names).collect());
        let upgrade = query.upgrade_from()?.map(|(installed, version)| {
            let successors = successors(channels(query, content), &installed.name, &version.version);
            (version.clone(), successors)
        });
        // Only the first blob of a package counts, as upstream.
        let deprecated = content
            .deprecations
            .first()
            .into_iter()
            .flat_map(|deprecation| &deprecation.entries)
            .filter(|entry| entry.reference.schema == SCHEMA_BUNDLE)
            .map(|entry| entry.reference.name.as_str())
            .collect();
        Ok(Self { query, catalog, in_channels, upgrade, deprecated })
    }

    pub(crate) fn catalog(&self) -> &'a str {
        self.catalog
    }

    pub(crate) fn in_channels(&self, bundle: &Bundle) -> bool {
        self.in_channels.as_ref().is_none_or(|names| names.contains(bundle.name.as_str()))
    }

    /// A bundle without a valid version lies in no range.
    pub(crate) fn in_range(&self, version: &Result<BundleVersion, BundleVersionError>) -> bool {
        self.query
            .range
            .as_ref()
            .is_none_or(|range| version.as_ref().is_ok_and(|version| range.matches(&version.version)))
    }

    /// Whether an edge leads to the bundle, or it is the installed version and release itself.
    pub(crate) fn is_reachable(
        &self,
        bundle: &Bundle,
        version: &Result<BundleVersion, BundleVersionError>,
    ) -> bool {
        self.upgrade.as_ref().is_none_or(|(installed, successors)| {
            successors.contains(bundle.name.as_str())
                || version.as_ref().is_ok_and(|version| version.cmp_precedence(installed).is_eq())
        })
    }

    /// The bundle as a candidate, whether the request allows it or not.
    pub(crate) fn candidate(&self, bundle: &'a Bundle) -> Candidate<'a> {
        Candidate {
            bundle,
            version: bundle_version(bundle, self.query.request.options.releases),
            deprecated: self.deprecated.contains(bundle.name.as_str()),
        }
    }

    /// Whether the bundle keeps to the installed major version, where that is asked for.
    pub(crate) fn keeps_major(&self, version: &Result<BundleVersion, BundleVersionError>) -> bool {
        self.query
            .bound_to_major()
            .is_none_or(|major| version.as_ref().is_ok_and(|version| version.version.major() == major))
    }

    /// The update policy that does not allow the catalog of a candidate, and the one that does not allow its version.
    pub(crate) fn forbidden_by(&self, candidate: &Candidate<'_>) -> [Option<&'a Ceiling>; 2] {
        let (name, version) = (&candidate.bundle.name, candidate.version.as_ref().ok());
        [
            self.query.forbidden_catalog(name, self.catalog),
            self.query.forbidden_version(name, version.map(|version| &version.version)),
        ]
    }

    pub(crate) fn allows(&self, candidate: &Candidate<'_>) -> bool {
        self.in_channels(candidate.bundle)
            && self.in_range(&candidate.version)
            && self.is_reachable(candidate.bundle, &candidate.version)
            && self.keeps_major(&candidate.version)
            && self.forbidden_by(candidate) == [None, None]
    }
}

/// A catalog's best candidate.
#[derive(Debug)]
pub(crate) struct Found<'a> {
    pub(crate) catalog: &'a CatalogView<'a>,
    pub(crate) content: &'a PackageContent,
    pub(crate) candidate: Candidate<'a>,
}

/// The best candidate of a catalog with this content, if it has any.
pub(crate) fn best<'a>(
    query: &'a Query<'a>,
    catalog: &'a CatalogView<'a>,
    content: &'a PackageContent,
) -> Result<Option<Found<'a>>, Cause> {
    let filter = Filter::new(query, catalog.name, content)?;
    let candidate = content
        .bundles
        .iter()
        .filter(|bundle| filter.in_channels(bundle))
        .map(|bundle| filter.candidate(bundle))
        .filter(|candidate| filter.allows(candidate))
        // The first of those that are equal, as upstream.
        .min_by(order::candidates);
    Ok(candidate.map(|candidate| Found { catalog, content, candidate }))
}
