//! The answer of `olm resolve`: the bundle or the error, and the reasons.

use std::{collections::BTreeSet, fmt::Write};

use olm_dependencies::{Provider, Requirement, Work, cluster_extension, providers, requirements};
use olm_fbc::PackageContent;
use olm_resolve::{
    Audience, CatalogView, DeprecationData, DeprecationReason, RejectedCandidate, Request, Resolution,
    ResolveError, SUMMARY_BUNDLES_MAX, advice, deprecation_status, explain, resolve, summary, upgrade_path,
};
use olm_semver::Version;
use olm_text::one_line;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    catalogs::{Catalog, meant},
    output::below,
};

/// The whole answer.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Answer {
    #[serde(skip_serializing_if = "Option::is_none")]
    resolution: Option<Resolution>,
    /// The controller's text, as the condition `Progressing` has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
    /// The package that was probably meant, when no catalog has the one that was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    did_you_mean: Option<String>,
    /// Versions of the upgrades that together lead where no single one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<Vec<String>>,
    /// Messages of the deprecations that apply to the chosen bundle.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    deprecations: Vec<String>,
    /// Requirements that the bundle declares.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    requirements: Vec<Needed>,
    /// All bundles of the package that are not the answer, when asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    rejected: Option<Vec<RejectedCandidate>>,
    /// The first of them in one line, on an error.
    #[serde(skip)]
    summary: String,
}

/// A requirement of the chosen bundle.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Needed {
    requirement: String,
    /// Packages of these catalogs that would meet it, when asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    met_by: Option<Vec<Provider>>,
    /// A ClusterExtension that installs the first of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    extension: Option<Value>,
}

impl Answer {
    pub(super) async fn new(
        request: &Request,
        views: &[CatalogView<'_>],
        catalogs: &[Catalog],
        result: Result<Resolution, ResolveError>,
        explains: bool,
    ) -> Self {
        let rejected = explains.then(|| explain(request, views));
        match result {
            Ok(found) => Self {
                deprecations: deprecations(request, &found),
                requirements: needed(&found, catalogs, explains).await,
                resolution: Some(found),
                rejected,
                ..Self::default()
            },
            Err(error) => Self {
                did_you_mean: if views
                    .iter()
                    .all(|view| view.content.as_ref().is_ok_and(|content| content.is_empty()))
                {
                    meant(&request.package, catalogs).await
                } else {
                    None
                },
                path: path(request, views),
                summary: summary(&error.rejected, SUMMARY_BUNDLES_MAX),
                advice: advice(&error, Audience::CommandLine),
                error: Some(error.to_string()),
                rejected,
                ..Self::default()
            },
        }
    }

    /// For people.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        if let Some(found) = &self.resolution {
            let _ = write!(
                text,
                "bundle    {}\nversion   {}\ncatalog   {}\nimage     {}",
                one_line(&found.bundle),
                found.version,
                found.catalog,
                one_line(&found.image)
            );
            for other in &found.other_catalogs {
                let bundle = other.bundle.as_deref().unwrap_or("unreadable");
                let _ = write!(text, "\nalso in   {} ({})", other.name, one_line(bundle));
            }
            for message in &self.deprecations {
                let _ = write!(text, "\ndeprecated  {}", below(message, 12));
            }
            for needed in &self.requirements {
                let _ = write!(text, "\nrequires  {}", below(&needed.requirement, 10));
                needed.write(&mut text);
            }
        }
        if let Some(error) = &self.error {
            let _ = write!(text, "no answer: {}", below(error, 2));
        }
        if let Some(advice) = &self.advice {
            let _ = write!(text, "\n{advice}");
        }
        if let Some(meant) = &self.did_you_mean {
            let _ = write!(text, "\n{meant}");
        }
        if let Some(path) = &self.path {
            let _ = write!(
                text,
                "\nUpgrades lead there in {} steps: {} (see olm catalog path)",
                path.len(),
                path.join(", then ")
            );
        }
        match &self.rejected {
            Some(all) if all.is_empty() => {}
            Some(all) => {
                text.push_str("\n\nRejected, the closest first:");
                for one in all {
                    let _ = write!(text, "\n  {one}");
                }
            }
            None if self.summary.is_empty() => {}
            None => {
                let _ = write!(text, "\nRejected: {}", self.summary);
            }
        }
        text
    }
}

