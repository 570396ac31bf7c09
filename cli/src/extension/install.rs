//! `olm install`: a package from the cluster's catalogs, with all that it needs, after showing it as one plan.

mod dependencies;
mod package;
mod text;

use std::{io::Write, path::PathBuf, time::Instant};

use anyhow::bail;
use clap::Args;
use kube::Client;
use olm_api::v1::ClusterExtension;
use olm_runtime::connect;
use olm_text::{one_line, visible};
use serde_json::{Value, json};

use self::package::{Package, Wanted};
use super::{
    manifests::{Presence, apply, create},
    planning::{Planning, check_blocked, inline},
    question::Consent,
    upgrade::Target,
    waiting::{Goal, Patience},
};
use crate::{
    catalogs::{Catalog, meant},
    cluster::Cluster,
    output::{self, ManifestFormat},
};

/// The help text below the options.
pub(crate) const HELP: &str = "The plan lists the namespace, the ServiceAccount with exactly the permissions that the bundle needs, the ClusterExtension,
and every object that the controller will create. Nothing that exists already is overwritten. The extension is pinned to
the version that was shown; \"olm upgrade\" moves it, or give a range and --follow. A bundle that only knows its own or a
single namespace gets watchNamespace: its own, unless --watch-namespace or --config says otherwise. The extension gets a
deletion guard: it cannot be deleted while that would delete custom resources.

Exit codes: 0 installed, 1 error, 2 the plan is blocked or something is missing, nothing was changed.

Examples:
  olm install grafana-operator
  olm install grafana-operator --version 5.x --namespace grafana --dry-run
  olm install grafana-operator -o yaml > grafana-operator.yaml";

/// `olm install`
#[derive(Debug, Args)]
pub(crate) struct Install {
    /// Name of the package; "olm search" finds it
    package: String,
    #[command(flatten)]
    target: Target,
    /// Keep the range of --version in the extension: later versions in it are installed by themselves
    #[arg(long, requires = "version")]
    follow: bool,
    /// The ClusterCatalog to install from; default: the one with the highest priority that has the package
    #[arg(long, value_name = "NAME")]
    catalog: Option<String>,
    /// Let the extension be deleted although that deletes custom resources: without the annotation deletion-guard
    #[arg(long)]
    no_deletion_guard: bool,
    /// Print the manifests instead of applying them
    #[arg(long, short, value_enum, conflicts_with_all = ["yes", "dry_run"])]
    output: Option<ManifestFormat>,
    #[command(flatten)]
    settings: Settings,
}

/// How a package is installed, wherever it is from.
#[derive(Debug, Args)]
pub(crate) struct Settings {
    /// Name of the ClusterExtension; default: the package's
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Namespace to install into; default: the extension's name
    #[arg(long, short = 'n', value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// ServiceAccount that installs; one that exists is used with the permissions it has. Default: <name>-installer
    #[arg(long, value_name = "NAME")]
    service_account: Option<String>,
    /// File with spec.config.inline
    #[arg(long, value_name = "FILE", conflicts_with = "watch_namespace")]
    config: Option<PathBuf>,
    /// Namespace for the operator to watch, for bundles that do not support all namespaces
    #[arg(long, value_name = "NAMESPACE")]
    watch_namespace: Option<String>,
    /// Install the packages that it requires too, each in a namespace of its own
    #[arg(long)]
    with_dependencies: bool,
    #[command(flatten)]
    pub(crate) consent: Consent,
    #[command(flatten)]
    pub(crate) patience: Patience,
    #[command(flatten)]
    pub(crate) cluster: Cluster,
    #[command(flatten)]
    pub(crate) planning: Planning,
}

impl Install {
    /// Installs this version of a package from a catalog.
    pub(crate) fn of(package: &str, version: &str, catalog: &str, settings: Settings) -> Self {
        Self {
            package: package.to_owned(),
            target: Target { version: Some(version.to_owned()), ..Target::default() },
            follow: false,
            catalog: Some(catalog.to_owned()),
            no_deletion_guard: true,
            output: None,
            settings,
        }
    }

