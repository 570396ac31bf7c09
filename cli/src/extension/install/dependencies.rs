//! The packages that a package requires, in the order in which they are installed.

use std::collections::BTreeSet;

use anyhow::{Context as _, bail};
use futures::future::BoxFuture;
use kube::{Client, ResourceExt};
use olm_api::{
    names::{BUNDLE_VERSION, CATALOG_PROPERTIES_ANNOTATION, PACKAGE_NAME, PROPERTIES_ANNOTATION},
    v1::{ClusterCatalog, ClusterObjectSet, LifecycleState},
};
use olm_dependencies::{
    InstalledBundle, Provider, Requirement, Work, cluster_extension, providers, requirements, unmet,
};
use olm_fbc::{PackageContent, Property};
use olm_object::{GroupVersionKind, text};
use olm_runtime::{Discovery, DiscoveryError};
use olm_semver::Version;
use operator_controller::CatalogReader as _;
use serde_json::json;

use super::{
    super::{
        planning::Plans,
        revisions::{annotation, has_rolled_out},
        upgrade::Target,
    },
    package::{Package, Wanted},
};
use crate::{cluster::list, output::refusal};

/// Packages that one command installs.
const PACKAGES_MAX: usize = 10;

/// A bundle that meets requirements.
struct Present {
    package: String,
    version: Option<Version>,
    properties: Vec<Property>,
}

impl Present {
    fn view(&self) -> InstalledBundle<'_> {
        InstalledBundle {
            package: &self.package,
            version: self.version.as_ref(),
            properties: &self.properties,
        }
    }

    fn of_set(set: &ClusterObjectSet) -> Self {
        let listed = |key| serde_json::from_str::<Vec<Property>>(annotation(set, key)).unwrap_or_default();
        let mut properties = listed(CATALOG_PROPERTIES_ANNOTATION);
        properties.extend(listed(PROPERTIES_ANNOTATION));
        Self {
            package: annotation(set, PACKAGE_NAME).to_owned(),
            version: annotation(set, BUNDLE_VERSION).parse().ok(),
            properties,
        }
    }

    fn of_package(package: &Package) -> Self {
        Self {
            package: package.wanted.package.clone(),
            version: package.revision.version.parse().ok(),
            properties: package.revision.properties.clone(),
        }
    }
}

/// Plans packages one after another.
struct Search<'a> {
    client: &'a Client,
    plans: &'a Plans,
    with_dependencies: bool,
    catalogs: Vec<(String, i32)>,
    installed: Vec<Present>,
    /// Packages whose requirements are being planned, the first is the one that was asked for.
    begun: Vec<String>,
    planned: Vec<Package>,
}

/// The package and, if wanted, what it requires, which comes first.
pub(super) async fn all(
    client: &Client,
    plans: &Plans,
    wanted: Wanted,
    with_dependencies: bool,
) -> anyhow::Result<Vec<Package>> {
    let catalogs: Vec<ClusterCatalog> = list(client).await?;
    let sets: Vec<ClusterObjectSet> = list(client).await?;
    let is_installed =
        |set: &&ClusterObjectSet| set.spec.lifecycle_state == LifecycleState::Active && has_rolled_out(set);
    let mut search = Search {
        client,
        plans,
        with_dependencies,
        catalogs: catalogs.iter().map(|one| (one.name_any(), one.spec.priority)).collect(),
        installed: sets.iter().filter(is_installed).map(Present::of_set).collect(),
        begun: Vec::new(),
        planned: Vec::new(),
    };
    search.plan(wanted).await?;
    Ok(search.planned)
}

