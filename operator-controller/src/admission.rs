//! The admission policies without which everybody who may write an extension could have it act as any ServiceAccount.
//!
//! They are part of the default manifests, generated from here, and the controller compares the cluster's with
//! these ([`policies`](crate::facts::policies)). They hold for the controller itself, too.

use olm_api::names::EXTENSIONS_PREFIX;
use olm_yaml::YamlError;
use serde_json::{Value, json};

use crate::cluster_extension::{KNOWN, UNKNOWN, short_annotation};

/// ConfigMap in the system namespace with the settings that administrator and policies have to agree about.
pub(crate) const SETTINGS_CONFIG_MAP: &str = "olmv1-settings";
/// Its key for the account of extensions that name none: `[<namespace>/]<name>`.
pub(crate) const DEFAULT_ACCOUNT_KEY: &str = "default-service-account";

/// Names of the policies, which are also those of their bindings.
pub(crate) const NAMES: [&str; 11] = [
    "clusterextension-account.olm.operatorframework.io",
    EXTENSION_ANNOTATIONS,
    "clusterextension-default-account.olm.operatorframework.io",
    EXTENSION_RECORDS,
    "clusterextension-approval.olm.operatorframework.io",
    "extensionplan-owner.olm.operatorframework.io",
    "clusterobjectset-account.olm.operatorframework.io",
    "clusterobjectset-default-account.olm.operatorframework.io",
    OBJECT_SET_OWNER,
    DELETION_POLICY,
    DELETION_GUARD,
];
pub(crate) const EXTENSION_ANNOTATIONS: &str = "clusterextension-annotations.olm.operatorframework.io";
pub(crate) const EXTENSION_RECORDS: &str = "clusterextension-records.olm.operatorframework.io";
pub(crate) const OBJECT_SET_OWNER: &str = "clusterobjectset-owner.olm.operatorframework.io";
/// The policy that holds a deletion until what it is to keep is safe.
pub(crate) const DELETION_POLICY: &str = "clusterextension-deletion-policy.olm.operatorframework.io";
/// The policy that refuses a deletion that would delete custom resources.
pub(crate) const DELETION_GUARD: &str = "clusterextension-deletion-guard.olm.operatorframework.io";

/// The policies, but for the values of annotations.
const POLICIES: &str = include_str!("admission/policies.yaml");

/// Settings, policies and bindings, in the order they can be applied.
///
/// # Errors
/// If the text of the policies is no YAML.
pub fn objects(system_namespace: &str) -> Result<Vec<Value>, YamlError> {
    let mut policies = olm_yaml::one(POLICIES)?["items"].take();
    let policies = policies.as_array_mut().map(std::mem::take).unwrap_or_default();
    let settings = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        // Without data: the administrator's settings are not taken back when the manifests are applied again.
        "metadata": {"name": SETTINGS_CONFIG_MAP, "namespace": system_namespace},
    });
    let bindings: Vec<Value> = policies.iter().map(|policy| binding(policy, system_namespace)).collect();
    let policies = policies.into_iter().map(|mut policy| {
        if policy["metadata"]["name"] == EXTENSION_ANNOTATIONS {
            check_values(&mut policy["spec"]);
        }
        policy
    });
    Ok([settings].into_iter().chain(policies).chain(bindings).collect())
}

fn binding(policy: &Value, system_namespace: &str) -> Value {
    let name = &policy["metadata"]["name"];
    let mut spec = json!({"policyName": name, "validationActions": ["Deny"]});
    if policy["spec"]["paramKind"].is_object() {
        // With Deny no finalizer could be removed from an extension while the settings are away.
        spec["paramRef"] = json!({
            "name": SETTINGS_CONFIG_MAP, "namespace": system_namespace, "parameterNotFoundAction": "Allow",
        });
    }
    json!({
        "apiVersion": policy["apiVersion"], "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name}, "spec": spec,
    })
}

