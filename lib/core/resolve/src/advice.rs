//! Advice for users whose request has no answer.

use std::{cmp::Ordering, collections::BTreeSet, fmt::Write};

use olm_semver::Version;
use olm_text::{did_you_mean, one_line};

use crate::{Cause, Reason, RejectedCandidate, Request, ResolveError};

/// Channels that are named at most.
const CHANNELS_MAX: usize = 20;

/// The reader of the advice: settings have other names on a cluster than on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// Authors of ClusterExtensions and ClusterCatalogs.
    Cluster,
    /// Users of `olm resolve`.
    CommandLine,
}

/// The remedy; `None` where the text of the error suffices.
pub fn advice(error: &ResolveError, audience: Audience) -> Option<String> {
    let remedy = match &error.cause {
        Cause::CatalogUnavailable { waiting_for, .. } if error.rejected.is_empty() => format!(
            "No readable catalog has the package: check its name. If it is in {}, check the conditions of ClusterCatalog {}.",
            catalogs(waiting_for),
            first(waiting_for)
        ),
        Cause::CatalogUnavailable { waiting_for, answer, .. } => {
            let mut remedy = format!(
                "Waiting for {}: check the conditions of ClusterCatalog {}.",
                catalogs(waiting_for),
                first(waiting_for)
            );
            if let Some(answer) = answer {
                // Writing to a String cannot fail.
                let _ = write!(
                    remedy,
                    " Without it, bundle {} of catalog {} would be chosen.",
                    answer.bundle, answer.catalog
                );
            }
            remedy
        }
        Cause::NotFound { request } if error.rejected.is_empty() => match audience {
            Audience::Cluster => format!(
                "No catalog that may be used has a package {:?}: check the name, the catalog selector, and that a ClusterCatalog with the package is serving.",
                request.package
            ),
            Audience::CommandLine => format!(
                "No catalog given has a package {:?}: check the name (\"olm catalog list packages <catalog>\" shows all of a catalog), or give another --catalog.",
                request.package
            ),
        },
        Cause::NotFound { request } => rejected(request, &error.rejected, audience)?,
        Cause::Ambiguous { catalogs, .. } => match audience {
            Audience::Cluster => format!(
                "Choose one: select a catalog (selector with matchLabels olm.operatorframework.io/metadata.name: {}), or give the catalogs different priorities, of which the highest wins.",
                first(catalogs)
            ),
            Audience::CommandLine => "Choose one: give only one --catalog, or different priorities (--catalog <catalog>=1), of which the highest wins.".to_owned(),
        },
        Cause::InvalidRange { .. } => {
            "Correct the version: for instance 1.2.3, 1.2.x, \">=1.2.0 <2.0.0\" or \"~1.2 || ^2.0\".".to_owned()
        }
        Cause::UnsupportedDependency { .. } => {
            "Bundles with dependencies are rejected because the extension asks for it; otherwise dependencies are checked against what is installed.".to_owned()
        }
        Cause::InvalidBundleVersion { .. } => {
            "The catalog is wrong; only its author can correct it. Use another version or catalog.".to_owned()
        }
        Cause::InvalidInstalledVersion { .. } => {
            let policy = certifying(audience);
            format!("Upgrade paths cannot be followed from that version. {policy} and set the version to install.")
        }
    };
    Some(one_line(&remedy).into_owned())
}