impl Search<'_> {
    fn plan(&mut self, wanted: Wanted) -> BoxFuture<'_, anyhow::Result<()>> {
        Box::pin(async move {
            if self.begun.contains(&wanted.package) {
                bail!(
                    "packages {} require each other: print their manifests with -o yaml and apply them together",
                    self.begun.join(", ")
                );
            }
            if self.begun.len() + self.planned.len() >= PACKAGES_MAX {
                bail!("more than {PACKAGES_MAX} packages would be installed: install some of them first");
            }
            self.begun.push(wanted.package.clone());
            let package = Package::plan_of(self.client, &self.plans.planner, wanted).await?;
            let required = requirements(&package.revision.properties)?;
            for requirement in self.missing(&required).await? {
                let provider = self.provider(&package, &requirement).await?;
                // One that was planned for an earlier requirement may meet this one as well.
                if !self.planned.iter().any(|other| other.wanted.package == provider.package) {
                    self.plan(provider_wanted(&requirement, &provider)).await?;
                }
            }
            self.begun.pop();
            self.planned.push(package);
            Ok(())
        })
    }

    /// The requirements that neither what is installed nor what is planned meets, packages first: what they bring may be
    /// what others ask for.
    async fn missing(&self, required: &[Requirement]) -> anyhow::Result<Vec<Requirement>> {
        let discovery = Discovery::new(self.client.clone());
        let mut served: BTreeSet<&GroupVersionKind> = BTreeSet::new();
        for kind in required.iter().flat_map(Requirement::kinds) {
            match discovery.kind(&kind.api_version(), &kind.kind).await {
                Ok(_) => drop(served.insert(kind)),
                Err(DiscoveryError::Unknown { .. }) => {}
                Err(error) => return Err(error).context("asking which kinds the cluster serves"),
            }
        }
        let planned: Vec<Present> = self.planned.iter().map(Present::of_package).collect();
        let present: Vec<InstalledBundle<'_>> =
            self.installed.iter().chain(&planned).map(Present::view).collect();
        let work = Work::default();
        let missing = unmet(required, &present, &|kind| served.contains(kind), &work);
        let mut missing: Vec<Requirement> = missing.into_iter().cloned().collect();
        work.check()?;
        missing.sort_by_key(|requirement| requirement.packages().is_empty());
        Ok(missing)
    }

    /// The package that is to meet a requirement.
    async fn provider(&self, package: &Package, requirement: &Requirement) -> anyhow::Result<Provider> {
        let needs = format!("{} requires {requirement}", package.bundle());
        if requirement.is_conflict() {
            return Err(refusal(format!("{needs}: something that it conflicts with is installed")));
        }
        let packages = self.packages(requirement).await;
        let views: Vec<(&str, i32, &PackageContent)> =
            packages.iter().map(|(name, priority, content)| (name.as_str(), *priority, content)).collect();
        let Some(provider) = providers(requirement, &views, &Work::default()).into_iter().next() else {
            return Err(refusal(format!(
                "{needs}, which is not installed, and no catalog has a bundle that meets it"
            )));
        };
        if !self.with_dependencies {
            let Provider { package, version, catalog, .. } = &provider;
            return Err(refusal(format!(
                "{needs}, which is not installed: package {package} {version} of catalog {catalog} meets it. Pass --with-dependencies to install that too"
            )));
        }
        Ok(provider)
    }

    /// The packages that might meet a requirement. A catalog that cannot be read is skipped.
    async fn packages(&self, requirement: &Requirement) -> Vec<(String, i32, PackageContent)> {
        let names: BTreeSet<&str> = requirement.packages().into_iter().map(|(name, _)| name).collect();
        let terms: Vec<String> =
            requirement.search_terms().into_iter().map(|term| json!(term).to_string()).collect();
        let (mut found, reader) = (Vec::new(), &self.plans.catalogs);
        for (catalog, priority) in &self.catalogs {
            for name in &names {
                if let Ok(content) = reader.package(catalog, name).await {
                    found.push((catalog.clone(), *priority, (*content).clone()));
                }
            }
            for term in &terms {
                for content in reader.mentioning(catalog, term).await.unwrap_or_default() {
                    found.push((catalog.clone(), *priority, content));
                }
            }
        }
        found
    }
}

/// A package that meets a requirement, as it is installed by itself.
fn provider_wanted(requirement: &Requirement, provider: &Provider) -> Wanted {
    let extension = cluster_extension(requirement, provider);
    let version = text(&extension, "/spec/source/catalog/version");
    Wanted {
        package: provider.package.clone(),
        target: Target { version: (!version.is_empty()).then(|| version.to_owned()), ..Target::default() },
        catalog: Some(provider.catalog.clone()),
        name: provider.package.clone(),
        namespace: provider.package.clone(),
        ..Wanted::default()
    }
}
