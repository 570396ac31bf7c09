//! Warnings at admission: policies that refuse nothing and say something.

use serde_json::{Value, json};

const NAME: &str = "clusterextension-self-certified";

/// What is said to who leaves the catalog's upgrade paths. Every change of the spec says it again, because each
/// may be the one that loses data.
const SELF_CERTIFIED: &str = "spec.source.catalog.upgradeConstraintPolicy is SelfCertified: upgrades and downgrades that the author of the package does not provide for may lose data. Make sure that going to this version is safe, and that there is a backup, before you rely on it.";

/// The policy and its binding.
pub(crate) fn objects() -> Vec<Value> {
    vec![
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": NAME},
            "spec": {
                "failurePolicy": "Ignore",
                "matchConstraints": {"resourceRules": [{
                    "apiGroups": ["olm.operatorframework.io"],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE", "UPDATE"],
                    "resources": ["clusterextensions"],
                }]},
                "matchConditions": [{
                    "name": "spec-changes",
                    "expression": "oldObject == null || object.spec != oldObject.spec",
                }],
                "validations": [{
                    "expression": "!has(object.spec.source.catalog) || !has(object.spec.source.catalog.upgradeConstraintPolicy) || object.spec.source.catalog.upgradeConstraintPolicy != 'SelfCertified'",
                    "message": SELF_CERTIFIED,
                }],
            },
        }),
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": NAME},
            "spec": {"policyName": NAME, "validationActions": ["Warn"]},
        }),
    ]
}