/// The versions of several upgrades that lead from the installed bundle to the one that would be chosen without it.
fn path(request: &Request, views: &[CatalogView<'_>]) -> Option<Vec<String>> {
    let installed = request.installed.as_ref()?;
    let version: Version = installed.version.parse().ok()?;
    let wanted = resolve(&Request { installed: None, ..request.clone() }, views).ok()?;
    let view = views.iter().find(|view| view.name == wanted.catalog)?;
    let content = view.content.as_ref().ok()?;
    let hops = upgrade_path(content, (&installed.name, &version), &wanted.bundle, &request.channels).ok()?;
    Some(hops.iter().map(|hop| hop.version.to_string()).collect()).filter(|hops: &Vec<String>| hops.len() > 1)
}

impl Needed {
    fn write(&self, text: &mut String) {
        let Some(met_by) = &self.met_by else { return };
        if met_by.is_empty() {
            text.push_str("\n          no bundle of these catalogs would meet it");
        }
        for provider in met_by {
            let Provider { package, version, catalog, .. } = provider;
            let _ = write!(
                text,
                "\n          met by package {} {version} (catalog {catalog})",
                one_line(package)
            );
        }
        if let Some(extension) = &self.extension {
            text.push_str("\n          installed with:");
            for line in olm_yaml::to_yaml(extension).lines() {
                let _ = write!(text, "\n            {line}");
            }
        }
    }
}

fn deprecations(request: &Request, found: &Resolution) -> Vec<String> {
    let data = DeprecationData::Available(found.deprecation.as_ref());
    let status = deprecation_status(data, &request.channels, Some(&found.bundle));
    let messages = [status.package, status.channel, status.bundle].into_iter();
    messages.filter(|one| one.reason == DeprecationReason::Deprecated).map(|one| one.message).collect()
}

/// The requirements that the bundle declares in its catalog. One that cannot be understood is reported as such.
async fn needed(found: &Resolution, catalogs: &[Catalog], explains: bool) -> Vec<Needed> {
    match requirements(&found.properties) {
        Ok(mut all) => {
            // Packages first: what they bring may be what the others ask for.
            all.sort_by_key(|requirement| requirement.packages().is_empty());
            let mut named = BTreeSet::new();
            let mut needed = Vec::new();
            for one in &all {
                needed.push(one_needed(one, catalogs, explains, &mut named).await);
            }
            needed
        }
        Err(error) => vec![Needed { requirement: error.to_string(), met_by: None, extension: None }],
    }
}

/// One of them; extensions for packages that are `named` already are not written out again.
async fn one_needed(
    requirement: &Requirement,
    catalogs: &[Catalog],
    explains: bool,
    named: &mut BTreeSet<String>,
) -> Needed {
    let mut met_by = None;
    if explains {
        let packages = packages_for(requirement, catalogs).await;
        let views: Vec<(&str, i32, &PackageContent)> = packages
            .iter()
            .map(|(catalog, package)| (catalog.name.as_str(), catalog.priority, package))
            .collect();
        met_by = Some(providers(requirement, &views, &Work::default()));
    }
    let first = met_by.as_ref().and_then(|all| all.first());
    let first = first.filter(|first| named.insert(first.package.clone()));
    let extension = first.map(|first| cluster_extension(requirement, first));
    Needed { requirement: requirement.to_string(), met_by, extension }
}

/// The packages that might meet the requirement. A catalog that cannot be read any more is skipped.
async fn packages_for<'a>(
    requirement: &Requirement,
    catalogs: &'a [Catalog],
) -> Vec<(&'a Catalog, PackageContent)> {
    let names: BTreeSet<&str> = requirement.packages().into_iter().map(|(name, _)| name).collect();
    let terms: Vec<String> =
        requirement.search_terms().into_iter().map(|text| json!(text).to_string()).collect();
    let mut found = Vec::new();
    for catalog in catalogs {
        for name in &names {
            found.extend(catalog.package(name).await.ok().map(|package| (catalog, package)));
        }
        for term in &terms {
            let mentioning = catalog.mentioning(term).await.unwrap_or_default();
            found.extend(mentioning.into_iter().map(|package| (catalog, package)));
        }
    }
    found
}
