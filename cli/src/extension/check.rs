//! `olm check`: whether the installation of OLM itself is healthy.

use std::{fmt::Write as _, io::Write, time::Duration};

use anyhow::Context as _;
use clap::Args;
use jiff::Timestamp;
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Namespace, ServiceAccount},
};
use kube::{Api, Client, ResourceExt};
use olm_api::{
    ConditionType::{Progressing, Ready, Serving},
    Conditions,
    v1::{AvailabilityMode, ClusterCatalog, ClusterExtension},
};
use olm_runtime::{api_text, if_exists};
use serde::Serialize;

use crate::{
    catalogs::SYSTEM_NAMESPACE,
    cluster::{CONTROLLERS, Cluster, controllers, list},
    output::{self, Differs, Format, columns},
};

/// The help text below the options.
pub(crate) const HELP: &str = "The controllers and their Leases, the admission policies that protect ServiceAccounts, catalogs, the namespace and
ServiceAccount of each extension, extensions that are not ready, and what an upstream installation left behind.

Exit codes: 0 all is well, 1 error, 2 something is wrong.

Examples:
  olm check
  olm check -o json";

/// A Lease that was not renewed for as long has no holder.
const RENEWED: Duration = Duration::from_mins(3);

/// `olm check`
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Namespace of the controllers
    #[arg(long, value_name = "NAMESPACE", default_value = SYSTEM_NAMESPACE)]
    system_namespace: String,
    /// Output format
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
    #[command(flatten)]
    cluster: Cluster,
}

#[derive(Debug, Serialize)]
struct Finding {
    ok: bool,
    what: String,
    /// The state, or what is wrong with the remedy.
    message: String,
}

fn ok(what: impl Into<String>, message: impl Into<String>) -> Finding {
    Finding { ok: true, what: what.into(), message: message.into() }
}

fn wrong(what: impl Into<String>, message: impl Into<String>) -> Finding {
    Finding { ok: false, what: what.into(), message: message.into() }
}

impl Check {
    pub(crate) async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let client = self.cluster.client().await?;
        let namespace = &self.system_namespace;
        let mut findings = deployments(&client, namespace).await?;
        findings.extend(leases(&client, namespace).await?);
        findings.extend(policies(&client, namespace).await);
        findings.extend(list::<ClusterCatalog>(&client).await?.iter().filter_map(catalog));
        for extension in list::<ClusterExtension>(&client).await? {
            findings.extend(extension_findings(&client, &extension).await?);
        }
        match operator_controller::leftovers(&client, namespace).await {
            Ok(left) => findings.extend(left.into_iter().map(|(object, text)| wrong(object, text))),
            Err(why) => findings.push(wrong("leftovers of upstream", why)),
        }
        let mut written = Vec::new();
        output::answer(&mut written, self.output, &findings, |findings| text(findings))?;
        let mut text = String::from_utf8(written)?;
        if self.output == Format::Text {
            text = output::states(text, "STATE");
        }
        out.write_all(text.as_bytes())?;
        if findings.iter().all(|finding| finding.ok) { Ok(()) } else { Err(Differs.into()) }
    }
}

async fn deployments(client: &Client, namespace: &str) -> anyhow::Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for one in controllers(client, namespace).await? {
        let wanted = one.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
        let ready = one.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0);
        let (what, state) =
            (format!("Deployment {}", one.name_any()), format!("{ready} of {wanted} replicas ready"));
        findings.push(if ready > 0 {
            ok(what, state)
        } else {
            wrong(what, format!("{state}: kubectl -n {namespace} get pods shows why"))
        });
    }
    if findings.is_empty() {
        findings.push(wrong(
            "controller",
            format!("no Deployment with the label {CONTROLLERS} in namespace {namespace}: install it, or pass --system-namespace"),
        ));
    }
    Ok(findings)
}

/// The Lease of operator-controller, and that of catalogd where it is installed on its own.
async fn leases(client: &Client, namespace: &str) -> anyhow::Result<Vec<Finding>> {
    let own = lease(client, namespace, operator_controller::LEASE).await?;
    let (what, absent) = (format!("Lease {}", operator_controller::LEASE), "absent: leader election is off");
    let own = own.unwrap_or_else(|| ok(what, absent));
    Ok(std::iter::once(own).chain(lease(client, namespace, catalogd::LEASE).await?).collect())
}

/// What there is to say of a Lease; nothing if there is none.
async fn lease(client: &Client, namespace: &str, name: &str) -> anyhow::Result<Option<Finding>> {
    let api: Api<Lease> = Api::namespaced(client.clone(), namespace);
    let found = if_exists(api.get(name)).await.with_context(|| format!("reading Lease {name}"))?;
    let what = format!("Lease {name}");
    let Some(lease) = found else { return Ok(None) };
    let spec = lease.spec.unwrap_or_default();
    let holder = spec.holder_identity.filter(|holder| !holder.is_empty());
    let renewed = spec.renew_time.map(|time| Timestamp::now().duration_since(time.0));
    Ok(Some(match (holder, renewed) {
        (Some(holder), Some(age)) if age.unsigned_abs() < RENEWED => ok(what, format!("held by {holder}")),
        (Some(holder), _) => wrong(what, format!("{holder} does not renew it: no controller is running")),
        (None, _) => wrong(what, "it has no holder: no controller is running"),
    }))
}

