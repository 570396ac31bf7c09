//! The packages that a package requires, in the order in which they are installed.

use std::collections::BTreeSet;

use anyhow::{Context as _, bail};
use catalogd::CatalogReader as _;
use futures::future::BoxFuture;
use kube::{Client, ResourceExt};
use olm_api::{
    names::{BUNDLE_VERSION, PACKAGE_NAME},
    v1::{ClusterCatalog, ClusterObjectSet, LifecycleState},
};
use olm_dependencies::{
    InstalledBundle, Provider, Requirement, Work, cluster_extension, providers, requirements, unmet,
};
use olm_fbc::{PackageContent, Property};
use olm_object::{GroupVersionKind, text};
use olm_runtime::{Discovery, DiscoveryError};
use olm_semver::Version;
use serde_json::json;

use super::{
    super::{
        planning::Plans,
        revisions::{annotation, has_rolled_out, properties},
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
        Self {
            package: annotation(set, PACKAGE_NAME).to_owned(),
            version: annotation(set, BUNDLE_VERSION).parse().ok(),
            properties: properties(set),
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
    discovery: Discovery,
    plans: &'a Plans,
    with_dependencies: bool,
    catalogs: Vec<(String, i32)>,
    installed: Vec<Present>,
    /// Packages whose requirements are being planned, the first is the one that was asked for.
    begun: Vec<Present>,
    planned: Planned,
}

/// The packages that are installed together.
#[derive(Default)]
pub(super) struct Planned {
    /// In the order in which they are installed.
    pub(super) packages: Vec<Package>,
    /// Whether some of them require each other: the controller installs none of those before all are asked for.
    pub(super) is_cyclic: bool,
}

/// The package and, if wanted, what it requires, which comes first.
pub(super) async fn all(
    client: &Client,
    plans: &Plans,
    wanted: Wanted,
    with_dependencies: bool,
) -> anyhow::Result<Planned> {
    let catalogs: Vec<ClusterCatalog> = list(client).await?;
    let sets: Vec<ClusterObjectSet> = list(client).await?;
    let is_installed =
        |set: &&ClusterObjectSet| set.spec.lifecycle_state == LifecycleState::Active && has_rolled_out(set);
    let mut search = Search {
        client,
        discovery: Discovery::new(client.clone()),
        plans,
        with_dependencies,
        catalogs: catalogs.iter().map(|one| (one.name_any(), one.spec.priority)).collect(),
        installed: sets.iter().filter(is_installed).map(Present::of_set).collect(),
        begun: Vec::new(),
        planned: Planned::default(),
    };
    search.plan(wanted).await?;
    Ok(search.planned)
}

impl Search<'_> {
    fn plan(&mut self, wanted: Wanted) -> BoxFuture<'_, anyhow::Result<()>> {
        Box::pin(async move {
            if let Some(begun) = self.begun.iter().find(|begun| begun.package == wanted.package) {
                let version = begun.version.as_ref().map(Version::to_string).unwrap_or_default();
                bail!(
                    "package {} {version} would be installed, and a package that it requires needs another version of it: choose one with --version",
                    begun.package
                );
            }
            if self.begun.len() + self.planned.packages.len() >= PACKAGES_MAX {
                bail!("more than {PACKAGES_MAX} packages would be installed: install some of them first");
            }
            let package = Package::plan_of(self.client, &self.plans.planner, wanted).await?;
            self.begun.push(Present::of_package(&package));
            let required = requirements(&package.revision.properties)?;
            for requirement in self.missing(&required).await? {
                let provider = self.provider(&package, &requirement).await?;
                // One that was planned for an earlier requirement may meet this one as well.
                if !self.planned.packages.iter().any(|other| other.wanted.package == provider.package) {
                    let is_guarded = package.wanted.is_guarded;
                    let wanted = provider_wanted(&requirement, &provider);
                    self.plan(Wanted { is_guarded, ..wanted }).await?;
                }
            }
            self.begun.pop();
            self.planned.packages.push(package);
            Ok(())
        })
    }

    /// The requirements that neither what is installed nor what is planned meets, packages first: what they bring may be
    /// what others ask for. One that a package meets which itself requires this one is a cycle.
    async fn missing(&mut self, required: &[Requirement]) -> anyhow::Result<Vec<Requirement>> {
        let mut served: BTreeSet<&GroupVersionKind> = BTreeSet::new();
        for kind in required.iter().flat_map(Requirement::kinds) {
            match self.discovery.kind(&kind.api_version(), &kind.kind).await {
                Ok(_) => drop(served.insert(kind)),
                Err(DiscoveryError::Unknown { .. }) => {}
                Err(error) => return Err(error).context("asking which kinds the cluster serves"),
            }
        }
        let planned: Vec<Present> = self.planned.packages.iter().map(Present::of_package).collect();
        let mut present: Vec<InstalledBundle<'_>> =
            self.installed.iter().chain(&planned).map(Present::view).collect();
        let work = Work::default();
        let first = unmet(required, &present, &|kind| served.contains(kind), &work).len();
        present.extend(self.begun.iter().map(Present::view));
        let missing = unmet(required, &present, &|kind| served.contains(kind), &work);
        let is_cyclic = missing.len() < first;
        let mut missing: Vec<Requirement> = missing.into_iter().cloned().collect();
        work.check()?;
        self.planned.is_cyclic |= is_cyclic;
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
