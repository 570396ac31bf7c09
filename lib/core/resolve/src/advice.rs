//! What a person can do when there is no answer.

use std::fmt::Write;

use crate::{PassedOver, Reason, ResolveError};

/// A sentence about what to do, in terms of the extension's fields; `None` where the error says it all.
pub fn advice(error: &ResolveError) -> Option<String> {
    let first = |names: &[String]| names.first().cloned().unwrap_or_default();
    Some(match error {
        ResolveError::CatalogUnavailable { waiting_for, answer, .. } => {
            let mut told = format!(
                "Waiting for {}: look at the conditions of ClusterCatalog {}.",
                catalogs(waiting_for),
                first(waiting_for)
            );
            if let Some(answer) = answer {
                // Writing to a String cannot fail.
                let _ = write!(
                    told,
                    " Without it the answer would be bundle {} of catalog {}.",
                    answer.bundle, answer.catalog
                );
            }
            told
        }
        ResolveError::NotFound { wanted, passed_over } if passed_over.is_empty() => format!(
            "No catalog that may be used has a package {:?}: check the name, the catalog selector, and that a ClusterCatalog with the package is serving.",
            wanted.package
        ),
        ResolveError::NotFound { passed_over, .. } if keeps_to_origin(passed_over).is_some() => {
            let (bundle, origin) = keeps_to_origin(passed_over)?;
            format!(
                "Bundle {} of catalog {} would do, but the extension is to keep to {origin}, the catalog it was installed from. Remove the annotation same-catalog, or have the bundle added to that catalog.",
                bundle.bundle, bundle.catalog
            )
        }
        ResolveError::NotFound { wanted, .. } if wanted.installed_version.is_some() => {
            "Updates only follow the paths that the catalog provides. Ask for a version or channel that one leads to, or set upgradeConstraintPolicy to SelfCertified to leave them at your own risk.".to_owned()
        }
        ResolveError::NotFound { wanted, .. } => match (&wanted.version, wanted.channels.is_empty()) {
            (Some(_), false) => "Ask for another version range or other channels.".to_owned(),
            (Some(_), true) => "Ask for another version range.".to_owned(),
            (None, false) => "Ask for other channels.".to_owned(),
            (None, true) => return None,
        },
        ResolveError::Ambiguous { catalogs, .. } => format!(
            "Choose one: select a catalog (selector with matchLabels olm.operatorframework.io/metadata.name: {}), or give the catalogs different priorities, of which the highest wins.",
            first(catalogs)
        ),
        ResolveError::InvalidRange { .. } => {
            "Correct the version: for instance 1.2.3, 1.2.x, \">=1.2.0 <2.0.0\" or \"~1.2 || ^2.0\".".to_owned()
        }
        ResolveError::UnsupportedDependency { .. } => {
            "Dependencies are refused as asked for; otherwise they are checked against what is installed.".to_owned()
        }
        ResolveError::InvalidBundleVersion { .. } => {
            "The catalog is wrong here, only its author can correct it. Ask for another version or catalog.".to_owned()
        }
        ResolveError::InvalidInstalledVersion { .. } => {
            "Upgrade edges cannot be followed from there. Set upgradeConstraintPolicy to SelfCertified and name the version to go to.".to_owned()
        }
    })
}

/// The bundle that is no answer for the only reason that it is not from the installed one's catalog.
fn keeps_to_origin(passed_over: &[PassedOver]) -> Option<(&PassedOver, &str)> {
    passed_over.iter().find_map(|one| match one.reasons.as_slice() {
        [Reason::NotOrigin { catalog }] => Some((one, catalog.as_str())),
        _ => None,
    })
}

fn catalogs(names: &[String]) -> String {
    format!("{} {}", if names.len() == 1 { "catalog" } else { "catalogs" }, names.join(", "))
}
