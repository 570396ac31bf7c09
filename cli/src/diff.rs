//! `olm diff`: the plan of an extension's next revision.

mod catalogs;

use std::{io::Write, sync::Arc};

use anyhow::Context as _;
use clap::Args;
use operator_controller::{
    Gates,
    plan::{Next, Planner, Surroundings},
};
use serde_json::json;

use self::catalogs::ClusterCatalogs;
use crate::{
    cluster::Cluster,
    output::{self, Exit, Format},
    sources::Registries,
};

/// The help text beside the options.
pub(crate) const HELP: &str = "The plan is the controller's own: objects created, changed and deleted, images, CRDs, rights, and what the API server
says of the objects in a dry-run. Nothing is written; a token of the extension's ServiceAccount is asked for, since its
rights are what counts, and without one the plan says what is not known. Catalogs and bundles are pulled as images, the
catalogs at the digest that the cluster serves. The digest of the plan is on the revision that is made by it
(annotation extensions.olm.operatorframework.io/plan-digest).

Exit codes: 0 no new revision would be made, 2 one would be, or would be if nothing stood in its way, 1 the question
could not be answered.

Examples:
  olm diff lighthouse
  olm diff lighthouse --context staging -o json";

/// `olm diff`
#[derive(Debug, Args)]
pub(crate) struct Diff {
    /// The ClusterExtension
    extension: String,
    #[command(flatten)]
    cluster: Cluster,
    /// Namespace of the controller
    #[arg(long, value_name = "NAMESPACE", default_value = "olmv1-system")]
    system_namespace: String,
    /// Feature gates of the controller, if it runs with other ones than usual
    #[arg(long, value_name = "GATE=BOOL,...", default_value = "", value_parser = gates)]
    feature_gates: Gates,
    /// Form of the answer
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
    #[command(flatten)]
    registries: Registries,
}

fn gates(text: &str) -> Result<Gates, String> {
    let mut gates = Gates::default();
    // Those of catalogd change nothing about a plan.
    let asked = catalogd::FeatureGates::parse(&[text]).map_err(|e| e.to_string())?;
    gates.apply(&asked, &mut catalogd::Config::default()).map_err(|e| e.to_string())?;
    Ok(gates)
}

impl Diff {
    pub(crate) async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let folder = tempfile::tempdir().context("making a folder for bundles")?;
        let cluster = self.cluster.config().await?;
        let catalogs = ClusterCatalogs::of(&cluster, self.registries.clone()).await?;
        let planner = Planner::new(Surroundings {
            cluster,
            puller: self.registries.puller()?,
            catalogs: Arc::new(catalogs),
            folder: folder.path().to_owned(),
            system_namespace: self.system_namespace,
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
                Err(Exit::Differs.into())
            }
        }
    }
}
