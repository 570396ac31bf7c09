//! `olm diff`: the plan of an extension's next revision.

use std::{io::Write, sync::Arc};

use anyhow::Context as _;
use clap::Args;
use operator_controller::{
    Gates,
    plan::{Next, Planner, Surroundings},
};
use serde_json::json;

use crate::{
    catalogs::Access,
    cluster::{Cluster, catalogs::ClusterCatalogs},
    output::{self, Differs, Format},
};

/// The help text below the options.
pub(crate) const HELP: &str = "The plan is the same as the controller's: objects that are created, changed and deleted, images, CRDs, permissions, and
the result of a dry run on the API server. Nothing is written. The command creates a token of the extension's
ServiceAccount, whose permissions matter; without one the plan says what is not known. Catalogs are read from the cluster's
server of catalogs, bundles are pulled as images. The revision that carries out the plan has its digest (annotation
extensions.olm.operatorframework.io/plan-digest).

To see the effect of a change first: pause the extension with the annotation
extensions.olm.operatorframework.io/paused=true, change it, run olm diff, and remove the annotation.

Exit codes: 0 no new revision, 2 a new revision would be made or is blocked, 1 the plan could not be made.

Examples:
  olm diff lighthouse
  olm diff lighthouse --context staging -o json";

/// `olm diff`
#[derive(Debug, Args)]
pub(crate) struct Diff {
    /// Name of the ClusterExtension
    extension: String,
    #[command(flatten)]
    cluster: Cluster,
    #[command(flatten)]
    access: Access,
    /// Feature gates of the controller, if they differ from the defaults
    #[arg(long, value_name = "GATE=BOOL,...", default_value = "", value_parser = gates)]
    feature_gates: Gates,
    /// Output format
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

fn gates(text: &str) -> Result<Gates, String> {
    let mut gates = Gates::default();
    // Those of catalogd change nothing about a plan.
    let asked = olm_runtime::FeatureGates::parse(&[text]).map_err(|e| e.to_string())?;
    gates.apply(&asked, &mut catalogd::Config::default()).map_err(|e| e.to_string())?;
    Ok(gates)
}

impl Diff {
    pub(crate) async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let folder = tempfile::tempdir().context("creating a folder for bundles")?;
        let cluster = self.cluster.config().await?;
        let catalogs = ClusterCatalogs::of(&cluster, &self.access).await?;
        let planner = Planner::new(Surroundings {
            cluster,
            puller: self.access.registries.puller()?,
            catalogs: Arc::new(catalogs),
            folder: folder.path().to_owned(),
            system_namespace: self.access.system_namespace,
            gates: self.feature_gates,
        })?;
        match Box::pin(planner.next(&self.extension)).await? {
            Next::Nothing { why, notes } => {
                if self.output == Format::Text {
                    for note in &notes {
                        output::warning(note);
                    }
                }
                let answer =
                    json!({"extension": self.extension, "difference": false, "why": why, "notes": notes});
                output::answer(out, self.output, &answer, |_| {
                    format!("{}: no difference: {why}", self.extension)
                })
            }
            Next::Revision(plan) => {
                let mut answer = plan.to_json();
                answer["difference"] = true.into();
                output::answer(out, self.output, &answer, |_| plan.to_text())?;
                Err(Differs.into())
            }
        }
    }
}
