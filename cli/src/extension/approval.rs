//! `olm plan` and `olm approve`: the change of an extension that an update policy holds.

use std::io::Write;

use anyhow::bail;
use clap::Args;
use kube::{Api, Client, ResourceExt, api::ListParams};
use olm_api::{
    names::{APPROVED_PLAN_ANNOTATION, OWNER_NAME_LABEL},
    v1::ClusterExtension,
    v1alpha1::{ExtensionPlan, ExtensionPlanSpec, PlannedBundle, PlannedChange, PlannedObject},
};
use olm_runtime::{api_text, bounded, connect};
use olm_text::visible;
use operator_controller::plan::Next;
use serde_json::json;

use super::{change::change, planning::Planning, question::Consent, revisions::extension};
use crate::{
    cluster::Cluster,
    output::{self, Format},
};

/// The help text below the options of `olm plan`.
pub(crate) const PLAN_HELP: &str = "Shows the plan that the controller keeps while an update policy holds a change (an ExtensionPlan). Where nothing is held the
plan is made as \"olm diff\" makes it. Fields are named without their values: \"olm diff\" shows those.

Examples:
  olm plan lighthouse
  olm plan lighthouse -o json";

/// The help text below the options of `olm approve`.
pub(crate) const APPROVE_HELP: &str = "Shows the plan that is held, asks, and approves it: the extension's annotation
extensions.olm.operatorframework.io/approved-plan gets the digest of the plan, which takes the verb \"approve\" on the
ClusterExtension. Only a plan with this digest is rolled out, when the update policy's window and turn have come.

Examples:
  olm approve lighthouse
  olm approve lighthouse --digest sha256:0c1f... --yes";

/// `olm plan`
#[derive(Debug, Args)]
pub(crate) struct PlanCommand {
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

/// `olm approve`
#[derive(Debug, Args)]
pub(crate) struct Approve {
    /// Name of the ClusterExtension
    extension: String,
    /// Digest of the plan; fails if another plan is held by now
    #[arg(long, value_name = "DIGEST")]
    digest: Option<String>,
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    cluster: Cluster,
}

impl PlanCommand {
    pub(crate) async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let config = self.cluster.config().await?;
        let client = connect(config.clone())?;
        let seen = extension(&client, &self.extension).await?;
        if let Some(kept) = kept(&client, &seen).await? {
            return output::answer(out, self.output, &kept.spec, text);
        }
        let plans = self.planning.plans(&config, true).await?;
        match Box::pin(plans.planner.next(&seen)).await? {
            Next::Nothing { why, notes } => {
                let answer = json!({"extension": self.extension, "why": why, "notes": notes});
                output::answer(out, self.output, &answer, |_| format!("{}: no plan: {why}", self.extension))
            }
            Next::Revision(revision) => {
                let answer = revision.plan.to_json();
                output::answer(out, self.output, &answer, |_| revision.plan.to_text())
            }
        }
    }
}

impl Approve {
    pub(crate) async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        self.consent.check()?;
        let client = self.cluster.client().await?;
        let seen = extension(&client, &self.extension).await?;
        let name = &self.extension;
        let Some(plan) = kept(&client, &seen).await? else {
            bail!(
                "{name} has no plan that waits: \"olm status {name}\" says what it does, \"olm diff {name}\" what would change"
            );
        };
        let digest = &plan.spec.digest;
        if let Some(other) = self.digest.as_ref().filter(|other| *other != digest) {
            bail!(
                "the plan of {name} is {digest}, not {other}: read it with \"olm plan {name}\" before you approve it"
            );
        }
        writeln!(out, "{}", text(&plan.spec))?;
        if seen.annotations().get(APPROVED_PLAN_ANNOTATION) == Some(digest) {
            return Ok(writeln!(out, "{name}: plan {digest} is approved already")?);
        }
        if !self.consent.ask(&format!("Approve this plan of {name}?"))? {
            return Ok(());
        }
        let patch = json!({"metadata": {"annotations": {APPROVED_PLAN_ANNOTATION: digest}}});
        change(&client, &seen, patch).await?;
        Ok(writeln!(out, "{name}: plan {digest} is approved")?)
    }
}

