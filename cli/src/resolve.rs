//! `olm resolve`: the answer that the controller would give, from catalogs at hand.

mod answer;
pub(crate) mod catalogs;

use std::io::Write;

use anyhow::bail;
use clap::{Args, ValueEnum};
use olm_fbc::PackageContent;
use olm_resolve::{
    CatalogView, DependencyHandling, Installed, MajorUpdates, Options, Request, SameCatalog, UpgradePolicy,
    bundle_version, resolve,
};
use olm_semver::ReleaseSupport;

use self::{
    answer::Answer,
    catalogs::{Catalog, Named},
};
use crate::{
    output::{self, Format},
    sources::Registries,
};

/// The help text below the options.
pub(crate) const HELP: &str = "The result is the same as the controller's, given the same catalogs, priorities and settings.

Exit codes: 0 a bundle was found, 1 none was found or a catalog cannot be read, 2 usage error.

Examples:
  olm resolve --catalog ./catalog --package lighthouse-operator
  olm resolve --catalog quay.io/operatorhubio/catalog:latest=10 --catalog ./mine --package argocd-operator --version '>=0.8 <1.0' --explain
  olm resolve --catalog ./catalog --package argocd-operator --installed argocd-operator.v0.7.0 -o json";

/// `olm resolve`
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "a flag is given or not, and each has a name")]
pub(crate) struct Resolve {
    /// A catalog: a folder or file, an OCI image layout, an image reference, or the URL of a served catalog
    /// (https://host/catalogs/name). Append `=N` for a priority other than 0. May be repeated
    #[arg(long = "catalog", value_name = "PATH|IMAGE|URL[=PRIORITY]", required = true)]
    catalogs: Vec<Named>,
    /// The package, as in spec.source.catalog.packageName
    #[arg(long)]
    package: String,
    /// Version or range, as in spec.source.catalog.version
    #[arg(long, default_value = "")]
    version: String,
    /// A channel, as in spec.source.catalog.channels; may be repeated
    #[arg(long = "channel")]
    channels: Vec<String>,
    /// Name or version of the installed bundle; name=version for a bundle that no catalog lists any more
    #[arg(long, value_name = "NAME|VERSION|NAME=VERSION")]
    installed: Option<String>,
    /// The catalog that the installed bundle came from, as written for --catalog, without the priority
    #[arg(long, value_name = "CATALOG", requires = "installed")]
    installed_from: Option<String>,
    /// Which upgrades are allowed, as in spec.source.catalog.upgradeConstraintPolicy
    #[arg(long, value_enum, default_value_t = Policy::CatalogProvided)]
    policy: Policy,
    /// Reject bundles that declare dependencies (annotation dependencies: Refuse)
    #[arg(long)]
    refuse_dependencies: bool,
    /// Stay in the installed major version (annotation major-updates: Block)
    #[arg(long)]
    block_major_updates: bool,
    /// Stay with the catalog of the installed bundle (annotation same-catalog: Required)
    #[arg(long)]
    same_catalog: bool,
    /// Explain for every other bundle of the package why it was not chosen, and what would meet the requirements
    #[arg(long)]
    explain: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
    /// CA certificate (PEM file) to trust for catalogs that are read over HTTPS
    #[arg(long, value_name = "FILE")]
    catalog_ca: Option<std::path::PathBuf>,
    #[command(flatten)]
    registries: Registries,
}

/// `upgradeConstraintPolicy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Policy {
    /// Only along the upgrade paths of the catalog
    #[value(name = "CatalogProvided", alias = "catalog-provided")]
    CatalogProvided,
    /// To any version, downgrades included
    #[value(name = "SelfCertified", alias = "self-certified")]
    SelfCertified,
}

/// There is no answer; the reasons have been written out.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct NoAnswer(String);

impl Resolve {
    pub(crate) async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let catalogs = catalogs::open(&self.catalogs, &self.registries, self.catalog_ca.as_deref()).await?;
        let contents: Vec<PackageContent> =
            catalogs.iter().map(|catalog| catalog.package(&self.package)).collect::<anyhow::Result<_>>()?;
        let views: Vec<CatalogView<'_>> = catalogs.iter().zip(&contents).map(view).collect();
        let request = self.request(&contents)?;
        let result = resolve(&request, &views);
        let failure = result.as_ref().err().map(ToString::to_string);
        let answer = Answer::new(&request, &views, &catalogs, result, self.explain);
        output::answer(out, self.output, &answer, Answer::text)?;
        failure.map_or(Ok(()), |text| Err(NoAnswer(text).into()))
    }

    fn request(&self, contents: &[PackageContent]) -> anyhow::Result<Request> {
        let installed = self.installed.as_deref().map(|text| installed(text, contents)).transpose()?;
        if let Some(origin) = &self.installed_from
            && !self.catalogs.iter().any(|named| named.source == *origin)
        {
            bail!("--installed-from {origin}: no such catalog: pass one of those given with --catalog");
        }
        Ok(Request {
            package: self.package.clone(),
            version: Some(self.version.clone()).filter(|text| !text.is_empty()),
            channels: self.channels.clone(),
            upgrade_policy: match self.policy {
                Policy::CatalogProvided => UpgradePolicy::CatalogProvided,
                Policy::SelfCertified => UpgradePolicy::SelfCertified,
            },
            installed: installed.map(|one| Installed { catalog: self.installed_from.clone(), ..one }),
            options: Options {
                dependencies: if self.refuse_dependencies {
                    DependencyHandling::Refuse
                } else {
                    DependencyHandling::Accept
                },
                releases: ReleaseSupport::On,
                same_catalog: if self.same_catalog { SameCatalog::Required } else { SameCatalog::Preferred },
                major_updates: if self.block_major_updates {
                    MajorUpdates::Block
                } else {
                    MajorUpdates::Allow
                },
            },
        })
    }
}

fn view<'a>((catalog, content): (&'a Catalog, &'a PackageContent)) -> CatalogView<'a> {
    CatalogView { name: &catalog.name, priority: catalog.priority, content: Ok(content) }
}

/// The installed bundle that a text names: `name=version`, or one that a catalog lists by name or version.
fn installed(text: &str, contents: &[PackageContent]) -> anyhow::Result<Installed> {
    if let Some((name, version)) = text.split_once('=') {
        let (name, version) = (name.to_owned(), version.to_owned());
        return Ok(Installed { name, version, ..Installed::default() });
    }
    let listed = contents.iter().flat_map(|content| &content.bundles).filter_map(|bundle| {
        let version = bundle_version(bundle, ReleaseSupport::On).ok()?;
        let (version, release) = version.recorded(ReleaseSupport::On);
        Some(Installed { name: bundle.name.clone(), version, release, catalog: None })
    });
    let mut listed: Vec<Installed> = listed.filter(|one| one.name == text || one.version == text).collect();
    listed.sort_by(|a, b| a.name.cmp(&b.name).then_with(|| a.release.cmp(&b.release)));
    listed.dedup();
    match listed.as_slice() {
        [one, rest @ ..] if rest.iter().all(|other| other.name == one.name) => Ok(one.clone()),
        [] => {
            bail!("--installed {text}: no catalog lists a bundle of this name or version: write name=version")
        }
        several => {
            let names: Vec<&str> = several.iter().map(|one| one.name.as_str()).collect();
            bail!(
                "--installed {text}: several bundles have this version, pass the name of one: {}",
                names.join(", ")
            )
        }
    }
}
