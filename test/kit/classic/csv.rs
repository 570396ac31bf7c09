//! ClusterServiceVersions without a bundle.

use crate::prelude::*;

/// A ClusterServiceVersion that supports every install mode and has no Deployments; `fields` of its spec replace those.
pub fn csv(name: &str, fields: &Value) -> Value {
    let modes = ["OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"];
    let mut spec = json!({
        "displayName": name,
        "installModes": modes.map(|mode| json!({"type": mode, "supported": true})),
        "install": strategy(&[], &json!([])),
    });
    for (key, value) in fields.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": name}, "spec": spec,
    })
}

/// `spec.install` with Deployments and permissions.
pub fn strategy(deployments: &[Value], permissions: &Value) -> Value {
    let spec = json!({"deployments": deployments, "permissions": permissions});
    json!({"strategy": "deployment", "spec": spec})
}

/// A Deployment of a strategy.
pub fn deployment(name: &str, replicas: u32) -> Value {
    let labels = json!({"app": name});
    json!({"name": name, "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": "node.local/pause:1"}]},
    }}})
}
