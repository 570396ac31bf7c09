//! `olm uninstall`: removes an extension, after showing which data goes with it.

mod data;

use std::io::Write;

use anyhow::{Context as _, bail};
use clap::Args;
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, Preconditions},
};
use olm_api::{
    names::{DELETION_GUARD_ANNOTATION, DELETION_POLICY_ANNOTATION, INSTALLED_FOR_ANNOTATION},
    v1::ClusterExtension,
};
use olm_object::text;
use olm_runtime::{bounded, if_exists};
use olm_text::visible;
use serde_json::{Value, json};

use self::data::Data;
use super::{
    change::change,
    manifests::{api, label},
    permissions::{RBAC, created_for},
    question::Consent,
    revisions::extension,
    waiting::Patience,
};
use crate::cluster::{Cluster, list};

/// The help text below the options.
pub(crate) const HELP: &str = "Uninstalling deletes everything that the extension installed: its CRDs too, and with them every custom resource of their
kinds in every namespace. --keep-crds keeps CRDs and custom resources, --orphan keeps everything and only stops managing
it. An extension with a deletion guard is not removed while it has custom resources; \"olm snapshot\" saves them in a file.
The ServiceAccount and roles that \"olm install\" created are removed at the end, which --no-wait does not wait for: they
stay then, and are listed. They also stay while another extension uses the ServiceAccount. The namespace stays.

Exit codes: 0 removed, 1 error.

Examples:
  olm uninstall grafana-operator --dry-run
  olm uninstall grafana-operator --keep-crds";

/// `olm uninstall`
#[derive(Debug, Args)]
pub(crate) struct Uninstall {
    /// Name of the ClusterExtension
    extension: String,
    /// Keep the CRDs, and so all custom resources
    #[arg(long, conflicts_with = "orphan")]
    keep_crds: bool,
    /// Keep every object that the extension installed, without an owner
    #[arg(long)]
    orphan: bool,
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    patience: Patience,
    #[command(flatten)]
    cluster: Cluster,
}

impl Uninstall {
    /// Removes an extension with everything that it installed.
    pub(crate) fn of(extension: String, consent: Consent, patience: Patience, cluster: Cluster) -> Self {
        Self { extension, keep_crds: false, orphan: false, consent, patience, cluster }
    }

    pub(crate) async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        self.consent.check()?;
        let client = self.cluster.client().await?;
        let seen = extension(&client, &self.extension).await?;
        let name = &self.extension;
        let policy = self.policy(&seen);
        let data = Data::of(&client, &seen).await?;
        let users = others_with_its_account(&client, &seen).await?;
        let removes = policy != "Orphan" && users.is_empty();
        let ours = if removes { created(&client, &seen).await? } else { Vec::new() };
        write!(out, "{}", visible(&data.text(name, policy)))?;
        let namespace = &seen.spec.namespace;
        let sign = if self.patience.no_wait { ' ' } else { '-' };
        for object in &ours {
            writeln!(out, "{}", visible(&format!("  {sign} {}", label(object))))?;
        }
        if !users.is_empty() {
            let users = users.join(", ");
            writeln!(out, "Its ServiceAccount and roles stay, because other extensions use them: {users}")?;
        }
        writeln!(out, "Namespace {namespace} stays")?;
        let is_guarded = policy == "Delete" && seen.annotations().contains_key(DELETION_GUARD_ANNOTATION);
        if is_guarded && data.objects() > 0 {
            return refused(name, out);
        }
        if !self.consent.ask(&data.question(name, policy))? {
            return Ok(());
        }
        if seen.annotations().get(DELETION_POLICY_ANNOTATION).map_or("Delete", String::as_str) != policy {
            let patch = json!({"metadata": {"annotations": {DELETION_POLICY_ANNOTATION: policy}}});
            let written = change(&client, &seen, patch).await?;
            self.patience.keeps(&client, &written, policy, out).await?;
        }
        if is_guarded && !self.patience.counted(&client, &seen).await? && data.is_counted() {
            writeln!(
                out,
                "The ServiceAccount of {name} may not list its custom resources. There are none, so the deletion guard is removed"
            )?;
            let patch = json!({"metadata": {"annotations": {DELETION_GUARD_ANNOTATION: null}}});
            change(&client, &seen, patch).await?;
        }
        self.delete(&client, &seen).await?;
        if self.patience.no_wait {
            writeln!(out, "{name}: is being removed")?;
            if !ours.is_empty() {
                writeln!(out, "These stay, because nothing waited until {name} no longer needs them:")?;
            }
            for object in &ours {
                writeln!(out, "{}", visible(&format!("  {}", label(object))))?;
            }
            return Ok(());
        }
        self.patience.gone(&client, &seen, out).await?;
        for object in &ours {
            remove(&client, object).await?;
        }
        writeln!(out, "{name}: removed")?;
        if policy != "Delete" && !data.is_empty() {
            writeln!(
                out,
                "Its CRDs and custom resources stay; an extension of the same name and package takes them over"
            )?;
        }
        Ok(())
    }

    /// The deletion policy that is wanted: that of the flags, else the one that the extension has.
    fn policy<'a>(&self, seen: &'a ClusterExtension) -> &'a str {
        match seen.annotations().get(DELETION_POLICY_ANNOTATION) {
            _ if self.orphan => "Orphan",
            _ if self.keep_crds => "RetainCRDs",
            Some(policy) => policy,
            None => "Delete",
        }
    }

    /// Deletes the extension that was shown, and no other of its name.
    async fn delete(&self, client: &Client, seen: &ClusterExtension) -> anyhow::Result<()> {
        let live = extension(client, &self.extension).await?;
        if live.metadata.uid != seen.metadata.uid {
            bail!("ClusterExtension {} was created anew meanwhile: run the command again", self.extension);
        }
        let api: Api<ClusterExtension> = Api::all(client.clone());
        let params = DeleteParams {
            preconditions: Some(Preconditions { uid: seen.metadata.uid.clone(), resource_version: None }),
            ..DeleteParams::background()
        };
        let deleted = if_exists(api.delete(&self.extension, &params)).await;
        deleted.with_context(|| format!("deleting ClusterExtension {}", self.extension))?;
        Ok(())
    }
}

