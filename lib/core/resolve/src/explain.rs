//! Rejected candidates: each bundle that is not the answer, with the reasons against it.

use std::{collections::BTreeMap, fmt};

use olm_fbc::PackageContent;
use olm_go::Quoted;
use olm_semver::BundleVersion;
use olm_text::one_line;
use serde::Serialize;
use thiserror::Error;

use crate::{
    CatalogNote, CatalogView, Cause, Request, Resolution,
    candidates::{self, Filter},
    order::{self, Candidate},
    request::Query,
};

/// A bundle that is not the answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RejectedCandidate {
    /// Name of the catalog.
    pub catalog: String,
    /// Name of the bundle.
    pub bundle: String,
    /// Its version and release, when valid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<BundleVersion>,
    /// The reasons; never empty.
    pub reasons: Vec<Reason>,
}

/// A reason against a bundle. Displays as a clause about the bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Error)]
#[serde(rename_all = "camelCase")]
pub enum Reason {
    /// It declares dependencies, which are refused.
    #[error("declares a dependency by property {property}")]
    Dependency {
        /// Type of the property.
        property: String,
    },
    /// Catalogs of equal priority have different answers.
    #[error("catalogs of the same priority disagree: {}", .catalogs.join(", "))]
    Ambiguous {
        /// The catalogs.
        catalogs: Vec<String>,
    },
    /// A catalog that could have a better bundle cannot be read.
    #[error("a better one may be in a catalog that cannot be read: {}", .catalogs.join(", "))]
    AwaitsCatalog {
        /// The catalogs.
        catalogs: Vec<String>,
    },
    /// A catalog of higher priority has an answer.
    #[error("{} has a higher priority", .catalog.as_ref().map_or("another catalog".to_owned(), |name| format!("catalog {name}")))]
    LowerPriority {
        /// That catalog.
        catalog: Option<String>,
    },
    /// Another catalog offers the same bundle by the same digest.
    #[error("catalog {catalog} has the same by the same digest")]
    SameContent {
        /// That catalog.
        catalog: String,
    },
    /// The installed bundle is from another catalog.
    #[error("the installed bundle is from catalog {catalog}")]
    NotOrigin {
        /// That catalog.
        catalog: String,
    },
    /// It is in none of the channels asked for.
    #[error("is {}", if .channels.is_empty() { "in no channel".to_owned() } else { format!("only in channels {}", .channels.join(", ")) })]
    NotInChannels {
        /// The channels it is in.
        channels: Vec<String>,
    },
    /// Its version is not in the range asked for.
    #[error("is outside the range {}", Quoted(.range))]
    OutOfRange {
        /// The range.
        range: String,
    },
    /// It has no valid version.
    #[error("has no valid version: {cause}")]
    InvalidVersion {
        /// Why.
        cause: String,
    },
    /// No upgrade edge leads to it from the installed bundle.
    #[error("cannot be reached from {installed}")]
    NoEdge {
        /// The installed bundle.
        installed: String,
    },
    /// It has another major version than the installed bundle, and such updates are blocked.
    #[error("has another major version than {installed}, and major updates are blocked")]
    OtherMajor {
        /// The installed bundle.
        installed: String,
    },
    /// An update policy does not allow its catalog.
    #[error("is from catalog {catalog}, which update policy {policy} does not allow")]
    PolicyCatalog {
        /// The catalog.
        catalog: String,
        /// The policy.
        policy: String,
    },
    /// An update policy does not allow its version.
    #[error("is outside the range {} of update policy {policy}", Quoted(.range))]
    PolicyVersions {
        /// The range.
        range: String,
        /// The policy.
        policy: String,
    },
    /// It is deprecated, and another that fits is not.
    #[error("is deprecated, {} is not", .better.as_deref().unwrap_or("another catalog's"))]
    Deprecated {
        /// The other, when it is in the same catalog.
        better: Option<String>,
    },
    /// Another that fits has a higher version or release, or the same and is the first in the catalog.
    #[error("{better} is newer or listed first")]
    Lower {
        /// The other.
        better: String,
    },
}

