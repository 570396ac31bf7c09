//! Objects that the bundle ships beside CSV and CRDs: which kinds are allowed, and their namespace.
//!
//! Kinds are matched without their group, as operator-registry `pkg/lib/bundle/supported_resources.go` does.

use olm_object::{KNOWN_KINDS, KnownKind, Use, text};
use serde_json::Value;

use crate::{fields::map_at, render::Context};

/// The kind, if bundles may ship it.
pub(super) fn shipped_kind(kind: &str) -> Option<&'static KnownKind> {
    KNOWN_KINDS.iter().find(|known| known.kind == kind && matches!(known.used, Use::Shipped | Use::Manifest))
}

/// The shipped objects as they are, apart from the namespace of namespaced kinds.
pub(super) fn generate(others: Vec<Value>, context: &Context<'_>) -> Vec<Value> {
    let in_namespace = |mut object: Value| {
        // Where metadata are null, upstream's setter fails, and its error is ignored.
        let has_place = object.get("metadata").is_none_or(Value::is_object);
        if has_place
            && shipped_kind(text(&object, "/kind")).is_some_and(|known| known.namespaced)
            && let Some(metadata) = map_at(&mut object, &["metadata"])
        {
            metadata.insert("namespace".to_owned(), context.install_namespace.into());
        }
        object
    };
    others.into_iter().map(in_namespace).collect()
}
