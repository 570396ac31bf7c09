//! Which webhooks an operator may have.
//!
//! Webhook configurations hold for the whole cluster, and are written with the permissions of this program: what one of
//! them must not do has to be decided here.

use std::collections::BTreeSet;

use k8s_openapi::api::admissionregistration::v1::RuleWithOperations;
use olm_api_classic::{ClusterServiceVersion, WebhookType, names};

use super::texts::message;

/// API group of webhook configurations.
const GROUP_OF_WEBHOOKS: &str = "admissionregistration.k8s.io";
/// Resources of webhook configurations, and the words that upstream looks for in their place.
const FORBIDDEN: [&str; 5] = [
    "*",
    "mutatingwebhookconfigurations",
    "validatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
];

/// Whether the webhooks of an operator are allowed.
///
/// # Errors
/// The message.
pub fn check(csv: &ClusterServiceVersion) -> Result<(), &'static str> {
    let mut names = BTreeSet::new();
    let all = csv.spec.webhookdefinitions.iter().flatten();
    if !all.clone().all(|webhook| names.insert(&webhook.generate_name)) {
        return Err(message::WEBHOOK_TWICE);
    }
    let admission = all.filter(|webhook| webhook.type_ != WebhookType::ConversionWebhook);
    admission.flat_map(|webhook| webhook.rules.iter().flatten()).try_for_each(allowed)
}

fn allowed(rule: &RuleWithOperations) -> Result<(), &'static str> {
    let has = |list: &Option<Vec<String>>, wanted: &str| list.iter().flatten().any(|item| item == wanted);
    if has(&rule.api_groups, "*") {
        return Err(message::WEBHOOK_ALL);
    }
    if has(&rule.api_groups, names::GROUP) {
        return Err(message::WEBHOOK_OLM);
    }
    let is_forbidden = |resource: &String| {
        let resource = resource.split('/').next().unwrap_or_default();
        FORBIDDEN.contains(&resource)
    };
    if has(&rule.api_groups, GROUP_OF_WEBHOOKS) && rule.resources.iter().flatten().any(is_forbidden) {
        return Err(message::WEBHOOK_WEBHOOKS);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn csv(webhooks: &Value) -> ClusterServiceVersion {
        serde_json::from_value(json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": "a"},
            "spec": {"displayName": "a", "install": {"strategy": "deployment"}, "webhookdefinitions": webhooks},
        }))
        .unwrap()
    }

    fn webhook(type_: &str, name: &str, group: &str, resource: &str) -> Value {
        json!({
            "type": type_, "generateName": name, "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "rules": [{"apiGroups": [group], "apiVersions": ["*"], "resources": [resource], "operations": ["*"]}],
        })
    }

    #[test]
    fn webhooks_must_not_reach_what_governs_the_cluster() {
        let of = |group: &str, resource: &str| {
            check(&csv(&json!([webhook("ValidatingAdmissionWebhook", "w", group, resource)])))
        };
        assert_eq!(of("apps", "*"), Ok(()));
        assert_eq!(of("*", "pods"), Err(message::WEBHOOK_ALL));
        assert_eq!(of("operators.coreos.com", "subscriptions"), Err(message::WEBHOOK_OLM));
        let group = "admissionregistration.k8s.io";
        for resource in FORBIDDEN.into_iter().chain(["*/*", "validatingwebhookconfigurations/status"]) {
            assert_eq!(of(group, resource), Err(message::WEBHOOK_WEBHOOKS), "{resource}");
        }
        assert_eq!(of(group, "validatingadmissionpolicies"), Ok(()));
    }

    #[test]
    fn names_are_used_once_and_conversion_has_no_rules() {
        let twice = json!([
            webhook("ValidatingAdmissionWebhook", "w", "apps", "x"),
            webhook("MutatingAdmissionWebhook", "w", "apps", "x"),
        ]);
        assert_eq!(check(&csv(&twice)), Err(message::WEBHOOK_TWICE));
        assert_eq!(check(&csv(&json!([webhook("ConversionWebhook", "c", "*", "*")]))), Ok(()));
    }
}
