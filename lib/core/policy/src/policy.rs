//! A policy whose texts are read, and which of several is in force.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use olm_api::v1alpha1::{
    Approval, Concurrency, OnFailure, POLICY_CATALOGS_MAX, UpdatePolicy, UpdatePolicySpec, WINDOWS_MAX,
};
use olm_objectset::label_selector_matches;
use olm_semver::Constraint;

use crate::{
    calendar::Calendar,
    limits::MINIMUM_AGE_MAX,
    window::{Window, span},
};

/// What a policy says.
#[derive(Debug, Clone)]
pub struct Policy {
    /// Its name.
    pub name: String,
    /// Whether a person has to approve.
    pub approval: Approval,
    /// Whether first installations are held too.
    pub installs: bool,
    /// When updates may begin.
    pub calendar: Calendar,
    /// How long a version has to have been possible.
    pub minimum_age: Option<SignedDuration>,
    /// The catalogs that versions may come from; all when empty.
    pub catalogs: Vec<String>,
    /// The range that versions have to be in.
    pub versions: Option<String>,
    /// How many roll out at the same time.
    pub concurrency: Option<Concurrency>,
    /// What happens to a revision that misses its deadline.
    pub on_failure: OnFailure,
}

impl Policy {
    /// Reads a policy.
    ///
    /// # Errors
    /// Everything that cannot be read, a sentence each.
    pub fn parse(name: &str, spec: &UpdatePolicySpec) -> Result<Self, Vec<String>> {
        let mut wrong = Vec::new();
        wrong.extend(selector_error(&spec.selector));
        if spec.windows.len() > WINDOWS_MAX {
            wrong
                .push(format!("spec.windows has {} entries: {WINDOWS_MAX} are possible", spec.windows.len()));
        }
        if spec.catalogs.len() > POLICY_CATALOGS_MAX {
            let count = spec.catalogs.len();
            wrong.push(format!("spec.catalogs has {count} entries: {POLICY_CATALOGS_MAX} are possible"));
        }
        let mut windows = Vec::new();
        for (index, window) in spec.windows.iter().enumerate().take(WINDOWS_MAX) {
            match Window::parse(window) {
                Ok(window) => windows.push(window),
                Err(error) => wrong.push(format!("spec.windows[{index}]: {error}")),
            }
        }
        let is_possible = |age: &SignedDuration| !age.is_negative() && *age <= MINIMUM_AGE_MAX;
        let minimum_age = spec.minimum_age.as_deref().and_then(|text| {
            let age = span(text).filter(is_possible);
            if age.is_none() {
                wrong.push(format!("spec.minimumAge {text:?} has to be from 0s to 8784h, such as 72h"));
            }
            age
        });
        if let Some(Err(error)) = spec.versions.as_deref().map(str::parse::<Constraint>) {
            let text = spec.versions.as_deref().unwrap_or_default();
            wrong.push(format!("spec.versions {text:?} is no range of versions: {error}"));
        }
        if let Some(max) = spec.concurrency.as_ref().map(|concurrency| concurrency.max).filter(|max| *max < 1)
        {
            wrong.push(format!("spec.concurrency.max {max} has to be at least 1"));
        }
        if !wrong.is_empty() {
            return Err(wrong);
        }
        Ok(Self {
            name: name.to_owned(),
            approval: spec.approval,
            installs: spec.installs,
            calendar: Calendar::new(windows),
            minimum_age,
            catalogs: spec.catalogs.clone(),
            versions: spec.versions.clone(),
            concurrency: spec.concurrency.clone(),
            on_failure: spec.on_failure,
        })
    }
}

/// What is wrong with a selector, which the API server does not check.
fn selector_error(selector: &LabelSelector) -> Option<String> {
    selector.match_expressions.iter().flatten().find_map(|requirement| {
        let has_values = requirement.values.as_ref().is_some_and(|values| !values.is_empty());
        let why = match requirement.operator.as_str() {
            "In" | "NotIn" if !has_values => "needs values",
            "Exists" | "DoesNotExist" if has_values => "takes no values",
            "In" | "NotIn" | "Exists" | "DoesNotExist" => return None,
            _ => "is none of In, NotIn, Exists and DoesNotExist",
        };
        let (key, operator) = (&requirement.key, &requirement.operator);
        Some(format!("spec.selector: the operator {operator:?} of key {key:?} {why}"))
    })
}

/// Whether a policy selects an extension with these labels. A selector that is wrong selects nothing.
pub fn selects(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    selector_error(selector).is_none()
        && label_selector_matches(selector, |key| labels.get(key).map(String::as_str))
}

/// The policy that is in force for an extension with these labels: of those that select it the one with the highest
/// priority, then the first by name. One that is being deleted counts until it is gone.
pub fn in_force<'p>(
    policies: impl IntoIterator<Item = &'p UpdatePolicy>,
    labels: &BTreeMap<String, String>,
) -> Option<&'p UpdatePolicy> {
    let selecting = policies.into_iter().filter(|policy| selects(&policy.spec.selector, labels));
    let rank = |policy: &&UpdatePolicy| {
        (std::cmp::Reverse(policy.spec.priority), policy.metadata.name.clone().unwrap_or_default())
    };
    selecting.min_by_key(rank)
}
