//! Roles for people and for scrapers of metrics. Nothing binds them here, except that the cluster's own roles
//! `view`, `edit` and `admin` take the first ones in.
//!
//! ClusterObjectSets may only be read: the controller writes them. Writing an extension also asks
//! for permission to use its ServiceAccount, which the admission policies check.

use serde_json::{Value, json};

use crate::rbac::RBAC;

const GROUP: &str = "olm.operatorframework.io";
/// The group of the kinds that go beyond upstream's.
const EXTENSIONS: &str = "extensions.olm.operatorframework.io";
const READ: [&str; 3] = ["get", "list", "watch"];
const WRITE: [&str; 8] = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// All of them.
pub(crate) fn objects() -> Vec<Value> {
    vec![
        role("operator-controller-clusterextension-viewer-role", "clusterextensions", &READ, &["view"]),
        // The cluster's `edit` may use accounts, which is what an extension asks for.
        role(
            "operator-controller-clusterextension-editor-role",
            "clusterextensions",
            &WRITE,
            &["edit", "admin"],
        ),
        // To read is what they are for; those who may not edit may be those who approve.
        role(
            "operator-controller-clusterextension-approver-role",
            "clusterextensions",
            &["approve", "get", "list", "patch", "watch"],
            &["admin"],
        ),
        of(
            EXTENSIONS,
            role("operator-controller-extensionplan-viewer-role", "extensionplans", &READ, &["view"]),
        ),
        of(
            EXTENSIONS,
            role("operator-controller-updatepolicy-viewer-role", "updatepolicies", &READ, &["view"]),
        ),
        // A policy decides about extensions of the whole cluster.
        of(
            EXTENSIONS,
            role("operator-controller-updatepolicy-editor-role", "updatepolicies", &WRITE, &["admin"]),
        ),
        role("operator-controller-clusterobjectset-viewer-role", "clusterobjectsets", &READ, &["view"]),
        role("catalogd-clustercatalog-viewer-role", "clustercatalogs", &READ, &["view"]),
        // A catalog decides what is installed in the whole cluster.
        role("catalogd-clustercatalog-editor-role", "clustercatalogs", &WRITE, &["admin"]),
        metrics_reader("operator-controller-metrics-reader"),
        metrics_reader("catalogd-metrics-reader"),
    ]
}

fn role(name: &str, resource: &str, verbs: &[&str], into: &[&str]) -> Value {
    let mut labels = json!({});
    for role in into {
        labels[format!("rbac.authorization.k8s.io/aggregate-to-{role}")] = json!("true");
    }
    json!({
        "apiVersion": RBAC, "kind": "ClusterRole",
        "metadata": {"name": name, "labels": labels},
        "rules": [{"apiGroups": [GROUP], "resources": [resource], "verbs": verbs}],
    })
}

/// The role, for resources of another group.
fn of(group: &str, mut role: Value) -> Value {
    role["rules"][0]["apiGroups"] = json!([group]);
    role
}

fn metrics_reader(name: &str) -> Value {
    json!({
        "apiVersion": RBAC, "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_writes_object_sets_and_catalogs_are_for_administrators() {
        for role in objects() {
            let name = role["metadata"]["name"].as_str().unwrap();
            let writes = role["rules"][0]["verbs"].as_array().unwrap().contains(&json!("update"));
            let labels = &role["metadata"]["labels"];
            match role["rules"][0]["resources"][0].as_str() {
                Some("clusterobjectsets" | "extensionplans") => assert!(!writes, "{name}"),
                Some("clustercatalogs" | "updatepolicies") if writes => {
                    assert_eq!(labels, &json!({"rbac.authorization.k8s.io/aggregate-to-admin": "true"}));
                }
                _ => {}
            }
        }
    }
}
