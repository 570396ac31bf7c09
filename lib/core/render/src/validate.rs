//! Everything that is wrong with a bundle, found at once, in upstream's order and words.
//!
//! One of upstream's thirteen checks is laxer: the hyphen at the end of a webhook's name is no fault, as it is
//! taken off anyway.
//!
//! As in operator-controller's internal/operator-controller/rukpak/render/registryv1/validators/validator.go.

mod webhooks;

use std::collections::{BTreeMap, BTreeSet};

use olm_bundle::{Bundle, Csv};
use olm_object::{names::subdomain_problems, text};

use crate::{RenderError, shipped::shipped_kind};

type Check = fn(&Bundle, &mut Vec<String>);

/// The checks, in the order of their findings.
static CHECKS: &[Check] = &[
    deployments_are_unique,
    deployment_names_are_valid,
    crds_are_unique,
    owned_crds_are_shipped,
    package_is_named,
    webhooks::conversion_needs_all_namespaces_only,
    webhooks::deployments_exist,
    webhooks::names_are_unique,
    webhooks::names_are_valid,
    webhooks::crds_have_one_converter,
    webhooks::converted_crds_are_owned,
    webhooks::rules_are_allowed,
    kinds_are_supported,
];

/// Runs all checks.
///
/// # Errors
/// [`RenderError::Invalid`] with every finding.
pub(crate) fn check(bundle: &Bundle) -> Result<(), RenderError> {
    let mut findings = Vec::new();
    for check in CHECKS {
        check(bundle, &mut findings);
    }
    if findings.is_empty() { Ok(()) } else { Err(RenderError::Invalid(findings)) }
}

/// The names that occur more than once, sorted.
fn repeated<'a>(names: impl Iterator<Item = &'a str>) -> impl Iterator<Item = &'a str> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for name in names {
        *counts.entry(name).or_default() += 1;
    }
    counts.into_iter().filter(|(_, count)| *count > 1).map(|(name, _)| name)
}

fn deployment_names(csv: &Csv) -> impl Iterator<Item = &str> {
    csv.deployments.iter().map(|deployment| deployment.name.as_str())
}

fn deployments_are_unique(bundle: &Bundle, findings: &mut Vec<String>) {
    findings.extend(
        repeated(deployment_names(&bundle.csv)).map(|name| {
            format!("cluster service version contains duplicate strategy deployment spec '{name}'")
        }),
    );
}

fn deployment_names_are_valid(bundle: &Bundle, findings: &mut Vec<String>) {
    for name in deployment_names(&bundle.csv).collect::<BTreeSet<_>>() {
        let problems = subdomain_problems(name);
        if !problems.is_empty() {
            let problems = problems.join(", ");
            findings.push(format!(
                "invalid cluster service version strategy deployment name '{name}': {problems}"
            ));
        }
    }
}

fn crd_names(bundle: &Bundle) -> impl Iterator<Item = &str> {
    bundle.crds.iter().map(|crd| text(crd, "/metadata/name"))
}

fn crds_are_unique(bundle: &Bundle, findings: &mut Vec<String>) {
    findings.extend(
        repeated(crd_names(bundle))
            .map(|name| format!("bundle contains duplicate custom resource definition '{name}'")),
    );
}

fn owned_crds_are_shipped(bundle: &Bundle, findings: &mut Vec<String>) {
    let shipped: BTreeSet<_> = crd_names(bundle).collect();
    let owned: BTreeSet<_> = bundle.csv.owned_crds.iter().map(String::as_str).collect();
    findings.extend(owned.difference(&shipped).map(|name| {
        format!(
            "cluster service definition references owned custom resource definition '{name}' not found in bundle"
        )
    }));
}

fn package_is_named(bundle: &Bundle, findings: &mut Vec<String>) {
    if bundle.package.is_empty() {
        findings.push("package name is empty".to_owned());
    }
}

fn kinds_are_supported(bundle: &Bundle, findings: &mut Vec<String>) {
    for object in &bundle.others {
        let kind = text(object, "/kind");
        if shipped_kind(kind).is_none() {
            let name = text(object, "/metadata/name");
            findings.push(format!("unsupported resource \"{name}\" with kind \"{kind}\""));
        }
    }
}
