//! `olm explain`: everything between the catalogs and the Pods of an extension.

mod catalog;
mod objects;
mod workloads;

use std::{fmt::Write as _, io::Write};

use anyhow::bail;
use clap::Args;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::{Api, Client, ResourceExt};
use olm_api::v1::{ClusterCatalog, ClusterExtension};
use olm_plan::Plan;
use olm_runtime::{connect, if_exists};
use olm_text::one_line;
use operator_controller::plan::{CatalogAnswer, Next, PlanError};
use serde_json::{Value, json};

use self::{
    catalog::{CLUSTER_CATALOG, CatalogView},
    objects::Objects,
};
use super::{
    planning::Planning,
    revisions::{extension, revisions},
};
use crate::{
    classic::{Access, CsvView, PlanView, Resolution, SUBSCRIPTION, SourceView, SubscriptionView},
    cluster::{Cluster, list},
    output::{self, Format, below, columns},
    status::{facts::Status, may_use},
};

/// Rejected candidates that are shown.
const REJECTED_MAX: usize = 20;

/// The names of the kind CatalogSource.
const CATALOG_SOURCE: [&str; 3] = ["catalogsource", "catalogsources", "catsrc"];
/// The names of the kind InstallPlan.
const INSTALL_PLAN: [&str; 3] = ["installplan", "installplans", "ip"];
/// The names of the kind ClusterServiceVersion.
const VERSION: [&str; 4] = ["clusterserviceversion", "clusterserviceversions", "csv", "csvs"];

/// The help text below the options.
pub(crate) const HELP: &str = "In order: the extension with its conditions, its revisions, and the catalogs that have its package or cannot be read;
which bundle they give it now, and why not another; its ServiceAccount and the permissions that it lacks; the objects of
its newest revision, and whether they exist; its workloads, with the reason of each Pod that does not run. Of a
ClusterCatalog: its source, whether it is served, what helps, and the extensions that use it. Of a CatalogSource of OLM Classic: its type and content, the state of its
connection, and whether it is served. Of a Subscription of OLM Classic: what it asks for, its state, its conditions with
what helps, its InstallPlan and ClusterServiceVersion, and the versions that its catalog offers. Of an InstallPlan of OLM
Classic: what it installs and in whose name, the steps that are not carried out, and what it waits for. Of a
ClusterServiceVersion of OLM Classic: its phase with the reason, what helps, and what it needs and whether that is there.

Examples:
  olm explain lighthouse
  olm explain clustercatalog community
  olm explain catalogsource community -n olm
  olm explain subscription lighthouse -n operators
  olm explain subscription lighthouse -n operators --candidates
  olm explain installplan install-x7k2p -n operators
  olm explain csv lighthouse.v1.2.0 -n operators
  olm explain lighthouse -o json";

