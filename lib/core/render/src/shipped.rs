//! Objects that the bundle ships beside CSV and CRDs: which kinds are allowed, and their namespace.
//!
//! Kinds are matched without their group, as operator-registry `pkg/lib/bundle/supported_resources.go` does.

use olm_object::{KNOWN_KINDS, KnownKind, Use, text};
use serde_json::{Map, Value};

use crate::render::Context;

/// The kind, if bundles may ship it.
pub(super) fn shipped_kind(kind: &str) -> Option<&'static KnownKind> {
    KNOWN_KINDS.iter().find(|known| known.kind == kind && matches!(known.used, Use::Shipped | Use::Manifest))
}

/// The shipped objects as they are, apart from the namespace of namespaced kinds.
pub(super) fn generate(others: Vec<Value>, context: &Context<'_>) -> Vec<Value> {
    others.into_iter().map(|object| in_namespace(object, context.install_namespace)).collect()
}

fn in_namespace(mut object: Value, namespace: &str) -> Value {
    if shipped_kind(text(&object, "/kind")).is_some_and(|known| known.namespaced)
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
