//! The checks of `spec.webhookdefinitions`.

use std::collections::{BTreeMap, BTreeSet};

use olm_bundle::{Bundle, CONVERSION, InstallMode, Webhook};
use olm_object::names::subdomain_problems;
use serde_json::Value;

use super::{deployment_names, repeated};

/// Longest valid name of an object.
const NAME_BYTES_SHOWN_MAX: usize = 253;
const WEBHOOK_CONFIGURATIONS: &str = "admissionregistration.k8s.io";

fn conversions(bundle: &Bundle) -> impl Iterator<Item = &Webhook> {
    bundle.csv.webhooks.iter().filter(|webhook| webhook.is(CONVERSION))
}

/// The webhooks sorted by type, then name.
fn sorted(bundle: &Bundle) -> Vec<&Webhook> {
    let mut webhooks: Vec<_> = bundle.csv.webhooks.iter().collect();
    webhooks.sort_by(|a, b| (&a.kind, &a.generate_name).cmp(&(&b.kind, &b.generate_name)));
    webhooks
}

pub(super) fn conversion_needs_all_namespaces_only(bundle: &Bundle, findings: &mut Vec<String>) {
    let modes = bundle.csv.mode_names();
    if modes == [InstallMode::AllNamespaces.as_str()] {
        return;
    }
    let modes = modes.join(" ");
    findings.extend(conversions(bundle).map(|webhook| {
        format!(
            "bundle contains conversion webhook \"{}\" and supports install modes [{modes}] - conversion webhooks are \
             only supported for bundles that only support AllNamespaces install mode",
            webhook.generate_name
        )
    }));
}

pub(super) fn deployments_exist(bundle: &Bundle, findings: &mut Vec<String>) {
    let deployments: BTreeSet<_> = deployment_names(&bundle.csv).collect();
    let mut lost: Vec<_> = sorted(bundle)
        .into_iter()
        .filter(|webhook| !deployments.contains(webhook.deployment_name.as_str()))
        .collect();
    lost.sort_by_key(|webhook| &webhook.deployment_name);
    findings.extend(lost.into_iter().map(|webhook| {
        format!(
            "webhook of type '{}' with name '{}' references non-existent deployment '{}'",
            webhook.kind, webhook.generate_name, webhook.deployment_name
        )
    }));
}

pub(super) fn names_are_unique(bundle: &Bundle, findings: &mut Vec<String>) {
    let mut by_type: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for webhook in &bundle.csv.webhooks {
        by_type.entry(&webhook.kind).or_default().push(&webhook.generate_name);
    }
    for (kind, names) in by_type {
        findings.extend(
            repeated(names.into_iter()).map(|name| format!("duplicate webhook '{name}' of type '{kind}'")),
        );
    }
}

pub(super) fn names_are_valid(bundle: &Bundle, findings: &mut Vec<String>) {
    for webhook in sorted(bundle) {
        let problems = subdomain_problems(webhook.name());
        if !problems.is_empty() {
            findings.push(format!(
                "webhook of type '{}' has invalid name '{}': {}",
                webhook.kind,
                webhook.generate_name,
                problems.join(",")
            ));
        }
    }
}

pub(super) fn crds_have_one_converter(bundle: &Bundle, findings: &mut Vec<String>) {
    let mut converters: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for webhook in conversions(bundle) {
        for crd in &webhook.conversion_crds {
            converters.entry(crd).or_default().push(shown(&webhook.generate_name));
        }
    }
    for (crd, mut names) in converters.into_iter().filter(|(_, names)| names.len() > 1) {
        names.sort_unstable();
        let names = names.join(",");
        findings
            .push(format!("conversion webhooks [{names}] reference same custom resource definition '{crd}'"));
    }
}

pub(super) fn converted_crds_are_owned(bundle: &Bundle, findings: &mut Vec<String>) {
    let owned: BTreeSet<_> = bundle.csv.owned_crds.iter().collect();
    let foreign: BTreeSet<_> = conversions(bundle)
        .flat_map(|webhook| {
            webhook.conversion_crds.iter().map(move |crd| (shown(&webhook.generate_name), crd))
        })
        .filter(|(_, crd)| !owned.contains(crd))
        .collect();
    findings.extend(foreign.into_iter().map(|(name, crd)| {
        format!("conversion webhook '{name}' references custom resource definition '{crd}' not owned bundle")
    }));
}

pub(super) fn rules_are_allowed(bundle: &Bundle, findings: &mut Vec<String>) {
    for webhook in bundle.csv.webhooks.iter().filter(|webhook| !webhook.is(CONVERSION)) {
        let prefix = format!(
            "webhook \"{}\" contains forbidden rule: admission webhook rules cannot reference",
            shown(&webhook.generate_name)
        );
        for rule in &webhook.rules {
            for group in texts(rule, "apiGroups") {
                match group {
                    "*" | "olm.operatorframework.io" => {
                        findings.push(format!("{prefix} API group \"{group}\""));
                    }
                    WEBHOOK_CONFIGURATIONS => findings.extend(
                        texts(rule, "resources").filter(|resource| is_webhook_configuration(resource)).map(
                            |resource| format!("{prefix} resource \"{resource}\" for API group \"{group}\""),
                        ),
                    ),
                    _ => {}
                }
            }
        }
    }
}

fn is_webhook_configuration(resource: &str) -> bool {
    matches!(
        resource.to_lowercase().as_str(),
        "*" | "mutatingwebhookconfiguration"
            | "mutatingwebhookconfigurations"
            | "validatingwebhookconfiguration"
            | "validatingwebhookconfigurations"
    )
}

/// The texts in a list, each once.
fn texts<'a>(rule: &'a Value, field: &str) -> impl Iterator<Item = &'a str> {
    let texts = rule.get(field).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let mut seen = BTreeSet::new();
    texts.filter(move |text| seen.insert(*text))
}

/// A name as far as a finding shows it: it may be part of as many findings as the webhook has rules or definitions.
fn shown(name: &str) -> &str {
    name.get(..name.floor_char_boundary(NAME_BYTES_SHOWN_MAX)).unwrap_or_default()
}