impl Reason {
    /// How far from being the answer a bundle with this reason is.
    fn distance(&self) -> u8 {
        match self {
            Self::Dependency { .. }
            | Self::Ambiguous { .. }
            | Self::AwaitsCatalog { .. }
            | Self::LowerPriority { .. }
            | Self::SameContent { .. }
            | Self::NotOrigin { .. } => 0,
            Self::NotInChannels { .. }
            | Self::OutOfRange { .. }
            | Self::InvalidVersion { .. }
            | Self::NoEdge { .. }
            | Self::PolicyCatalog { .. }
            | Self::PolicyVersions { .. }
            | Self::OtherMajor { .. } => 1,
            Self::Deprecated { .. } | Self::Lower { .. } => 2,
        }
    }
}

impl fmt::Display for RejectedCandidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reasons: Vec<String> = self.reasons.iter().map(Reason::to_string).collect();
        f.write_str(&one_line(&format!("{} (catalog {}): {}", self.bundle, self.catalog, reasons.join(", "))))
    }
}

/// The first `max` rejected candidates and the number of the others, in one line; empty when there are none.
pub fn summary(rejected: &[RejectedCandidate], max: usize) -> String {
    let mut texts: Vec<String> = rejected.iter().take(max).map(ToString::to_string).collect();
    if rejected.len() > max {
        texts.push(format!("and {} more", rejected.len() - max));
    }
    texts.join("; ")
}

