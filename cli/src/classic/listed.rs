//! The objects of OLM Classic in a line each.

use std::fmt::Write as _;

use kube::ResourceExt;
use olm_api_classic::{ClusterServiceVersion, InstallPlan, Subscription, names::COPIED_FROM_LABEL};
use olm_text::one_line;
use serde::Serialize;

use crate::output::below;

/// Objects of a kind that are shown in text.
const SHOWN_MAX: usize = 200;

/// An object with its state.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Listed {
    namespace: String,
    name: String,
    /// State or phase.
    state: String,
    /// What it is about.
    #[serde(skip_serializing_if = "String::is_empty")]
    about: String,
    /// Why it is not as it should be.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
}

impl Listed {
    pub(super) fn subscription(one: &Subscription) -> Self {
        let status = one.status.clone().unwrap_or_default();
        // `Ready` says in a sentence what the others are about.
        let ready = status.conditions.iter().find(|condition| condition.type_ == "Ready");
        let failure = ready.filter(|ready| ready.status == "False").and_then(|ready| ready.message.clone());
        let failed = || {
            let is_bad = |type_: &str| type_.ends_with("Failed") || type_.ends_with("Unhealthy");
            let mut conditions = status.conditions.iter();
            let failed = conditions.find(|one| one.status == "True" && is_bad(&one.type_))?;
            let message = failed.message.clone().filter(|message| !message.is_empty());
            Some(message.map_or_else(|| failed.type_.clone(), |text| format!("{}: {text}", failed.type_)))
        };
        let failure = if ready.is_some() { failure } else { failed() };
        let installed = status.installed_csv.clone().filter(|name| !name.is_empty());
        Self {
            namespace: one.namespace().unwrap_or_default(),
            name: one.name_any(),
            state: status.state.clone().filter(|state| !state.is_empty()).unwrap_or_else(|| "new".to_owned()),
            about: installed.map(|name| format!("{name} installed")).unwrap_or_default(),
            failure,
        }
    }

    pub(super) fn version(one: &ClusterServiceVersion) -> Self {
        let status = one.status.clone().unwrap_or_default();
        let phase = status.phase.clone().unwrap_or_default();
        let reason = status.reason.clone().unwrap_or_default();
        let failure = (phase != "Succeeded").then(|| {
            let message = status.message.clone().filter(|message| !message.is_empty());
            message.map_or_else(|| reason.clone(), |message| format!("{reason}: {message}"))
        });
        Self {
            namespace: one.namespace().unwrap_or_default(),
            name: one.name_any(),
            state: Some(phase).filter(|phase| !phase.is_empty()).unwrap_or_else(|| "new".to_owned()),
            about: String::new(),
            failure: failure.filter(|text| !text.is_empty()),
        }
    }

    pub(super) fn plan(one: &InstallPlan) -> Self {
        let status = one.status.clone().unwrap_or_default();
        let conditions = status.conditions.iter();
        let failed = conditions.filter(|one| {
            one.type_.as_deref() == Some("Installed") && one.status.as_deref() == Some("False")
        });
        let failure = failed.filter_map(|one| one.message.clone()).find(|message| !message.is_empty());
        let waits = !one.spec.approved;
        let failure = failure.or_else(|| {
            waits.then(|| {
                "it is not approved: olm diff shows what it would do, set its spec.approved to true"
                    .to_owned()
            })
        });
        Self {
            namespace: one.namespace().unwrap_or_default(),
            name: one.name_any(),
            state: Some(status.phase).filter(|phase| !phase.is_empty()).unwrap_or_else(|| "new".to_owned()),
            about: one.spec.cluster_service_version_names.join(", "),
            failure,
        }
    }

    /// Whether an InstallPlan is over: those of earlier versions stay for a while.
    pub(super) fn is_over(&self) -> bool {
        self.state == "Complete" && self.failure.is_none()
    }
}

/// Whether a ClusterServiceVersion is a copy of one in another namespace.
pub(super) fn is_copy(one: &ClusterServiceVersion) -> bool {
    one.labels().contains_key(COPIED_FROM_LABEL)
}

/// A line for each object, and one below for what is wrong with it.
pub(super) fn lines<'l>(kind: &str, objects: impl ExactSizeIterator<Item = &'l Listed>, text: &mut String) {
    let more = objects.len().saturating_sub(SHOWN_MAX);
    // Writing to a String cannot fail.
    for Listed { namespace, name, state, about, failure } in objects.take(SHOWN_MAX) {
        let about = if about.is_empty() { String::new() } else { format!(", {}", one_line(about)) };
        let _ = writeln!(text, "{kind} {namespace}/{name} is {}{about}", one_line(state));
        if let Some(failure) = failure {
            let _ = writeln!(text, "  {}", below(failure, 4));
        }
    }
    if more > 0 {
        let _ = writeln!(text, "and {more} more of the kind {kind}");
    }
}
