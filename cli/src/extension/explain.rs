//! `olm explain`: everything between the catalogs and the Pods of an extension.

mod workloads;

use std::{fmt::Write as _, io::Write};

use clap::Args;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::{Api, Client};
use olm_api::v1::{ClusterCatalog, ClusterExtension};
use olm_plan::Plan;
use olm_runtime::{connect, if_exists};
use olm_text::one_line;
use operator_controller::plan::{Next, Planner};
use serde_json::{Value, json};

use super::{
    planning::Planning,
    revisions::{extension, revisions},
};
use crate::{
    cluster::{Cluster, list},
    output::{self, Format, below, columns},
    status::facts::Status,
};

/// Rejected candidates that are shown.
const REJECTED_MAX: usize = 20;

/// The help text below the options.
pub(crate) const HELP: &str = "In order: the extension with its conditions, revisions and catalogs; which bundle the catalogs give it now, and why not
another; its ServiceAccount and the permissions that it lacks; its workloads, with the reason of each Pod that does not
run.

Examples:
  olm explain lighthouse
  olm explain lighthouse -o json";

/// `olm explain`
#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// Name of the ClusterExtension
    extension: String,
    /// Output format
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
    #[command(flatten)]
    cluster: Cluster,
    #[command(flatten)]
    planning: Planning,
}

impl Explain {
    pub(crate) async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let config = self.cluster.config().await?;
        let client = connect(config.clone())?;
        let seen = extension(&client, &self.extension).await?;
        let sets = revisions(&client, &seen).await?;
        let catalogs: Vec<ClusterCatalog> = list(&client).await?;
        let status = Status::of(std::slice::from_ref(&seen), &sets, &catalogs);
        let plans = self.planning.plans(&config, true).await?;
        let resolution = resolution(&plans.planner, &seen).await;
        let account = account(&client, &plans.planner, &seen).await;
        let workloads = workloads::workloads(&client, &seen).await?;
        let answer = json!({
            "status": status, "resolution": resolution, "serviceAccount": account, "workloads": workloads,
        });
        output::answer(out, self.output, &answer, |_| {
            let mut text = status.detail();
            write_resolution(&mut text, &resolution);
            write_account(&mut text, &account);
            text.push_str(&workloads::text(&workloads));
            text.trim_end().to_owned()
        })
    }
}

/// The bundle that the catalogs give the extension now, or why none, and the others.
async fn resolution(planner: &Planner, seen: &ClusterExtension) -> Value {
    match planner.resolution(seen).await {
        Err(error) => json!({"error": error.to_string()}),
        Ok(answer) => {
            let rejected: Vec<String> = answer.rejected.iter().map(ToString::to_string).collect();
            match answer.chosen {
                Ok(found) => json!({
                    "bundle": found.bundle, "version": found.version.to_string(), "catalog": found.catalog,
                    "image": found.image, "rejected": rejected,
                }),
                Err(why) => json!({"error": why, "rejected": rejected}),
            }
        }
    }
}

fn write_resolution(text: &mut String, resolution: &Value) {
    let field = |name: &str| one_line(olm_object::text(resolution, name)).into_owned();
    // Writing to a String cannot fail.
    text.push_str("Resolution\n");
    if let Some(error) = resolution["error"].as_str() {
        let _ = writeln!(text, "  no bundle: {}", below(error, 4));
    } else {
        let rows = [
            ["  bundle", &field("/bundle")],
            ["  version", &field("/version")],
            ["  catalog", &field("/catalog")],
            ["  image", &field("/image")],
        ];
        text.push_str(&columns(&rows));
    }
    let rejected = resolution["rejected"].as_array().map_or(&[][..], Vec::as_slice);
    for one in rejected.iter().take(REJECTED_MAX) {
        let _ = writeln!(text, "  not chosen: {}", one_line(one.as_str().unwrap_or_default()));
    }
    if rejected.len() > REJECTED_MAX {
        let _ = writeln!(text, "  and {} more", rejected.len() - REJECTED_MAX);
    }
}

/// The ServiceAccount, and what keeps the next revision from being made.
async fn account(client: &Client, planner: &Planner, seen: &ClusterExtension) -> Value {
    let named = seen.spec.service_account.as_ref().and_then(|account| account.name.clone());
    let exists = match &named {
        None => Value::Null,
        Some(name) => {
            let api: Api<ServiceAccount> = Api::namespaced(client.clone(), &seen.spec.namespace);
            if_exists(api.get_metadata(name))
                .await
                .map_or_else(|error| json!(olm_runtime::api_text(&error)), |found| json!(found.is_some()))
        }
    };
    let (plan, next) = match Box::pin(planner.next(seen)).await {
        Ok(Next::Revision(revision)) => (Some(revision.plan), String::new()),
        Ok(Next::Nothing { why, .. }) => (None, why),
        Err(error) => (None, error.to_string()),
    };
    let blocked = plan.as_ref().map(Plan::blocked).unwrap_or_default();
    let missing: Vec<String> = plan
        .as_ref()
        .and_then(|plan| plan.missing_permissions.known())
        .into_iter()
        .flatten()
        .map(olm_plan::permission_line)
        .collect();
    json!({
        "name": named, "namespace": seen.spec.namespace, "exists": exists,
        "missingPermissions": missing, "nextRevision": next, "blocked": blocked,
    })
}

fn write_account(text: &mut String, account: &Value) {
    let name = account["name"].as_str().unwrap_or("(the cluster's default)");
    let exists = match &account["exists"] {
        Value::Bool(true) => "exists".to_owned(),
        Value::Bool(false) => "does not exist".to_owned(),
        Value::String(error) => format!("cannot be read: {error}"),
        _ => "is set for the cluster".to_owned(),
    };
    let namespace = olm_object::text(account, "/namespace");
    // Writing to a String cannot fail.
    let _ = writeln!(text, "ServiceAccount\n  {namespace}/{} {}", one_line(name), one_line(&exists));
    for missing in account["missingPermissions"].as_array().into_iter().flatten() {
        let _ = writeln!(text, "  lacks {}", one_line(missing.as_str().unwrap_or_default()));
    }
    text.push_str("Next revision\n");
    match olm_object::text(account, "/nextRevision") {
        "" => text.push_str("  would be made; olm diff shows it\n"),
        why => drop(writeln!(text, "  {}", below(why, 4))),
    }
    for blocked in account["blocked"].as_array().into_iter().flatten() {
        let _ = writeln!(text, "  blocked: {}", below(blocked.as_str().unwrap_or_default(), 4));
    }
}
