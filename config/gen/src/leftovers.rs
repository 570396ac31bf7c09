//! What upstream leaves behind, by upstream's names, emptied: `kubectl apply` takes nothing away.
//!
//! Each object is written so that it takes effect over upstream's no matter who applied that, and whether ours is applied
//! on the client's or on the server's side. An empty list of webhooks, for instance, leaves upstream's entry in
//! place unless the same manager wrote it; an entry with other rules is taken over.

use serde_json::{Value, json};

use crate::{
    pods::CATALOGD,
    rbac::{ACCOUNT, NAMESPACE, RBAC},
};

/// Where upstream and this product run in one way or the other.
pub(crate) fn objects() -> Vec<Value> {
    vec![
        webhook(),
        cluster_binding("operator-controller-cluster-admin-rolebinding", "cluster-admin"),
        cluster_binding("operator-controller-proxy-rolebinding", "operator-controller-proxy-role"),
        leader_election_binding(),
        warning_binding(),
    ]
}

/// catalogd as a Deployment of its own, where it is part of operator-controller.
pub(crate) fn catalogd() -> Value {
    explained(CATALOGD.deployment(0), "catalogs are served by operator-controller")
}

/// Upstream's webhook fails closed: without its server no ClusterCatalog can be written. The rules are for a resource
/// that nothing has; without any, each apply would be a change, because the API server stores an empty list as none.
fn webhook() -> Value {
    let object = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": {
            "name": "catalogd-mutating-webhook-configuration",
            "labels": {"app.kubernetes.io/name": "catalogd"},
        },
        "webhooks": [{
            "name": "inject-metadata-name.olm.operatorframework.io",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"service": {"name": "catalogd-service", "namespace": NAMESPACE}},
            "failurePolicy": "Ignore",
            "rules": [{
                "apiGroups": ["none.olm.operatorframework.io"],
                "apiVersions": ["*"],
                "operations": ["CREATE"],
                "resources": ["nothing"],
            }],
            "sideEffects": "None",
        }],
    });
    explained(object, "the label of catalogs is written by the controller; these rules fit nothing")
}

fn cluster_binding(name: &str, role: &str) -> Value {
    let object = json!({
        "apiVersion": RBAC, "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [],
    });
    explained(object, &format!("{ACCOUNT} only has the permissions of its own role"))
}

fn leader_election_binding() -> Value {
    let role = "operator-controller-leader-election-role";
    let object = json!({
        "apiVersion": RBAC, "kind": "RoleBinding",
        "metadata": {"name": "operator-controller-leader-election-rolebinding", "namespace": NAMESPACE},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role},
        "subjects": [],
    });
    explained(object, &format!("{ACCOUNT} only has the permissions of its own role"))
}

/// Upstream warns that `spec.serviceAccount` has no effect, which is not so here. A binding cannot be taken away by
/// applying, so it names a policy that does not exist.
fn warning_binding() -> Value {
    let object = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "clusterextension-serviceaccount-deprecated"},
        "spec": {"policyName": "none.olm.operatorframework.io", "validationActions": ["Warn"]},
    });
    explained(object, "spec.serviceAccount is honoured; the policy that this binding names does not exist")
}

fn explained(mut object: Value, why: &str) -> Value {
    object["metadata"]["annotations"]["olm.operatorframework.io/emptied"] = why.into();
    object
}