/// `olm explain`
#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// Name of the ClusterExtension, or clustercatalog, subscription, installplan, csv or catalogsource before a name
    #[arg(value_name = "EXTENSION | clustercatalog | subscription | installplan | csv | catalogsource")]
    extension: String,
    /// Name of the ClusterCatalog, Subscription, InstallPlan, ClusterServiceVersion or CatalogSource
    name: Option<String>,
    /// Namespace of that object. Default: that of the kubeconfig
    #[arg(long, short, requires = "name")]
    namespace: Option<String>,
    /// Explain for each candidate of a Subscription why it is chosen or not. Pulls the images of the CatalogSources
    #[arg(long, requires = "name")]
    candidates: bool,
    /// For --candidates: namespace of the CatalogSources that every namespace sees
    #[arg(long, value_name = "NAMESPACE", default_value = "olm")]
    global_namespace: String,
    /// For --candidates: what olm-classic resolves together, as its flag --resolution says
    #[arg(long, value_enum, default_value = "related", ignore_case = true)]
    resolution: Resolution,
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
        if let Some(name) = &self.name {
            let kind = self.extension.to_ascii_lowercase();
            let namespace = self.namespace.as_deref().unwrap_or(&config.default_namespace);
            if CLUSTER_CATALOG.contains(&kind.as_str()) {
                if self.namespace.is_some() {
                    bail!("clustercatalog {name}: a ClusterCatalog has no namespace: leave --namespace out");
                }
                let catalog = CatalogView::read(&client, name).await?;
                return output::answer(out, self.output, &catalog, |one| one.detail().trim_end().to_owned());
            }
            if SUBSCRIPTION.contains(&kind.as_str()) {
                let mut found = SubscriptionView::read(&client, namespace, name).await?;
                if self.candidates {
                    let registries = self.planning.registries();
                    let scope = self.resolution.into();
                    let access = Access { registries, global: &self.global_namespace, scope };
                    found = Box::pin(found.weigh(&client, access)).await?;
                }
                return output::answer(out, self.output, &found, |one| one.detail().trim_end().to_owned());
            }
            if INSTALL_PLAN.contains(&kind.as_str()) {
                let plan = PlanView::read(&client, namespace, name).await?;
                return output::answer(out, self.output, &plan, |plan| plan.detail().trim_end().to_owned());
            }
            if VERSION.contains(&kind.as_str()) {
                let csv = CsvView::read(&client, namespace, name).await?;
                return output::answer(out, self.output, &csv, |csv| csv.detail().trim_end().to_owned());
            }
            if !CATALOG_SOURCE.contains(&kind.as_str()) {
                bail!(
                    "{:?} {name}: give the name of a ClusterExtension, or clustercatalog, subscription, installplan, csv or catalogsource and a name",
                    self.extension
                );
            }
            let source = SourceView::read(&client, namespace, name).await?;
            return output::answer(out, self.output, &source, |source| source.detail().trim_end().to_owned());
        }
        let seen = extension(&client, &self.extension).await?;
        let sets = revisions(&client, &seen).await?;
        let mut catalogs: Vec<ClusterCatalog> = list(&client).await?;
        let plans = self.planning.plans(&config, true).await?;
        let (answer, next) = Box::pin(plans.planner.explain(&seen)).await?;
        catalogs.retain(|catalog| match &answer {
            Ok(answer) => answer.catalogs.contains(&catalog.name_any()),
            Err(_) => may_use(&seen, catalog),
        });
        let status = Status::of(std::slice::from_ref(&seen), &sets, &catalogs, Timestamp::now());
        let resolution = resolution(answer);
        let account = account(&client, &seen, next).await;
        let objects = Objects::of(&client, &plans.planner, &sets).await;
        let workloads = workloads::workloads(&client, &seen).await?;
        let answer = json!({
            "status": status, "resolution": resolution, "serviceAccount": account, "objects": objects,
            "workloads": workloads,
        });
        output::answer(out, self.output, &answer, |_| {
            let mut text = with_bundle(status.detail(), &resolution);
            write_resolution(&mut text, &resolution);
            write_account(&mut text, &account);
            text.push_str(&objects.text());
            text.push_str(&workloads::text(&workloads));
            text.trim_end().to_owned()
        })
    }
}

/// The text with the bundle that the catalogs give in the commands of its advice, as far as a shell takes its reference for
/// what it is.
fn with_bundle(text: String, resolution: &Value) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "./:@_-".contains(c);
    match resolution["image"].as_str().filter(|image| image.chars().all(is_plain)) {
        Some(image) => text.replace("olm bundle rbac <bundle>", &format!("olm bundle rbac {image}")),
        None => text,
    }
}

