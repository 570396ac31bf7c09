//! Objects that the bundle ships beside CSV and CRDs: which kinds are allowed, and their namespace.
//!
//! Kinds are matched without their group, as upstream does. VerticalPodAutoscalers are namespaced here
//! (upstream counts them as cluster-scoped, so that they can't be applied).
//!
//! Source: operator-registry `pkg/lib/bundle/supported_resources.go`.

use serde_json::{Map, Value};

use super::Context;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    Namespaced,
    Cluster,
}

/// The kinds a bundle may ship.
static KINDS: &[(&str, Scope)] = &[
    ("ClusterRole", Scope::Cluster),
    ("ClusterRoleBinding", Scope::Cluster),
    ("ClusterServiceVersion", Scope::Namespaced),
    ("ConfigMap", Scope::Namespaced),
    ("ConsoleCLIDownload", Scope::Cluster),
    ("ConsoleLink", Scope::Cluster),
    ("ConsolePlugin", Scope::Cluster),
    ("ConsoleQuickStart", Scope::Cluster),
    ("ConsoleYAMLSample", Scope::Cluster),
    ("CustomResourceDefinition", Scope::Cluster),
    ("NetworkPolicy", Scope::Namespaced),
    ("PodDisruptionBudget", Scope::Namespaced),
    ("PodMonitor", Scope::Namespaced),
    ("PriorityClass", Scope::Cluster),
    ("PrometheusRule", Scope::Namespaced),
    ("Role", Scope::Namespaced),
    ("RoleBinding", Scope::Namespaced),
    ("Secret", Scope::Namespaced),
    ("Service", Scope::Namespaced),
    ("ServiceAccount", Scope::Namespaced),
    ("ServiceMonitor", Scope::Namespaced),
    ("VerticalPodAutoscaler", Scope::Namespaced),
];

/// The scope of a kind; `None` if bundles may not ship it.
pub(super) fn scope(kind: &str) -> Option<Scope> {
    KINDS.iter().find(|entry| entry.0 == kind).map(|entry| entry.1)
}

/// The shipped objects as they are, apart from the namespace of namespaced kinds.
pub(super) fn generate(others: Vec<Value>, context: &Context<'_>) -> Vec<Value> {
    others.into_iter().map(|object| placed(object, context.install_namespace)).collect()
}

fn placed(mut object: Value, namespace: &str) -> Value {
    if scope(text(&object, "/kind")) == Some(Scope::Namespaced)
        && let Some(map) = object.as_object_mut()
    {
        let metadata = map.entry("metadata").or_insert(Value::Null);
        if !metadata.is_object() {
            *metadata = Value::Object(Map::new());
        }
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.insert("namespace".to_owned(), namespace.into());
        }
    }
    object
}

/// The text at a JSON pointer; empty when there is none.
pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
