//! ClusterServiceVersions: their phase, what they need, and what helps.

use std::fmt::Write as _;

use anyhow::Context as _;
use kube::{Api, Client, ResourceExt};
use olm_api_classic::{
    ClusterServiceVersion, RequirementStatus, Subscription,
    names::{GROUP_ANNOTATION, TARGETS_ANNOTATION},
};
use olm_classic_core::csv::{advice::advice, requirements::is_met};
use olm_runtime::if_exists;
use olm_text::one_line;
use serde::Serialize;

use crate::{
    cluster::list_if_served,
    output::{below, columns},
};

/// Requirements that are shown.
const REQUIREMENTS_MAX: usize = 50;

/// A ClusterServiceVersion.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CsvView {
    namespace: String,
    name: String,
    display_name: String,
    version: String,
    replaces: String,
    /// The OperatorGroup.
    operator_group: String,
    /// The namespaces that it serves, comma-separated.
    #[serde(skip_serializing_if = "Option::is_none")]
    target_namespaces: Option<String>,
    /// The Subscriptions that it is installed for.
    subscriptions: Vec<String>,
    phase: String,
    reason: String,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<String>,
    /// What helps.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
    /// What it needs; what is missing comes first.
    requirements: Vec<RequirementView>,
}

/// Something that an operator needs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct RequirementView {
    kind: String,
    name: String,
    status: String,
    message: String,
    is_met: bool,
    /// Permissions that a ServiceAccount lacks.
    missing: Vec<String>,
}

impl CsvView {
    /// A ClusterServiceVersion of a cluster.
    pub(crate) async fn read(client: &Client, namespace: &str, name: &str) -> anyhow::Result<Self> {
        let api: Api<ClusterServiceVersion> = Api::namespaced(client.clone(), namespace);
        let found = if_exists(api.get(name)).await;
        let found = found.with_context(|| format!("reading ClusterServiceVersion {namespace}/{name}"))?;
        let csv = found.with_context(|| {
            format!(
                "there is no ClusterServiceVersion {name:?} in namespace {namespace}: name another one with -n"
            )
        })?;
        let mut view = Self::of(&csv);
        for one in list_if_served::<Subscription>(client).await?.unwrap_or_default() {
            let installed = one.status.as_ref().and_then(|status| status.installed_csv.as_deref());
            if installed == Some(name) && one.namespace().as_deref() == Some(namespace) {
                view.subscriptions.push(one.name_any());
            }
        }
        Ok(view)
    }

    fn of(csv: &ClusterServiceVersion) -> Self {
        let status = csv.status.clone().unwrap_or_default();
        let annotation = |name: &str| csv.annotations().get(name).cloned();
        let text = |text: Option<String>| text.unwrap_or_default();
        let reason = text(status.reason);
        let mut requirements: Vec<_> = status.requirement_status.iter().map(RequirementView::of).collect();
        requirements.sort_by_key(|one| one.is_met);
        Self {
            namespace: csv.namespace().unwrap_or_default(),
            name: csv.name_any(),
            display_name: csv.spec.display_name.clone(),
            version: text(csv.spec.version.clone()),
            replaces: text(csv.spec.replaces.clone()),
            operator_group: text(annotation(GROUP_ANNOTATION)),
            target_namespaces: annotation(TARGETS_ANNOTATION),
            subscriptions: Vec::new(),
            phase: text(status.phase),
            advice: advice(&reason).map(str::to_owned),
            reason,
            message: text(status.message),
            since: status.last_transition_time.map(|time| time.0.to_string()),
            requirements,
        }
    }

    /// Everything about it.
    pub(crate) fn detail(&self) -> String {
        let line = |text: &str| one_line(text).into_owned();
        let some = |text: &str| Some(line(text)).filter(|text| !text.is_empty());
        let targets = self.target_namespaces.as_deref().map(|targets| match targets {
            "" => "all".to_owned(),
            listed => line(listed),
        });
        let rows = [
            ("operator", some(&format!("{} {}", self.display_name, self.version))),
            ("replaces", some(&self.replaces)),
            ("OperatorGroup", some(&self.operator_group)),
            ("namespaces", targets),
            ("for Subscriptions", some(&self.subscriptions.join(", "))),
            ("phase", some(&self.phase).or_else(|| Some("(none yet)".to_owned()))),
            ("reason", some(&self.reason)),
            ("message", some(&self.message)),
            ("since", self.since.as_deref().and_then(some)),
        ];
        let rows: Vec<[String; 2]> =
            rows.into_iter().filter_map(|(name, text)| Some([format!("  {name}"), text?])).collect();
        let mut text = format!("ClusterServiceVersion {}/{}\n{}", self.namespace, self.name, columns(&rows));
        // Writing to a String cannot fail.
        if let Some(advice) = &self.advice {
            let _ = writeln!(text, "What to do\n  {}", below(advice, 2));
        }
        if !self.requirements.is_empty() {
            text.push_str("Requirements\n");
        }
        for one in self.requirements.iter().take(REQUIREMENTS_MAX) {
            let sign = if one.is_met { '+' } else { '-' };
            let message = Some(&one.message).filter(|message| !message.is_empty());
            let message = message.map(|message| format!(": {message}")).unwrap_or_default();
            let shown = format!("{} {} is {}{message}", one.kind, one.name, one.status);
            let _ = writeln!(text, "  {sign} {}", below(&shown, 4));
            for missing in &one.missing {
                let _ = writeln!(text, "    lacks {}", line(missing));
            }
        }
        if self.requirements.len() > REQUIREMENTS_MAX {
            let _ = writeln!(text, "  and {} more", self.requirements.len() - REQUIREMENTS_MAX);
        }
        text
    }
}

impl RequirementView {
    fn of(one: &RequirementStatus) -> Self {
        let missing = one.dependents.iter().filter(|part| !is_met(&part.status));
        Self {
            kind: one.kind.clone(),
            name: one.name.clone(),
            status: one.status.clone(),
            message: one.message.clone(),
            is_met: is_met(&one.status),
            missing: missing.map(|part| part.message.clone().unwrap_or_default()).collect(),
        }
    }
}