/// The bundle that the catalogs give the extension now, or why none, and the others.
fn resolution(answer: Result<CatalogAnswer, String>) -> Value {
    match answer {
        Err(error) => json!({"error": error}),
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
async fn account(client: &Client, seen: &ClusterExtension, next: Result<Next, PlanError>) -> Value {
    let named = seen.spec.service_account.as_ref().and_then(|account| account.name.clone());
    let namespace = &seen.spec.namespace;
    let exists = match &named {
        None => Value::Null,
        Some(name) => exists(&Api::<ServiceAccount>::namespaced(client.clone(), namespace), name).await,
    };
    let namespace_exists = exists_unless(&exists, &Api::<Namespace>::all(client.clone()), namespace).await;
    let missing = match (&namespace_exists, &exists, &named) {
        (Value::Bool(false), ..) => Some(format!("namespace {namespace:?} does not exist")),
        (_, Value::Bool(false), Some(name)) => {
            Some(format!("ServiceAccount {name:?} does not exist in namespace {namespace:?}"))
        }
        _ => None,
    };
    let (plan, next) = match next {
        _ if seen.metadata.deletion_timestamp.is_some() => {
            (None, "none: the extension is being deleted".to_owned())
        }
        Ok(Next::Revision(revision)) => (Some(revision.plan), String::new()),
        Ok(Next::Nothing { why, .. }) => (None, why),
        Err(error) => (None, error.to_string()),
    };
    let of_plan = plan.as_ref().map(Plan::blocked).unwrap_or_default();
    let blocked: Vec<String> = missing.filter(|_| plan.is_some()).into_iter().chain(of_plan).collect();
    let missing: Vec<String> = plan
        .as_ref()
        .and_then(|plan| plan.missing_permissions.known())
        .into_iter()
        .flatten()
        .map(olm_plan::permission_line)
        .collect();
    json!({
        "name": named, "namespace": namespace, "exists": exists, "namespaceExists": namespace_exists,
        "missingPermissions": missing, "nextRevision": next, "blocked": blocked,
    })
}

/// Whether an object exists, or why that cannot be read.
async fn exists<K>(api: &Api<K>, name: &str) -> Value
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    if_exists(api.get_metadata(name))
        .await
        .map_or_else(|error| json!(olm_runtime::api_text(&error)), |found| json!(found.is_some()))
}

/// Whether the namespace exists. A ServiceAccount that exists shows it without a request.
async fn exists_unless(account: &Value, namespaces: &Api<Namespace>, name: &str) -> Value {
    if *account == Value::Bool(true) { Value::Bool(true) } else { exists(namespaces, name).await }
}

fn write_account(text: &mut String, account: &Value) {
    let name = account["name"].as_str().unwrap_or("(the cluster's default)");
    let exists = match &account["exists"] {
        Value::Bool(true) => "exists".to_owned(),
        Value::Bool(false) if account["namespaceExists"] == false => {
            "does not exist: there is no such namespace".to_owned()
        }
        Value::Bool(false) => "does not exist".to_owned(),
        Value::String(error) => format!("cannot be read: {error}"),
        _ => "is set for the cluster".to_owned(),
    };
    let namespace = olm_object::text(account, "/namespace");
    // Writing to a String cannot fail.
    let _ = writeln!(text, "ServiceAccount\n  {namespace}/{} {}", one_line(name), one_line(&exists));
    for missing in account["missingPermissions"].as_array().into_iter().flatten() {
        let _ =
            writeln!(text, "  is missing the permission {}", one_line(missing.as_str().unwrap_or_default()));
    }
    text.push_str("Next revision\n");
    match olm_object::text(account, "/nextRevision") {
        "" if account["blocked"].as_array().is_some_and(|blocked| !blocked.is_empty()) => {
            text.push_str("  cannot be made\n");
        }
        "" => text.push_str("  would be made; olm diff shows it\n"),
        why => drop(writeln!(text, "  {}", below(why, 4))),
    }
    for blocked in account["blocked"].as_array().into_iter().flatten() {
        let _ = writeln!(text, "  blocked: {}", below(blocked.as_str().unwrap_or_default(), 4));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bundle_is_named_in_advice_unless_a_shell_would_take_it_for_more() {
        let text = || "(\"olm bundle rbac <bundle> -n a\" prints it)".to_owned();
        let of = |image: &str| with_bundle(text(), &json!({"image": image}));
        assert_eq!(of("r.io/a/b@sha256:1"), "(\"olm bundle rbac r.io/a/b@sha256:1 -n a\" prints it)");
        assert_eq!([of("a;b"), of("a b"), with_bundle(text(), &json!({}))], [text(), text(), text()]);
    }
}
