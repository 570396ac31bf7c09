//! InstallPlans: what they install, and what they wait for.

use std::{collections::BTreeMap, fmt::Write as _};

use anyhow::Context as _;
use kube::{Api, Client, ResourceExt};
use olm_api_classic::{InstallPlan, InstallPlanStatus};
use olm_runtime::if_exists;
use olm_text::one_line;
use serde::Serialize;

use crate::output::{below, columns};

/// Steps that are not carried out and are shown.
const STEPS_MAX: usize = 20;
/// States of steps that are carried out.
const DONE: [&str; 2] = ["Created", "Present"];

/// An InstallPlan.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PlanView {
    namespace: String,
    name: String,
    phase: String,
    approval: String,
    approved: bool,
    cluster_service_versions: Vec<String>,
    /// The Subscriptions that it was made for.
    subscriptions: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    service_account: Option<String>,
    bundles: Vec<String>,
    /// How many steps there are in each state.
    steps: BTreeMap<String, usize>,
    /// Steps that are not carried out.
    open: Vec<OpenStep>,
    conditions: Vec<ConditionView>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct OpenStep {
    kind: String,
    name: String,
    resolving: String,
    status: String,
}

#[derive(Debug, Serialize)]
struct ConditionView {
    #[serde(rename = "type")]
    type_: String,
    status: String,
    reason: String,
    message: String,
}

impl PlanView {
    /// An InstallPlan of a cluster.
    pub(crate) async fn read(client: &Client, namespace: &str, name: &str) -> anyhow::Result<Self> {
        let api: Api<InstallPlan> = Api::namespaced(client.clone(), namespace);
        let found = if_exists(api.get(name)).await;
        let found = found.with_context(|| format!("reading InstallPlan {namespace}/{name}"))?;
        let plan = found.with_context(|| {
            format!("there is no InstallPlan {name:?} in namespace {namespace}: name another one with -n")
        })?;
        Ok(Self::of(&plan))
    }

    fn of(plan: &InstallPlan) -> Self {
        let status: InstallPlanStatus = plan.status.clone().unwrap_or_default();
        let mut steps = BTreeMap::new();
        for step in &status.plan {
            *steps.entry(step.status.clone()).or_default() += 1;
        }
        let open = status.plan.iter().filter(|step| !DONE.contains(&step.status.as_str()));
        let open = open.map(|step| OpenStep {
            kind: step.resource.kind.clone(),
            name: step.resource.name.clone(),
            resolving: step.resolving.clone(),
            status: step.status.clone(),
        });
        let owners = plan.owner_references().iter().filter(|owner| owner.kind == "Subscription");
        let text = |text: Option<String>| text.unwrap_or_default();
        Self {
            namespace: plan.namespace().unwrap_or_default(),
            name: plan.name_any(),
            phase: status.phase,
            approval: plan.spec.approval.clone(),
            approved: plan.spec.approved,
            cluster_service_versions: plan.spec.cluster_service_version_names.clone(),
            subscriptions: owners.map(|owner| owner.name.clone()).collect(),
            service_account: status.attenuated_service_account_ref.and_then(|account| account.name),
            bundles: status.bundle_lookups.iter().map(|lookup| lookup.path.clone()).collect(),
            steps,
            open: open.collect(),
            conditions: status
                .conditions
                .into_iter()
                .map(|one| ConditionView {
                    type_: text(one.type_),
                    status: text(one.status),
                    reason: text(one.reason),
                    message: text(one.message),
                })
                .filter(|one| one.type_ != "Sealed")
                .collect(),
        }
    }

    /// Everything about it.
    pub(crate) fn detail(&self) -> String {
        let line = |text: &str| one_line(text).into_owned();
        let listed = |list: &[String]| Some(line(&list.join(", "))).filter(|text| !text.is_empty());
        let approved = if self.approved { "approved" } else { "not approved" };
        let counts: Vec<String> =
            self.steps.iter().map(|(state, count)| format!("{count} {state}")).collect();
        let rows = [
            ("installs", listed(&self.cluster_service_versions)),
            ("phase", Some(line(&self.phase))),
            ("approval", Some(format!("{}, {approved}", line(&self.approval)))),
            ("for Subscriptions", listed(&self.subscriptions)),
            ("as ServiceAccount", self.service_account.as_deref().map(line)),
            ("bundles", listed(&self.bundles)),
            ("steps", listed(&counts)),
        ];
        let rows: Vec<[String; 2]> =
            rows.into_iter().filter_map(|(name, text)| Some([format!("  {name}"), text?])).collect();
        let mut text = format!("InstallPlan {}/{}\n{}", self.namespace, self.name, columns(&rows));
        // Writing to a String cannot fail.
        if !self.open.is_empty() {
            text.push_str("Steps that are not carried out\n");
        }
        for step in self.open.iter().take(STEPS_MAX) {
            let _ = writeln!(
                text,
                "  {} {} of {}: {}",
                line(&step.kind),
                line(&step.name),
                line(&step.resolving),
                line(&step.status)
            );
        }
        if self.open.len() > STEPS_MAX {
            let _ = writeln!(text, "  and {} more", self.open.len() - STEPS_MAX);
        }
        if !self.conditions.is_empty() {
            text.push_str("Conditions\n");
        }
        for one in &self.conditions {
            let _ = writeln!(
                text,
                "  {} is {}{}",
                line(&one.type_),
                line(&one.status),
                below(&format!(" {}: {}", one.reason, one.message).replace(" : ", ""), 4)
            );
        }
        text
    }
}
