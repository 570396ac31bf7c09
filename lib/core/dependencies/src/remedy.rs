//! Remedies for a requirement that is not met: bundles of the catalogs, and an extension that installs one of them.

use std::cmp::Reverse;

use olm_fbc::{PROPERTY_PACKAGE, PackageContent, Property};
use olm_semver::{BundleVersion, Constraint, Version};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    InstalledBundle, Requirement, Work, evaluate::holds, limits::PROVIDERS_MAX, requirement::Predicate,
};

/// A package of a catalog that would meet a requirement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Provider {
    /// Name of the catalog.
    pub catalog: String,
    /// Name of the package.
    pub package: String,
    /// The highest version that would do.
    pub version: String,
    /// Name of that bundle.
    pub bundle: String,
}

/// The packages that would meet the requirement, or one of the members of an `all` or `any`: those of catalogs
/// with the highest priority first, then by name. Catalogs are given by name and priority, packages one by one. When the
/// `work` is too much, there are more than are found.
pub fn providers(
    requirement: &Requirement,
    packages: &[(&str, i32, &PackageContent)],
    work: &Work,
) -> Vec<Provider> {
    let mut found: Vec<(i32, Provider)> = Vec::new();
    for (catalog, priority, content) in packages {
        let fitting = content.bundles.iter().filter_map(|bundle| {
            let version = version(&bundle.properties)?;
            let present = InstalledBundle {
                package: &bundle.package,
                version: Some(&version),
                properties: &bundle.properties,
            };
            helps(requirement, &present, work).then_some((version, bundle))
        });
        let best = fitting.max_by(|(a, a_bundle), (b, b_bundle)| {
            // A release before a pre-release, whatever the numbers: it is what a person would want.
            (a.prerelease().is_empty().cmp(&b.prerelease().is_empty()))
                .then_with(|| a.cmp_precedence(b))
                .then_with(|| b_bundle.name.cmp(&a_bundle.name))
        });
        let Some((version, bundle)) = best else { continue };
        let one = Provider {
            catalog: (*catalog).to_owned(),
            package: bundle.package.clone(),
            version: version.without_build().to_string(),
            bundle: bundle.name.clone(),
        };
        found.push((*priority, one));
    }
    found
        .sort_by_cached_key(|(priority, one)| (Reverse(*priority), one.package.clone(), one.catalog.clone()));
    found.into_iter().map(|(_, one)| one).take(PROVIDERS_MAX).collect()
}

/// Whether the bundle meets the requirement or a part of it.
fn helps(requirement: &Requirement, present: &InstalledBundle<'_>, work: &Work) -> bool {
    match &requirement.predicate {
        Predicate::Not(_) => false,
        Predicate::Any(members) => members.iter().any(|member| helps(member, present, work)),
        predicate => holds(predicate, present, work),
    }
}

fn version(properties: &[Property]) -> Option<Version> {
    #[derive(Deserialize)]
    struct Package {
        version: String,
    }
    let package = properties.iter().find(|property| property.kind == PROPERTY_PACKAGE)?;
    let text = Package::deserialize(&package.value).ok()?.version;
    BundleVersion::legacy(&text).ok().map(|version| version.version)
}

/// A ClusterExtension that would install the provider: in a namespace and with a ServiceAccount named after the
/// package, in the range that is asked for if it means the same there, else in just that version.
pub fn cluster_extension(requirement: &Requirement, provider: &Provider) -> Value {
    let asked = requirement.packages();
    let range = match asked.as_slice() {
        [(name, range)] if *name == provider.package => range.clone(),
        _ => None,
    };
    let means_the_same = |range: &String| {
        let version = provider.version.parse::<Version>();
        let constraint = range.parse::<Constraint>();
        range.len() <= 64
            && matches!((version, constraint), (Ok(version), Ok(constraint)) if constraint.matches(&version))
    };
    let mut catalog = json!({"packageName": provider.package});
    if let Some(range) = range.filter(|_| requirement.kinds().is_empty()) {
        let version = if means_the_same(&range) { range } else { provider.version.clone() };
        catalog["version"] = version.into();
    }
    json!({
        "apiVersion": "olm.operatorframework.io/v1",
        "kind": "ClusterExtension",
        "metadata": {"name": provider.package},
        "spec": {
            "namespace": provider.package,
            "serviceAccount": {"name": format!("{}-installer", provider.package)},
            "source": {"sourceType": "Catalog", "catalog": catalog},
        },
    })
}