    pub(crate) async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        self.installed(out).await.map(drop)
    }

    /// Whether it was installed, or is being installed.
    pub(crate) async fn installed(self, out: &mut dyn Write) -> anyhow::Result<bool> {
        if self.output.is_none() {
            self.settings.consent.check()?;
        }
        let config = self.settings.cluster.config().await?;
        let client = connect(config.clone())?;
        let plans = self.settings.planning.plans(&config, false).await?;
        let wanted = self.wanted()?;
        let planned = dependencies::all(&client, &plans, wanted, self.settings.with_dependencies).await;
        let planned = match planned {
            Err(error) => return Err(self.explained(error, plans.catalogs.all()).await),
            Ok(planned) => planned,
        };
        if let Some(format) = self.output {
            let manifests: Vec<Value> = planned.packages.iter().flat_map(Package::manifests).collect();
            output::manifests(out, format, &manifests)?;
            return Ok(false);
        }
        for package in &planned.packages {
            writeln!(out, "{}", visible(&text::plan(package)))?;
        }
        for package in &planned.packages {
            check_blocked(&package.name, &package.plan().blocked())?;
        }
        let bundles: Vec<String> = planned.packages.iter().map(Package::bundle).collect();
        if !self.settings.consent.ask(&format!("Install {}?", bundles.join(", ")))? {
            return Ok(false);
        }
        let begun = Instant::now();
        let mut waiting = Vec::new();
        for package in &planned.packages {
            waiting.push((package, self.create(&client, package, out).await?));
            if !planned.is_cyclic {
                self.wait(&client, &mut waiting, begun, out).await?;
            }
        }
        self.wait(&client, &mut waiting, begun, out).await?;
        Ok(true)
    }

    /// The error, with the package that was probably meant if no catalog has this one.
    async fn explained(&self, error: anyhow::Error, catalogs: &[Catalog]) -> anyhow::Error {
        for catalog in catalogs {
            if catalog.package(&self.package).await.is_ok_and(|content| !content.is_empty()) {
                return error;
            }
        }
        match meant(&self.package, catalogs).await {
            Some(meant) => error.context(format!("no catalog has a package {:?}. {meant}", self.package)),
            None => error,
        }
    }

    fn wanted(&self) -> anyhow::Result<Wanted> {
        let name = self.settings.name.clone().unwrap_or_else(|| self.package.clone());
        let config = match (&self.settings.config, &self.settings.watch_namespace) {
            (Some(path), _) => inline(path)?.inline,
            (None, Some(namespace)) => Some(json!({"watchNamespace": namespace})),
            (None, None) => None,
        };
        Ok(Wanted {
            package: self.package.clone(),
            target: self.target.clone(),
            follows: self.follow,
            catalog: self.catalog.clone(),
            namespace: self.settings.namespace.clone().unwrap_or_else(|| name.clone()),
            account: self.settings.service_account.clone(),
            is_named: self.settings.name.is_some(),
            is_guarded: !self.no_deletion_guard,
            name,
            config,
        })
    }

    /// Creates the extension and what it needs.
    async fn create(
        &self,
        client: &Client,
        package: &Package,
        out: &mut dyn Write,
    ) -> anyhow::Result<ClusterExtension> {
        let name = &package.name;
        for (manifest, presence) in &package.prepared {
            match presence {
                Presence::Absent => drop(create(client, manifest).await?),
                Presence::Ours => apply(client, manifest, name).await?,
                Presence::Foreign => continue,
            }
            writeln!(out, "{}", visible(&format!("  created: {}", super::manifests::label(manifest))))?;
        }
        let created = create(client, &package.extension).await?;
        writeln!(out, "  created: ClusterExtension {name}")?;
        Ok(serde_json::from_value(serde_json::to_value(created)?)?)
    }

    /// Waits until these are healthy.
    async fn wait(
        &self,
        client: &Client,
        created: &mut Vec<(&Package, ClusterExtension)>,
        begun: Instant,
        out: &mut dyn Write,
    ) -> anyhow::Result<()> {
        for (package, created) in created.drain(..).filter(|_| !self.settings.patience.no_wait) {
            let (goal, digest) = (Goal::Bundle(package.bundle()), package.plan().digest());
            self.settings.patience.rolled_out(client, &created, (&goal, Some(&digest)), out).await?;
            let seconds = begun.elapsed().as_secs();
            writeln!(out, "{} is installed and healthy after {seconds} s", one_line(&package.bundle()))?;
            write!(out, "{}", visible(&text::next(package)))?;
        }
        Ok(())
    }
}

/// Fails unless a text is the name of an object that is also the value of a label or the name of a namespace.
fn check_label(flag: &str, text: &str) -> anyhow::Result<()> {
    if !olm_object::names::is_label(text) {
        bail!(
            "{flag} {text:?} is not a name of at most 63 lower-case letters, digits and hyphens: pass another {flag}"
        );
    }
    Ok(())
}