/// Each bundle of the readable catalogs that [`resolve`](crate::resolve) does not answer with, the closest first. Empty
/// when the request itself is wrong.
pub fn explain(request: &Request, catalogs: &[CatalogView<'_>]) -> Vec<RejectedCandidate> {
    match crate::resolve(request, catalogs) {
        Ok(answer) => {
            Query::new(request).map(|query| rejected(&query, catalogs, Ok(&answer))).unwrap_or_default()
        }
        Err(error) => error.rejected,
    }
}

/// As [`explain`], for an answer that is known.
pub(crate) fn rejected(
    query: &Query<'_>,
    catalogs: &[CatalogView<'_>],
    answer: Result<&Resolution, &Cause>,
) -> Vec<RejectedCandidate> {
    let mut all = Vec::new();
    for catalog in catalogs {
        let Ok(content) = catalog.content.as_ref() else { continue };
        let Ok(filter) = Filter::new(query, catalog.name, content) else { return Vec::new() };
        let best = candidates::best(query, catalog, content).ok().flatten();
        let channels = channels_of_bundles(query, content);
        for bundle in &content.bundles {
            let candidate = filter.candidate(bundle);
            let mut reasons = not_allowed(query, &filter, &candidate, &channels);
            if let (true, Some(best)) = (reasons.is_empty(), &best) {
                let best = &best.candidate;
                reasons.extend(if std::ptr::eq(best.bundle, bundle) {
                    not_chosen(query, catalog, &candidate, answer)
                } else if candidate.deprecated && !best.deprecated {
                    Some(Reason::Deprecated { better: Some(best.bundle.name.clone()) })
                } else {
                    Some(Reason::Lower { better: best.bundle.name.clone() })
                });
            }
            if !reasons.is_empty() {
                all.push((candidate, catalog.name, reasons));
            }
        }
    }
    all.sort_by(|(a, a_catalog, a_reasons), (b, b_catalog, b_reasons)| {
        closeness(a_reasons)
            .cmp(&closeness(b_reasons))
            .then_with(|| order::candidates(a, b))
            .then_with(|| a_catalog.cmp(b_catalog))
            .then_with(|| a.bundle.name.cmp(&b.bundle.name))
    });
    let rejected = |(candidate, catalog, reasons): (Candidate<'_>, &str, Vec<Reason>)| RejectedCandidate {
        catalog: catalog.to_owned(),
        bundle: candidate.bundle.name.clone(),
        version: candidate.version.ok(),
        reasons,
    };
    all.into_iter().map(rejected).collect()
}

fn closeness(reasons: &[Reason]) -> (u8, usize) {
    (reasons.iter().map(Reason::distance).max().unwrap_or_default(), reasons.len())
}

/// The channels that list each bundle; nothing when no channels are asked for.
fn channels_of_bundles<'a>(query: &Query<'_>, content: &'a PackageContent) -> BTreeMap<&'a str, Vec<String>> {
    let mut channels: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    if !query.request.channels.is_empty() {
        for channel in &content.channels {
            for entry in &channel.entries {
                channels.entry(&entry.name).or_default().push(channel.name.clone());
            }
        }
    }
    for names in channels.values_mut() {
        names.sort();
        names.dedup();
    }
    channels
}

/// The conditions of the request that the bundle does not meet.
fn not_allowed(
    query: &Query<'_>,
    filter: &Filter<'_>,
    candidate: &Candidate<'_>,
    channels: &BTreeMap<&str, Vec<String>>,
) -> Vec<Reason> {
    let (bundle, version) = (candidate.bundle, &candidate.version);
    let mut reasons = Vec::new();
    if !filter.in_channels(bundle) {
        let channels = channels.get(bundle.name.as_str()).cloned().unwrap_or_default();
        reasons.push(Reason::NotInChannels { channels });
    }
    if !filter.in_range(version) {
        reasons.push(match version {
            Ok(_) => Reason::OutOfRange { range: query.request.version.clone().unwrap_or_default() },
            Err(error) => Reason::InvalidVersion { cause: error.to_string() },
        });
    }
    let installed = || query.request.installed.as_ref().map(|i| i.name.clone()).unwrap_or_default();
    if !filter.is_reachable(bundle, version) {
        reasons.push(Reason::NoEdge { installed: installed() });
    }
    if version.is_ok() && !filter.keeps_major(version) {
        reasons.push(Reason::OtherMajor { installed: installed() });
    }
    let [catalog, versions] = filter.forbidden_by(candidate);
    reasons.extend(catalog.map(|ceiling| Reason::PolicyCatalog {
        catalog: filter.catalog().to_owned(),
        policy: ceiling.policy.clone(),
    }));
    reasons.extend(versions.map(|ceiling| Reason::PolicyVersions {
        range: ceiling.versions.clone().unwrap_or_default(),
        policy: ceiling.policy.clone(),
    }));
    reasons
}

/// The reason against the best bundle of a catalog; `None` when it is the answer.
fn not_chosen(
    query: &Query<'_>,
    catalog: &CatalogView<'_>,
    candidate: &Candidate<'_>,
    answer: Result<&Resolution, &Cause>,
) -> Option<Reason> {
    let bundle = &candidate.bundle.name;
    Some(match answer {
        Ok(answer) if answer.catalog == catalog.name => return None,
        Ok(_) if query.outside_policy(catalog.name).is_some() => Reason::PolicyCatalog {
            catalog: catalog.name.to_owned(),
            policy: query.request.ceiling.as_ref().map(|one| one.policy.clone()).unwrap_or_default(),
        },
        Ok(answer) => {
            let chosen = || answer.catalog.clone();
            let note = answer.other_catalogs.iter().find(|other| other.name == catalog.name);
            match note.map(|other| &other.note) {
                Some(CatalogNote::Deprecated) => Reason::Deprecated { better: None },
                Some(CatalogNote::SameContent) => Reason::SameContent { catalog: chosen() },
                Some(CatalogNote::LowerPriority) => Reason::LowerPriority { catalog: Some(chosen()) },
                // A catalog without a note was not asked.
                Some(CatalogNote::NotOrigin | CatalogNote::Unreadable(_)) | None => {
                    Reason::NotOrigin { catalog: chosen() }
                }
            }
        }
        Err(Cause::Ambiguous { catalogs, .. }) if catalogs.iter().any(|name| name == catalog.name) => {
            Reason::Ambiguous { catalogs: catalogs.clone() }
        }
        Err(Cause::Ambiguous { .. }) => Reason::Deprecated { better: None },
        Err(Cause::UnsupportedDependency { bundle: chosen, property, .. }) if chosen == bundle => {
            Reason::Dependency { property: property.clone() }
        }
        Err(Cause::InvalidBundleVersion { bundle: chosen, source, .. }) if chosen == bundle => {
            Reason::InvalidVersion { cause: source.to_string() }
        }
        Err(Cause::UnsupportedDependency { .. } | Cause::InvalidBundleVersion { .. }) => {
            Reason::LowerPriority { catalog: None }
        }
        Err(Cause::CatalogUnavailable { waiting_for, .. }) => {
            Reason::AwaitsCatalog { catalogs: waiting_for.clone() }
        }
        Err(Cause::NotFound { .. } | Cause::InvalidRange { .. } | Cause::InvalidInstalledVersion { .. }) => {
            let origin = query.request.installed.as_ref().and_then(|installed| installed.catalog.clone());
            Reason::NotOrigin { catalog: origin.unwrap_or_default() }
        }
    })
}
