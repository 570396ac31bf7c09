//! `olm upgrade`: another version or channel, after showing what that changes.

use std::{fmt::Write as _, io::Write};

use anyhow::{Context as _, bail};
use clap::Args;
use jiff::Timestamp;
use kube::ResourceExt;
use olm_api::{names::ROLLBACK_TO_ANNOTATION, v1::ClusterExtension};
use olm_runtime::connect;
use olm_text::{one_line, visible};
use operator_controller::{
    is_paused,
    plan::{NewRevision, Next},
};
use serde_json::{Value, json};

use super::{
    change::change,
    permissions::Added,
    planning::{Planning, bundle_of, check_blocked, version_of},
    question::Consent,
    waiting::{Goal, Patience},
};
use crate::cluster::Cluster;

/// The help text below the options.
pub(crate) const HELP: &str = "Without --version: the newest version that the catalogs' upgrade paths and the channels lead to. The extension is
pinned to the version that the plan shows (spec.source.catalog.version), so that nothing else is installed; with --follow
the range of --version is kept instead, and later versions in it are installed by themselves. Permissions that the new
version needs are added to a ServiceAccount that \"olm install\" created, and listed before.

Exit codes: 0 upgraded, or nothing to upgrade; 1 error; 2 the plan is blocked or unsafe, nothing was changed.

Examples:
  olm upgrade grafana-operator --dry-run
  olm upgrade grafana-operator --version 5.24.0
  olm upgrade grafana-operator --channel v5 --version 5.x --follow --yes";

/// `olm upgrade`
#[derive(Debug, Args)]
pub(crate) struct Upgrade {
    /// Name of the ClusterExtension
    extension: String,
    #[command(flatten)]
    target: Target,
    /// Keep the range of --version in the extension: later versions in it are installed by themselves
    #[arg(long, requires = "version")]
    follow: bool,
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    patience: Patience,
    #[command(flatten)]
    cluster: Cluster,
    #[command(flatten)]
    planning: Planning,
}

/// The version to go to.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Target {
    /// Version or range to choose from, as in spec.source.catalog.version
    #[arg(long, value_name = "VERSION")]
    pub(crate) version: Option<String>,
    /// Channel to choose from, instead of the extension's; may be repeated
    #[arg(long = "channel", value_name = "CHANNEL")]
    pub(crate) channels: Vec<String>,
}

impl Target {
    /// Whether there is one.
    pub(crate) fn is_given(&self) -> bool {
        self.version.is_some() || !self.channels.is_empty()
    }

    /// The extension with this target instead of its own.
    pub(crate) fn of(&self, extension: &ClusterExtension) -> anyhow::Result<ClusterExtension> {
        let mut wanted = extension.clone();
        let catalog = wanted.spec.source.catalog.as_mut().context("spec.source.catalog is not set")?;
        catalog.version.clone_from(&self.version);
        if !self.channels.is_empty() {
            catalog.channels.clone_from(&self.channels);
        }
        // The catalogs are to be asked again, not an earlier revision.
        wanted.annotations_mut().remove(ROLLBACK_TO_ANNOTATION);
        Ok(wanted)
    }
}

impl Upgrade {
    pub(crate) async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        self.consent.check()?;
        let config = self.cluster.config().await?;
        let client = connect(config.clone())?;
        let plans = self.planning.plans(&config, true).await?;
        let seen = super::revisions::extension(&client, &self.extension).await?;
        let name = &self.extension;
        if is_paused(&seen, Timestamp::now()) {
            bail!("{name} is paused, so it would not be upgraded: run \"olm resume {name}\" first");
        }
        let revision = match Box::pin(plans.planner.next(&self.target.of(&seen)?)).await? {
            Next::Revision(revision) => revision,
            Next::Nothing { why, notes } => {
                writeln!(out, "{name}: nothing to upgrade: {}", one_line(&why))?;
                for note in notes {
                    writeln!(out, "  {}", crate::output::below(&note, 2))?;
                }
                return Ok(());
            }
        };
        let patch = self.patch(&seen, &revision);
        let added = Added::to(&client, &seen, &revision).await?;
        let plan = added.to_plan(revision.plan.clone());
        writeln!(out, "{}\n{}", visible(&plan.to_text()), visible(self.changes(&seen, &patch).trim_end()))?;
        write!(out, "{}", visible(&added.text()))?;
        check_blocked(name, &plan.blocked())?;
        let bundle = bundle_of(&revision);
        if !self.consent.ask(&format!("Upgrade {name} to {bundle}?"))? {
            return Ok(());
        }
        added.apply(&client).await?;
        let written = change(&client, &seen, patch).await?;
        if self.patience.no_wait {
            return Ok(writeln!(out, "{name}: upgrade to {bundle} requested")?);
        }
        let digest = plan.digest();
        let goal = Goal::Bundle(bundle.clone());
        self.patience.rolled_out(&client, &written, (&goal, Some(&digest)), out).await?;
        Ok(writeln!(out, "{name}: {} is installed", one_line(&bundle))?)
    }

    /// The change of the extension.
    fn patch(&self, seen: &ClusterExtension, revision: &NewRevision) -> Value {
        let range = self.target.version.clone().filter(|_| self.follow);
        let version = range.unwrap_or_else(|| revision.version.clone());
        let mut patch = json!({"spec": {"source": {"catalog": {"version": version}}}});
        if !self.target.channels.is_empty() {
            patch["spec"]["source"]["catalog"]["channels"] = json!(self.target.channels);
        }
        if seen.annotations().contains_key(ROLLBACK_TO_ANNOTATION) {
            patch["metadata"] = json!({"annotations": {ROLLBACK_TO_ANNOTATION: null}});
        }
        patch
    }

    /// The fields that change, a line each.
    fn changes(&self, seen: &ClusterExtension, patch: &Value) -> String {
        let wanted = &patch["spec"]["source"]["catalog"];
        let before = version_of(seen).unwrap_or("(any)");
        let mut text = format!(
            "Changes of ClusterExtension {}\n  version   {before} -> {}\n",
            self.extension,
            wanted["version"].as_str().unwrap_or_default()
        );
        if !self.target.channels.is_empty() {
            let channels =
                seen.spec.source.catalog.as_ref().map(|c| c.channels.join(", ")).unwrap_or_default();
            let before = if channels.is_empty() { "(all)" } else { &channels };
            // Writing to a String cannot fail.
            let _ = writeln!(text, "  channels  {before} -> {}", self.target.channels.join(", "));
        }
        if seen.annotations().contains_key(ROLLBACK_TO_ANNOTATION) {
            text.push_str("  the annotation rollback-to is removed\n");
        }
        text
    }
}
