//! Changes of an object before it is validated: defaults are added, unknown fields and nulls removed.

use serde_json::{Map, Value};

use super::validation::{Path, Validation};
use crate::schema::{Additional, Node};

/// The fields that every object has, whatever its schema says.
const RESOURCE_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Removes fields that the schema does not have, and notes their paths. Those of a list that keeps unknown fields are
/// also `kept` in its elements.
pub(crate) fn prune(
    value: &mut Value,
    node: Option<&Node>,
    kept: bool,
    path: &mut Path,
    found: &mut Validation,
) {
    let keeps = kept || node.is_some_and(|node| node.preserve_unknown);
    let takes_anything = !kept && node.is_some_and(|node| matches!(node.additional, Additional::Anything));
    let is_resource = node.is_some_and(|node| node.is_resource);
    match value {
        Value::Object(fields) => fields.retain(|name, value| {
            if is_resource && RESOURCE_FIELDS.contains(&name.as_str()) {
                return true;
            }
            let below = node.and_then(|node| node.child(name));
            let is_known = below.is_some() || takes_anything;
            path.field(name, |path| {
                if is_known {
                    prune(value, below, false, path, found);
                } else if !keeps {
                    found.drop_field(path.as_str());
                }
            });
            is_known || keeps
        }),
        Value::Array(items) => {
            let below = node.and_then(|node| node.items.as_deref());
            // Below a list of anything nothing is pruned.
            if keeps && below.is_none() {
                return;
            }
            for (index, item) in items.iter_mut().enumerate() {
                path.element(index, |path| prune(item, below, keeps, path, found));
            }
        }
        _ => {}
    }
}

/// Removes nulls where they are not allowed and no default takes their place.
pub(crate) fn remove_nulls(value: &mut Value, node: Option<&Node>) {
    match value {
        Value::Object(fields) => fields.retain(|name, value| {
            let below = node.and_then(|node| node.child(name));
            let is_removed =
                value.is_null() && below.is_some_and(|below| !below.nullable && below.default.is_none());
            if !is_removed {
                remove_nulls(value, below);
            }
            !is_removed
        }),
        Value::Array(items) => {
            let below = node.and_then(|node| node.items.as_deref());
            for item in items {
                remove_nulls(item, below);
            }
        }
        _ => {}
    }
}

/// The defaults have too many values.
pub(crate) struct TooManyDefaults;

/// Adds defaults, of at most `left` values.
pub(crate) fn add_defaults(value: &mut Value, node: &Node, left: &mut usize) -> Result<(), TooManyDefaults> {
    match value {
        Value::Object(fields) => {
            for (name, property) in &node.properties {
                if let Some(default) = &property.default
                    && fields.get(name).is_none_or(|value| value.is_null() && !property.nullable)
                {
                    fields.insert(name.clone(), copy(default, left)?);
                }
            }
            add_defaults_below(fields, node, left)?;
        }
        Value::Array(items) => {
            let Some(below) = node.items.as_deref() else { return Ok(()) };
            for item in items {
                replace_null(item, below, left)?;
                add_defaults(item, below, left)?;
            }
        }
        _ => {}
    }
    Ok(())
}

fn add_defaults_below(
    fields: &mut Map<String, Value>,
    node: &Node,
    left: &mut usize,
) -> Result<(), TooManyDefaults> {
    for (name, value) in fields.iter_mut() {
        if let Some(property) = node.properties.get(name) {
            add_defaults(value, property, left)?;
        } else if let Additional::Schema(schema) = &node.additional {
            replace_null(value, schema, left)?;
            add_defaults(value, schema, left)?;
        }
    }
    Ok(())
}

/// Replaces a null that is not allowed with the default.
fn replace_null(value: &mut Value, node: &Node, left: &mut usize) -> Result<(), TooManyDefaults> {
    if let (Value::Null, false, Some(default)) = (&value, node.nullable, &node.default) {
        *value = copy(default, left)?;
    }
    Ok(())
}

fn copy(default: &Value, left: &mut usize) -> Result<Value, TooManyDefaults> {
    *left = left.checked_sub(size(default)).ok_or(TooManyDefaults)?;
    Ok(default.clone())
}

/// The number of values in a value; long texts count as several.
fn size(value: &Value) -> usize {
    const BYTES_OF_A_VALUE: usize = 64;
    1 + match value {
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| 1 + name.len() / BYTES_OF_A_VALUE + size(value)).sum()
        }
        Value::String(text) => text.len() / BYTES_OF_A_VALUE,
        _ => 0,
    }
}
