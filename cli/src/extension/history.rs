//! `olm history`: the revisions of an extension.

use std::io::Write;

use clap::Args;
use olm_api::{
    names::{BUNDLE_REFERENCE, PLAN_DIGEST_ANNOTATION},
    v1::{ClusterObjectSet, LifecycleState},
};
use serde::Serialize;

use super::revisions::{annotation, bundle, extension, has_rolled_out, revisions, rolled_back_to};
use crate::{
    cluster::Cluster,
    output::{self, Format, columns},
};

/// The help text below the options.
pub(crate) const HELP: &str = "Examples:
  olm history lighthouse
  olm history lighthouse -o json";

/// `olm history`
#[derive(Debug, Args)]
pub(crate) struct History {
    /// Name of the ClusterExtension
    extension: String,
    /// Output format
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
    #[command(flatten)]
    cluster: Cluster,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Revision {
    #[serde(rename = "revision")]
    number: i64,
    bundle: String,
    version: String,
    image: String,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    created: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rolled_back_to: Option<i64>,
    plan: String,
}

impl History {
    pub(crate) async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let client = self.cluster.client().await?;
        let seen = extension(&client, &self.extension).await?;
        let all: Vec<Revision> = revisions(&client, &seen).await?.iter().map(Revision::of).collect();
        output::answer(out, self.output, &all, |all| table(all))
    }
}

impl Revision {
    fn of(set: &ClusterObjectSet) -> Self {
        let (name, version) = bundle(set);
        Self {
            number: set.spec.revision,
            bundle: name.to_owned(),
            version: version.to_owned(),
            image: annotation(set, BUNDLE_REFERENCE).to_owned(),
            state: state(set),
            created: set.metadata.creation_timestamp.as_ref().map(|time| time.0.to_string()),
            rolled_back_to: rolled_back_to(set),
            plan: annotation(set, PLAN_DIGEST_ANNOTATION).to_owned(),
        }
    }
}

/// The state of a revision.
fn state(set: &ClusterObjectSet) -> &'static str {
    match set.spec.lifecycle_state {
        _ if set.metadata.deletion_timestamp.is_some() => "Deleting",
        LifecycleState::Archived => "Archived",
        LifecycleState::Active if has_rolled_out(set) => "Active",
        LifecycleState::Active => "RollingOut",
    }
}

fn table(all: &[Revision]) -> String {
    let mut rows = vec![["REVISION", "BUNDLE", "VERSION", "STATE", "CREATED", "NOTE"].map(str::to_owned)];
    for one in all {
        rows.push([
            one.number.to_string(),
            one.bundle.clone(),
            one.version.clone(),
            one.state.to_owned(),
            one.created.clone().unwrap_or_default(),
            one.rolled_back_to.map_or(String::new(), |to| format!("rolled back to {to}")),
        ]);
    }
    if all.is_empty() {
        "there are no revisions yet".to_owned()
    } else {
        columns(&rows).trim_end().to_owned()
    }
}
