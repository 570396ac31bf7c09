//! `olm resolve`: the answer that the controller would give, from catalogs at hand.

mod answer;

use std::io::Write;

use anyhow::{anyhow, bail};
use clap::{Args, ValueEnum};
use olm_fbc::{CatalogError, PackageContent};
use olm_resolve::{
    CatalogView, DependencyHandling, Installed, MajorUpdates, Options, Request, SameCatalog, UpgradePolicy,
    bundle_version, resolve,
};
use olm_semver::ReleaseSupport;

use self::answer::Answer;
use crate::{
    catalogs::{Catalog, CatalogArgs},
    output::{self, Differs, Format},
};

/// The help text below the options.
pub(crate) const HELP: &str = "The result is the same as the controller's, given the same catalogs, priorities and settings.

Exit codes: 0 a bundle was found, 1 error, for instance because a catalog cannot be read, 2 none was found.

Examples:
  olm resolve --package argocd-operator
  olm resolve --catalog ./catalog --package lighthouse-operator
  olm resolve --catalog quay.io/operatorhubio/catalog:latest=10 --catalog ./mine --package argocd-operator --version '>=0.8 <1.0' --explain
  olm resolve --catalog ./catalog --package argocd-operator --installed argocd-operator.v0.7.0 -o json";

/// `olm resolve`
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "a flag is given or not, and each has a name")]
pub(crate) struct Resolve {
    #[command(flatten)]
    catalogs: CatalogArgs,
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

impl Resolve {
    pub(crate) async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let catalogs = self.catalogs.open().await?;
        let mut contents = Vec::new();
        for catalog in &catalogs {
            contents.push(catalog.package(&self.package).await);
        }
        let views: Vec<CatalogView<'_>> = catalogs.iter().zip(&contents).map(view).collect();
        let request = self.request(&catalogs, &contents)?;
        let result = resolve(&request, &views);
        let end = match &result {
            Ok(_) => Ok(()),
            Err(error) if views.iter().any(|view| view.content.is_err()) => Err(anyhow!(error.to_string())),
            Err(_) => Err(Differs.into()),
        };
        let answer = Answer::new(&request, &views, &catalogs, result, self.explain).await;
        output::answer(out, self.output, &answer, Answer::text)?;
        end
    }

    fn request(&self, catalogs: &[Catalog], contents: &[Content]) -> anyhow::Result<Request> {
        let installed =
            self.installed.as_deref().map(|text| installed("--installed", text, contents)).transpose()?;
        if let Some(origin) = &self.installed_from
            && !catalogs.iter().any(|catalog| catalog.name == *origin)
        {
            bail!("--installed-from {origin}: no such catalog: pass the name of one that is asked");
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
            ceiling: None,
        })
    }
}

/// What a catalog has of the package.
pub(crate) type Content = Result<PackageContent, CatalogError>;

fn view<'a>((catalog, content): (&'a Catalog, &'a Content)) -> CatalogView<'a> {
    let content = content.as_ref().map_err(Clone::clone);
    CatalogView { name: &catalog.name, priority: catalog.priority, content }
}

/// The installed bundle that a text names: `name=version`, or one that a catalog lists by name or version.
pub(crate) fn installed(flag: &str, text: &str, contents: &[Content]) -> anyhow::Result<Installed> {
    if let Some((name, version)) = text.split_once('=') {
        let (name, version) = (name.to_owned(), version.to_owned());
        return Ok(Installed { name, version, ..Installed::default() });
    }
    let listed = contents.iter().flatten().flat_map(|content| &content.bundles).filter_map(|bundle| {
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
            bail!("{flag} {text}: no catalog lists a bundle of this name or version: write name=version")
        }
        several => {
            let names: Vec<&str> = several.iter().map(|one| one.name.as_str()).collect();
            bail!(
                "{flag} {text}: several bundles have this version, pass the name of one: {}",
                names.join(", ")
            )
        }
    }
}
