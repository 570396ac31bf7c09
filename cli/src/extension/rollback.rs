//! `olm rollback`: an earlier revision of an extension.

use std::io::Write;

use anyhow::Context as _;
use clap::Args;
use kube::ResourceExt;
use olm_api::{names::ROLLBACK_TO_ANNOTATION, v1::ClusterObjectSet};
use olm_runtime::connect;
use olm_text::{one_line, visible};
use operator_controller::plan::Next;
use serde_json::json;

use super::{
    change::change,
    planning::{Planning, check_blocked},
    question::Consent,
    revisions::{extension, latest_active, revisions},
    waiting::{Goal, Patience},
};
use crate::cluster::Cluster;

/// The help text below the options.
pub(crate) const HELP: &str = "The objects of the earlier revision come back as a new revision; CRDs stay as they are. Upgrades stop until
\"olm upgrade\" asks for another version. \"olm history\" lists the revisions.

Exit codes: 0 rolled back, or nothing to do; 1 error; 2 the plan is blocked or unsafe, nothing was changed.

Examples:
  olm rollback grafana-operator
  olm rollback grafana-operator --to 2 --dry-run";

/// `olm rollback`
#[derive(Debug, Args)]
pub(crate) struct Rollback {
    /// Name of the ClusterExtension
    extension: String,
    /// Number of the revision; default: the one before the current
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(i64).range(1..))]
    to: Option<i64>,
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    patience: Patience,
    #[command(flatten)]
    cluster: Cluster,
    #[command(flatten)]
    planning: Planning,
}

impl Rollback {
    pub(crate) async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        self.consent.check()?;
        let config = self.cluster.config().await?;
        let client = connect(config.clone())?;
        let seen = extension(&client, &self.extension).await?;
        let (name, sets) = (&self.extension, revisions(&client, &seen).await?);
        let target = self.to.or_else(|| previous(&sets)).with_context(|| {
            format!("{name} has no earlier revision to roll back to: \"olm history {name}\" lists all")
        })?;
        let mut wanted = seen.clone();
        wanted.annotations_mut().insert(ROLLBACK_TO_ANNOTATION.to_owned(), target.to_string());
        let plans = self.planning.plans(&config, true).await?;
        let revision = match Box::pin(plans.planner.next(&wanted)).await? {
            Next::Revision(revision) => revision,
            Next::Nothing { why, .. } => {
                return Ok(writeln!(out, "{name}: nothing to roll back: {}", one_line(&why))?);
            }
        };
        writeln!(out, "{}", visible(&revision.plan.to_text()))?;
        check_blocked(name, &revision.plan.blocked())?;
        if !self.consent.ask(&format!("Roll {name} back to revision {target}?"))? {
            return Ok(());
        }
        let patch = json!({"metadata": {"annotations": {ROLLBACK_TO_ANNOTATION: target.to_string()}}});
        let written = change(&client, &seen, patch).await?;
        if self.patience.no_wait {
            return Ok(writeln!(out, "{name}: roll-back to revision {target} requested")?);
        }
        let (goal, digest) = (Goal::RolledBackTo(target), revision.plan.digest());
        self.patience.rolled_out(&client, &written, (&goal, Some(&digest)), out).await?;
        Ok(writeln!(
            out,
            "{name}: rolled back to revision {target}; no upgrades until \"olm upgrade {name}\""
        )?)
    }
}

/// The revision before the current one that still exists.
fn previous(sets: &[ClusterObjectSet]) -> Option<i64> {
    let current = latest_active(sets)?;
    let earlier = sets
        .iter()
        .filter(|set| set.spec.revision < current.spec.revision && set.metadata.deletion_timestamp.is_none());
    earlier.map(|set| set.spec.revision).max()
}
