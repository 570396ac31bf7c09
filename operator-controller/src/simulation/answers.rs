//! The answers of a simulation's API server, and what other controllers write at once.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};

/// Of a kind its plural, its name, and whether it lives in namespaces.
type Kind<'a> = (&'a str, &'a str, bool);

/// The kinds of each group and version.
const SERVED: [(&str, &[Kind<'static>]); 4] = [
    (
        "v1",
        &[
            ("configmaps", "ConfigMap", true),
            ("secrets", "Secret", true),
            ("serviceaccounts", "ServiceAccount", true),
        ],
    ),
    ("apps/v1", &[("deployments", "Deployment", true)]),
    (
        "rbac.authorization.k8s.io/v1",
        &[
            ("roles", "Role", true),
            ("rolebindings", "RoleBinding", true),
            ("clusterroles", "ClusterRole", false),
            ("clusterrolebindings", "ClusterRoleBinding", false),
        ],
    ),
    ("apiextensions.k8s.io/v1", &[("customresourcedefinitions", "CustomResourceDefinition", false)]),
];

pub(super) fn refusal(code: u16, reason: &str) -> (u16, Value) {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": reason, "reason": reason, "code": code,
    });
    (code, status)
}

/// The kinds of a group and version, which is `group/version`, or `version` alone, with those of `crds`.
pub(super) fn resources<'a>(group_version: &str, crds: impl Iterator<Item = &'a Value>) -> (u16, Value) {
    let of_crds = crds.flat_map(|crd| {
        let spec = &crd["spec"];
        let text = |pointer: &str| spec.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (plural, kind) = (text("/names/plural"), text("/names/kind"));
        let versions = spec["versions"].as_array().into_iter().flatten();
        let is_asked = move |version: &&Value| {
            version["name"].as_str().is_some_and(|name| format!("{}/{name}", text("/group")) == group_version)
        };
        versions.filter(is_asked).map(move |_| (plural, kind, text("/scope") == "Namespaced"))
    });
    let builtin = SERVED.iter().filter(|(served, _)| *served == group_version);
    let kinds: Vec<Kind<'_>> = builtin.flat_map(|(_, kinds)| kinds.iter().copied()).chain(of_crds).collect();
    if kinds.is_empty() {
        return refusal(404, "NotFound");
    }
    let verbs = ["create", "delete", "get", "list", "patch", "update", "watch"];
    let resources: Vec<Value> = kinds
        .iter()
        .map(|(name, kind, namespaced)| {
            json!({
                "name": name, "singularName": "", "namespaced": namespaced, "kind": kind, "verbs": verbs,
            })
        })
        .collect();
    let list = json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources,
    });
    (200, list)
}

pub(super) fn version() -> Value {
    json!({
        "major": "1", "minor": "36", "gitVersion": "v1.36.0", "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "", "goVersion": "", "compiler": "", "platform": "",
    })
}

/// A token, which names the UID of its ServiceAccount.
pub(super) fn token() -> Value {
    let claims = json!({"kubernetes.io": {"serviceaccount": {"uid": "account"}}});
    json!({
        "kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "metadata": {},
        "spec": {"audiences": [], "expirationSeconds": 3600},
        "status": {"token": format!("e30.{}.sig", URL_SAFE_NO_PAD.encode(claims.to_string())),
                   "expirationTimestamp": "1970-01-01T01:00:00Z"},
    })
}

/// A ServiceAccount may do everything, or nothing.
pub(super) fn rules(granted: bool) -> Value {
    let all = json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]});
    let urls = json!({"nonResourceURLs": ["*"], "verbs": ["*"]});
    let (resources, urls) = if granted { (vec![all], vec![urls]) } else { (Vec::new(), Vec::new()) };
    json!({
        "kind": "SelfSubjectRulesReview", "apiVersion": "authorization.k8s.io/v1", "metadata": {}, "spec": {},
        "status": {"resourceRules": resources, "nonResourceRules": urls, "incomplete": false},
    })
}

/// The answer to a ServiceAccount without permissions.
pub(super) fn forbidden(resource: &str, name: &str) -> (u16, Value) {
    let (code, mut status) = refusal(403, "Forbidden");
    status["message"] = format!("{resource} {name:?} is forbidden: User \"installer\" cannot do this").into();
    (code, status)
}

/// The status that controllers of the cluster give an object: a Deployment has rolled out, a CRD is served.
pub(super) fn cluster_status(resource: &str, object: &Value) -> Option<Value> {
    let condition = |kind: &str| json!({"type": kind, "status": "True", "reason": kind, "message": ""});
    match resource {
        "deployments" => {
            let replicas = &object["spec"]["replicas"];
            Some(json!({
                "observedGeneration": object["metadata"]["generation"], "replicas": replicas,
                "updatedReplicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas,
                "conditions": [condition("Available")],
            }))
        }
        "customresourcedefinitions" => Some(json!({
            "acceptedNames": object["spec"]["names"], "storedVersions": ["v1"],
            "conditions": [condition("NamesAccepted"), condition("Established")],
        })),
        _ => None,
    }
}