/// The change of the request that would let one of the rejected candidates be the answer.
fn rejected(request: &Request, all: &[RejectedCandidate], audience: Audience) -> Option<String> {
    // The only thing between a bundle and the answer.
    let by_alone = |wanted: fn(&Reason) -> bool| {
        all.iter().find(|one| matches!(one.reasons.as_slice(), [only] if wanted(only)))
    };
    if let Some(one) = by_alone(|reason| matches!(reason, Reason::NotOrigin { .. }))
        && let [Reason::NotOrigin { catalog: origin }] = one.reasons.as_slice()
    {
        let remedy = match audience {
            Audience::Cluster => "Remove the annotation same-catalog",
            Audience::CommandLine => "Leave out --same-catalog",
        };
        return Some(format!(
            "Bundle {} of catalog {} matches, but the extension must stay with {origin}, the catalog it was installed from. {remedy}, or have the bundle added to that catalog.",
            one.bundle, one.catalog
        ));
    }
    if let Some(one) = by_alone(|reason| matches!(reason, Reason::OtherMajor { .. })) {
        let remedy = match audience {
            Audience::Cluster => "Remove the annotation major-updates",
            Audience::CommandLine => "Leave out --block-major-updates",
        };
        return Some(format!("{remedy} to allow the update to bundle {}.", one.bundle));
    }
    if let Some(one) =
        by_alone(|reason| matches!(reason, Reason::PolicyCatalog { .. } | Reason::PolicyVersions { .. }))
    {
        let policy = request.ceiling.as_ref().map_or("", |ceiling| ceiling.policy.as_str());
        return Some(format!(
            "Update policy {policy} does not allow bundle {}: ask who maintains the policy, or have the extension selected by another one.",
            one.bundle
        ));
    }
    if let Some(one) = by_alone(|reason| matches!(reason, Reason::NoEdge { .. })) {
        let policy = certifying(audience);
        return Some(format!(
            "Upgrades only follow the paths that the catalog provides, and none leads to bundle {}. Choose a version or channel that one leads to. {policy} to ignore the paths at your own risk.",
            one.bundle
        ));
    }
    let (version, channels) = match audience {
        Audience::Cluster => ("another version range", "other channels"),
        Audience::CommandLine => ("another --version", "another --channel"),
    };
    let nearest = match nearest_versions(request, all).as_slice() {
        [] => String::new(),
        versions => format!(", for instance {}", versions.join(" or ")),
    };
    let others = other_channels(request, all);
    match (request.wanted_version(), request.channels.is_empty()) {
        (Some(_), false) if nearest.is_empty() => Some(format!("Choose {version} or {channels}.{others}")),
        (Some(_), false) => Some(format!("Choose {version}{nearest}, or {channels}.{others}")),
        (Some(_), true) => Some(format!("Choose {version}{nearest}.")),
        (None, false) => Some(format!("Choose {channels}.{others}")),
        (None, true) => None,
    }
}

/// The versions next to the wanted one that only the range excludes; the newest where the range is not one version.
fn nearest_versions(request: &Request, all: &[RejectedCandidate]) -> Vec<String> {
    let in_the_way = |one: &&RejectedCandidate| matches!(one.reasons.as_slice(), [Reason::OutOfRange { .. }]);
    let mut versions: Vec<&Version> =
        all.iter().filter(in_the_way).filter_map(|one| Some(&one.version.as_ref()?.version)).collect();
    versions.sort_by(|a, b| a.cmp_precedence(b));
    let wanted = request
        .wanted_version()
        .and_then(|range| range.trim_start_matches('=').trim().parse::<Version>().ok());
    let (below, above) = match &wanted {
        Some(wanted) => {
            versions.split_at(versions.partition_point(|one| one.cmp_precedence(wanted) == Ordering::Less))
        }
        None => (versions.as_slice(), &[][..]),
    };
    below.last().into_iter().chain(above.first()).map(ToString::to_string).collect()
}

/// Sentences about the channels that the request leaves out, and those that a misspelt one may mean.
fn other_channels(request: &Request, all: &[RejectedCandidate]) -> String {
    let names: BTreeSet<&str> = all.iter().filter_map(left_out).flatten().map(String::as_str).collect();
    if names.is_empty() {
        return String::new();
    }
    // Where a bundle is in one of the channels, that one is spelt right.
    let are_unknown = all.iter().all(|one| left_out(one).is_some());
    let mut unknown = request.channels.iter().filter(|_| are_unknown);
    let meant = unknown.find_map(|channel| did_you_mean(channel, names.iter().copied()));
    let meant = meant.map(|question| format!(" {question}")).unwrap_or_default();
    let more = if names.len() > CHANNELS_MAX { ", and more" } else { "" };
    let shown: Vec<&str> = names.into_iter().take(CHANNELS_MAX).collect();
    format!("{meant} Other channels of this package: {}{more}.", shown.join(", "))
}

/// The channels of a bundle that the request leaves out.
fn left_out(candidate: &RejectedCandidate) -> Option<&Vec<String>> {
    candidate.reasons.iter().find_map(|reason| match reason {
        Reason::NotInChannels { channels } => Some(channels),
        _ => None,
    })
}

fn certifying(audience: Audience) -> &'static str {
    match audience {
        Audience::Cluster => "Set upgradeConstraintPolicy to SelfCertified",
        Audience::CommandLine => "Pass --policy SelfCertified",
    }
}

fn first(names: &[String]) -> &str {
    names.first().map_or("", String::as_str)
}

fn catalogs(names: &[String]) -> String {
    format!("{} {}", if names.len() == 1 { "catalog" } else { "catalogs" }, names.join(", "))
}