async fn policies(client: &Client, namespace: &str) -> Vec<Finding> {
    match operator_controller::missing_policies(client, namespace).await {
        Err(why) => vec![wrong("admission policies", format!("not known: {why}"))],
        Ok(different) if different.is_empty() => vec![ok("admission policies", "in force")],
        Ok(different) => {
            let remedy = "apply config/install.yaml with --server-side --force-conflicts";
            let each = |(name, why): (&str, String)| {
                wrong(format!("ValidatingAdmissionPolicy {name}"), format!("{why}: {remedy}"))
            };
            different.into_iter().map(each).collect()
        }
    }
}

fn catalog(catalog: &ClusterCatalog) -> Option<Finding> {
    let what = format!("ClusterCatalog {}", catalog.name_any());
    if catalog.spec.availability_mode == AvailabilityMode::Unavailable {
        return None;
    }
    let conditions = catalog.status.clone().unwrap_or_default().conditions;
    Some(match conditions.find(Ready).filter(|_| !conditions.is_true(Serving)) {
        None if conditions.is_true(Serving) => ok(what, serving(&conditions)),
        None => wrong(what, "it is not served"),
        Some(ready) => wrong(what, format!("it is not served: {}", ready.message)),
    })
}

/// The state of a catalog that is served, with the obstacle to newer content.
fn serving(conditions: &Conditions) -> String {
    let failing = conditions.find(Progressing).filter(|progressing| progressing.reason != "Succeeded");
    failing.map_or("serving".to_owned(), |why| {
        format!("serving; note: newer content cannot be fetched: {}", why.message)
    })
}

async fn extension_findings(client: &Client, extension: &ClusterExtension) -> anyhow::Result<Vec<Finding>> {
    let what = format!("ClusterExtension {}", extension.name_any());
    let namespace = &extension.spec.namespace;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let found = if_exists(namespaces.get_metadata(namespace)).await.context("reading namespaces")?;
    if found.is_none() {
        return Ok(vec![wrong(what, format!("namespace {namespace} does not exist: create it"))]);
    }
    if let Some(name) = extension.spec.service_account.as_ref().and_then(|account| account.name.as_ref()) {
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
        match if_exists(accounts.get_metadata(name)).await {
            Ok(Some(_)) => {}
            Ok(None) => {
                return Ok(vec![wrong(
                    what,
                    format!(
                        "ServiceAccount {namespace}/{name} does not exist: create it; \"olm bundle rbac\" prints it with its permissions"
                    ),
                )]);
            }
            Err(error) => return Ok(vec![wrong(what, api_text(&error))]),
        }
    }
    let conditions = extension.status.clone().unwrap_or_default().conditions;
    Ok(vec![match conditions.find(Ready) {
        Some(ready) if ready.status == "True" => ok(what, "ready"),
        Some(ready) => wrong(what, ready.message.clone()),
        None => wrong(what, "the controller has not reported on it yet"),
    }])
}

fn text(findings: &[Finding]) -> String {
    let mut rows = vec![["STATE", "CHECKED", "RESULT"].map(str::to_owned)];
    rows.extend(findings.iter().map(|finding| {
        let sign = if finding.ok { "ok" } else { "WRONG" };
        [sign.to_owned(), finding.what.clone(), finding.message.clone()]
    }));
    let mut text = columns(&rows);
    let count = findings.iter().filter(|finding| !finding.ok).count();
    if count == 0 {
        text.push_str("all is well");
    } else {
        // Writing to a String cannot fail.
        let _ = write!(text, "{} wrong", output::counted(count, "thing"));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_catalog_that_is_served_and_not_refreshed_is_well_with_a_note() {
        let of = |reason: &str| {
            let condition = |type_: &str, reason: &str, message: &str| {
                json!({"type": type_, "status": "True", "reason": reason, "message": message,
                       "lastTransitionTime": "2026-01-01T00:00:00Z"})
            };
            let one = json!({
                "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterCatalog", "metadata": {"name": "c"},
                "spec": {"source": {"type": "Image", "image": {"ref": "registry.example.com/c:v1"}}},
                "status": {"conditions": [
                    condition("Serving", "Available", ""), condition("Progressing", reason, "registry away"),
                ]},
            });
            catalog(&serde_json::from_value(one).unwrap()).unwrap()
        };
        let (fresh, old) = (of("Succeeded"), of("Retrying"));
        assert_eq!((fresh.ok, fresh.message.as_str()), (true, "serving"));
        assert_eq!(
            (old.ok, old.message.as_str()),
            (true, "serving; note: newer content cannot be fetched: registry away")
        );
    }
}
