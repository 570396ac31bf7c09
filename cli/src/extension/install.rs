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
    cluster::Cluster,
    output::{self, ManifestFormat},
};

/// The help text below the options.
pub(crate) const HELP: &str = "The plan lists the namespace, the ServiceAccount with exactly the permissions that the bundle needs, the ClusterExtension,
and every object that the controller will create. Nothing that exists already is overwritten. The extension is pinned to
the version that was shown; \"olm upgrade\" moves it, or give a range and --follow. A bundle that only knows its own or a
single namespace gets watchNamespace: its own, unless --watch-namespace or --config says otherwise.

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
    /// Name of the ClusterExtension; default: the package's
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
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
    /// Print the manifests instead of applying them
    #[arg(long, short, value_enum, conflicts_with_all = ["yes", "dry_run"])]
    output: Option<ManifestFormat>,
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    patience: Patience,
    #[command(flatten)]
    cluster: Cluster,
    #[command(flatten)]
    planning: Planning,
}

impl Install {
    pub(crate) async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        if self.output.is_none() {
            self.consent.check()?;
        }
        let config = self.cluster.config().await?;
        let client = connect(config.clone())?;
        let plans = self.planning.plans(&config, false).await?;
        let wanted = self.wanted()?;
        let planned = dependencies::all(&client, &plans, wanted, self.with_dependencies).await?;
        if let Some(format) = self.output {
            let manifests: Vec<Value> = planned.iter().flat_map(Package::manifests).collect();
            return output::manifests(out, format, &manifests);
        }
        for package in &planned {
            writeln!(out, "{}", visible(&text::plan(package)))?;
        }
        for package in &planned {
            check_blocked(&package.name, &package.plan().blocked())?;
        }
        let bundles: Vec<String> = planned.iter().map(Package::bundle).collect();
        if !self.consent.ask(&format!("Install {}?", bundles.join(", ")))? {
            return Ok(());
        }
        for package in &planned {
            self.install(&client, package, out).await?;
        }
        Ok(())
    }

    fn wanted(&self) -> anyhow::Result<Wanted> {
        let name = self.name.clone().unwrap_or_else(|| self.package.clone());
        let config = match (&self.config, &self.watch_namespace) {
            (Some(path), _) => inline(path)?.inline,
            (None, Some(namespace)) => Some(json!({"watchNamespace": namespace})),
            (None, None) => None,
        };
        Ok(Wanted {
            package: self.package.clone(),
            target: self.target.clone(),
            follows: self.follow,
            catalog: self.catalog.clone(),
            namespace: self.namespace.clone().unwrap_or_else(|| name.clone()),
            account: self.service_account.clone(),
            is_named: self.name.is_some(),
            name,
            config,
        })
    }

    async fn install(&self, client: &Client, package: &Package, out: &mut dyn Write) -> anyhow::Result<()> {
        let (name, begun) = (&package.name, Instant::now());
        for (manifest, presence) in &package.prepared {
            match presence {
                Presence::Absent => drop(create(client, manifest).await?),
                Presence::Ours => apply(client, manifest, name).await?,
                Presence::Foreign => continue,
            }
            writeln!(out, "{}", visible(&format!("  created: {}", super::manifests::label(manifest))))?;
        }
        let created = create(client, &package.extension).await?;
        let created: ClusterExtension = serde_json::from_value(serde_json::to_value(created)?)?;
        writeln!(out, "  created: ClusterExtension {name}")?;
        if self.patience.no_wait {
            return Ok(());
        }
        let (goal, digest) = (Goal::Bundle(package.bundle()), package.plan().digest());
        self.patience.rolled_out(client, &created, (&goal, Some(&digest)), out).await?;
        let seconds = begun.elapsed().as_secs();
        writeln!(out, "{} is installed and healthy after {seconds} s", one_line(&package.bundle()))?;
        write!(out, "{}", visible(&text::next(package)))?;
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