/// The other extensions that use the ServiceAccount of this one, such as those that were created for what it requires.
async fn others_with_its_account(client: &Client, seen: &ClusterExtension) -> anyhow::Result<Vec<String>> {
    let uses = |one: &ClusterExtension| (one.spec.namespace.clone(), one.spec.service_account.clone());
    let all: Vec<ClusterExtension> = list(client).await?;
    let is_user = |one: &&ClusterExtension| uses(one) == uses(seen) && one.name_any() != seen.name_any();
    Ok(all.iter().filter(is_user).map(ResourceExt::name_any).collect())
}

/// The ServiceAccount, roles and bindings that `olm install` created for the extension; bindings first, so that nothing is
/// bound to what is gone.
async fn created(client: &Client, seen: &ClusterExtension) -> anyhow::Result<Vec<Value>> {
    let (mut found, extension) = (Vec::new(), seen.name_any());
    let kinds = RBAC.into_iter().rev().chain([("v1", "ServiceAccount")]);
    for (api_version, kind) in kinds {
        for object in created_for(client, api_version, kind, &extension).await? {
            // Its ServiceAccount is in its namespace, whichever other user has set the marks.
            if kind == "ServiceAccount" && object.namespace().as_ref() != Some(&seen.spec.namespace) {
                continue;
            }
            found.push(json!({
                "apiVersion": api_version, "kind": kind,
                "metadata": {
                    "name": object.name_any(), "namespace": object.namespace().unwrap_or_default(),
                    "uid": object.uid(), "annotations": {INSTALLED_FOR_ANNOTATION: extension},
                },
            }));
        }
    }
    Ok(found)
}

/// Deletes one of them, unless another one has its name now.
pub(crate) async fn remove(client: &Client, object: &Value) -> anyhow::Result<()> {
    let uid = Some(text(object, "/metadata/uid").to_owned());
    let params = DeleteParams {
        preconditions: Some(Preconditions { uid, resource_version: None }),
        ..DeleteParams::default()
    };
    match bounded(api(client, object)?.delete(text(object, "/metadata/name"), &params)).await {
        Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(()),
        deleted => deleted.map(drop).with_context(|| format!("deleting {}", label(object))),
    }
}

/// Says why an extension is not removed, and the ways on.
fn refused(name: &str, out: &mut dyn Write) -> anyhow::Result<()> {
    writeln!(out, "The deletion guard does not let {name} be removed with custom resources. Three ways on:")?;
    writeln!(out, "  delete the custom resources")?;
    writeln!(out, "  olm uninstall {name} --keep-crds")?;
    writeln!(out, "  kubectl annotate clusterextension {name} {DELETION_GUARD_ANNOTATION}-")?;
    bail!("custom resources would be deleted with {name}: nothing was changed")
}