/// The plan that the controller keeps for an extension: the latest, should there be more for a moment.
async fn kept(client: &Client, extension: &ClusterExtension) -> anyhow::Result<Option<ExtensionPlan>> {
    let api: Api<ExtensionPlan> = Api::all(client.clone());
    let mine = ListParams::default().labels(&format!("{OWNER_NAME_LABEL}={}", extension.name_any()));
    let listed = match bounded(api.list(&mine)).await {
        Ok(listed) => listed.items,
        // A cluster whose program is older has none.
        Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
        Err(error) => bail!("reading the ExtensionPlans of {}: {}", extension.name_any(), api_text(&error)),
    };
    let is_its = |plan: &ExtensionPlan| Some(&plan.spec.extension.uid) == extension.metadata.uid.as_ref();
    Ok(listed.into_iter().filter(is_its).max_by_key(|plan| plan.creation_timestamp().map(|time| time.0)))
}

/// The plan for a person.
fn text(spec: &ExtensionPlanSpec) -> String {
    let mut lines = vec![format!("Plan of {} ({})", spec.extension.name, spec.digest)];
    let bundle = |bundle: &PlannedBundle| {
        let catalog = bundle.catalog.as_ref().map_or_else(String::new, |name| format!(", catalog {name}"));
        format!("{} ({}{catalog}, {})", bundle.version, bundle.bundle, bundle.image)
    };
    lines.extend(spec.from.as_ref().map(|from| format!("from:  {}", bundle(from))));
    lines.push(format!("to:    {}", bundle(&spec.to)));
    lines.push(format!("since: {:.0}", spec.first_possible.0));
    let counts = &spec.counts;
    lines.push(format!(
        "{} created, {} changed, {} deleted, {} stay as they are",
        counts.created, counts.changed, counts.deleted, counts.kept
    ));
    let mut part = |title: &str, items: Vec<String>| {
        if !items.is_empty() {
            lines.push(format!("\n{title}:"));
            lines.extend(items.into_iter().map(|item| format!("  {item}")));
        }
    };
    if let Some(before) = &spec.supersedes {
        part(&format!("Differences to plan {}", before.digest), before.differences.clone());
    }
    part("Extensions that are created first", spec.dependencies.clone());
    for gained in &spec.permissions {
        let danger = gained.danger.as_ref().map_or_else(String::new, |danger| format!(", which {danger}"));
        part(
            &format!("Permissions gained by {}{danger}", gained.service_account),
            gained.permissions.clone(),
        );
    }
    for crd in &spec.crds {
        part(&format!("CRD {}", crd.name), crd.findings.clone());
    }
    part("Webhooks", spec.webhooks.clone());
    part("Pods are replaced", spec.restarts.clone());
    let image = |text: &Option<String>| text.clone().unwrap_or_else(|| "none".to_owned());
    let images = spec.images.iter();
    part(
        "Images",
        images.map(|one| format!("{}: {} -> {}", one.container, image(&one.from), image(&one.to))).collect(),
    );
    part("Objects", spec.objects.iter().map(object).collect());
    if spec.omitted > 0 {
        lines.push(format!(
            "\n{} entries are left out: \"olm diff {}\" shows all",
            spec.omitted, spec.extension.name
        ));
    }
    visible(&lines.join("\n")).into_owned()
}

fn object(object: &PlannedObject) -> String {
    let sign = match object.change {
        PlannedChange::Create => '+',
        PlannedChange::Change => '~',
        PlannedChange::Delete => '-',
    };
    let place = if object.namespace.is_empty() { String::new() } else { format!("{}/", object.namespace) };
    let fields =
        if object.fields.is_empty() { String::new() } else { format!(": {}", object.fields.join(", ")) };
    let note = object.note.as_ref().map_or_else(String::new, |note| format!(" ({note})"));
    format!("{sign} {}.{} {place}{}{fields}{note}", object.kind, object.api_version, object.name)
}