/// Adds the names and values of the annotations that are known.
fn check_values(spec: &mut Value) {
    let push = |list: &mut Value, entry| list.as_array_mut().map(|list| list.push(entry));
    let names: Vec<String> = KNOWN.iter().map(|(name, _)| format!("'{name}'")).collect();
    let unknown = format!("variables.changed.filter(k, !(k in [{}]))", names.join(", "));
    push(&mut spec["variables"], json!({"name": "unknown", "expression": unknown}));
    // What follows the prefix that all of them have; similar is what begins alike, which is what the language can tell.
    let short: Vec<String> = KNOWN.iter().map(|(name, _)| format!("'{}'", short_annotation(name))).collect();
    let misspelt = format!("variables.unknown.map(u, u.replace('{EXTENSIONS_PREFIX}', ''))");
    let similar =
        format!("[{}].filter(k, {misspelt}.exists(u, k.startsWith(u) || u.startsWith(k)))", short.join(", "));
    push(&mut spec["variables"], json!({"name": "similar", "expression": similar}));
    let meant =
        "(size(variables.similar) == 0 ? '' : '. Did you mean ' + variables.similar.join(' or ') + '?')";
    let rejection = format!("'annotation \"' + variables.unknown.join('\", \"') + '\" {UNKNOWN}' + {meant}");
    push(
        &mut spec["validations"],
        json!({
            "expression": "size(variables.unknown) == 0", "messageExpression": rejection, "reason": "Invalid",
        }),
    );
    for (name, values) in KNOWN {
        let value = format!("object.metadata.annotations['{name}']");
        let Some(condition) = values.condition(&value) else { continue };
        push(
            &mut spec["validations"],
            json!({
                "expression": format!("!('{name}' in variables.changed) || {condition}"),
                "messageExpression":
                    format!("'annotation \"{name}\" cannot be \"' + {value} + '\": {}'", values.remedy()),
                "reason": "Invalid",
            }),
        );
    }
}

#[cfg(test)]
mod tests {
    use olm_api::names::{
        APPROVED_PLAN_ANNOTATION, DELETION_GUARD_ANNOTATION, DELETION_POLICY_ANNOTATION, IDENTITY_ANNOTATION,
        OWNER_KIND_LABEL, OWNER_NAME_LABEL, PROPERTIES_ANNOTATION, REQUIRED_BY_ANNOTATION,
        REVISION_OF_ANNOTATION, SERVICE_ACCOUNT_NAME_ANNOTATION, SERVICE_ACCOUNT_NAMESPACE_ANNOTATION,
        SERVICE_ACCOUNT_UID_ANNOTATION, TAKEN_OVER_ANNOTATION,
    };

    use super::*;
    use crate::cluster_extension::observe::identity::FROM_DEFAULT;

    #[test]
    fn no_expression_asks_for_more_rights_than_its_budget_allows() {
        for object in objects("sys").unwrap().iter().filter(|o| o["kind"] == "ValidatingAdmissionPolicy") {
            for validation in object["spec"]["validations"].as_array().unwrap() {
                let checks = validation["expression"].as_str().unwrap().matches(".check(").count();
                assert!(checks <= 2, "{validation}");
            }
        }
    }

    #[test]
    fn every_policy_is_bound_and_lets_deletions_pass() {
        let objects = objects("sys").unwrap();
        assert_eq!(objects.len(), 1 + 2 * NAMES.len());
        for name in NAMES {
            let named =
                |kind: &str| objects.iter().find(|o| o["kind"] == kind && o["metadata"]["name"] == name);
            let policy = named("ValidatingAdmissionPolicy").unwrap();
            // No set that is being deleted turns into a revision; finalizers claim nothing.
            if name != OBJECT_SET_OWNER {
                assert_eq!(policy["spec"]["matchConditions"][0]["name"], "not-being-deleted");
            }
            assert_eq!(named("ValidatingAdmissionPolicyBinding").unwrap()["spec"]["policyName"], name);
        }
    }

    #[test]
    fn annotations_labels_and_settings_have_the_names_of_the_code() {
        let mut text = POLICIES.to_owned();
        // A name that another begins with comes after it.
        let names = [
            APPROVED_PLAN_ANNOTATION,
            IDENTITY_ANNOTATION,
            REQUIRED_BY_ANNOTATION,
            TAKEN_OVER_ANNOTATION,
            SERVICE_ACCOUNT_NAMESPACE_ANNOTATION,
            SERVICE_ACCOUNT_NAME_ANNOTATION,
            SERVICE_ACCOUNT_UID_ANNOTATION,
            REVISION_OF_ANNOTATION,
            OWNER_KIND_LABEL,
            OWNER_NAME_LABEL,
            DELETION_POLICY_ANNOTATION,
            DELETION_GUARD_ANNOTATION,
            PROPERTIES_ANNOTATION,
        ];
        for name in names {
            assert!(text.contains(&format!("'{name}'")), "{name}");
            text = text.replace(name, "");
        }
        for wanted in [DEFAULT_ACCOUNT_KEY, FROM_DEFAULT] {
            assert!(text.contains(&format!("'{wanted}'")), "{wanted}");
        }
        for prefix in ["'extensions.olm.operatorframework.io/'", "'olm.operatorframework.io/'"] {
            text = text.replace(prefix, "");
        }
        assert!(!text.contains("olm.operatorframework.io/"), "a name that the code does not have");
    }
}
