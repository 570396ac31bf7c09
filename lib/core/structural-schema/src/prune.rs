//! What happens to an object before it is validated: unknown fields go, nulls go, defaults come.

use serde_json::{Map, Value};

use crate::{
    node::{Additional, Node},
    outcome::{Judgement, Path},
};

/// The fields that every object has, whatever its schema says.
const OF_RESOURCES: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Removes what the schema does not have; the paths of what went are noted in `found`.
pub(crate) fn prune(value: &mut Value, node: Option<&Node>, path: &mut Path, found: &mut Judgement) {
    let keeps = node.is_some_and(|node| node.preserve_unknown);
    match value {
        Value::Object(fields) => fields.retain(|name, value| {
            if node.is_some_and(|node| node.is_resource) && OF_RESOURCES.contains(&name.as_str()) {
                return true;
            }
            let below = node.and_then(|node| match (node.properties.get(name), &node.additional) {
                (Some(property), _) => Some(Some(property)),
                (None, Additional::Schema(schema)) => Some(Some(&**schema)),
                (None, Additional::Anything) => Some(None),
                (None, Additional::Nothing) => None,
            });
            path.field(name, |path| {
                match below {
                    Some(below) => prune(value, below, path, found),
                    None if keeps => return true,
                    None => found.drop_field(path.as_str()),
                }
                below.is_some()
            })
        }),
        Value::Array(items) => {
            let below = node.and_then(|node| node.items.as_deref());
            // Below a list of anything nothing is looked at.
            if keeps && below.is_none() {
                return;
            }
            for (index, item) in items.iter_mut().enumerate() {
                path.element(index, |path| {
                    if keeps {
                        prune_kept(item, below, path, found);
                    } else {
                        prune(item, below, path, found);
                    }
                });
            }
        }
        _ => {}
    }
}

/// The elements of a list that keeps what is unknown keep it as well.
fn prune_kept(value: &mut Value, node: Option<&Node>, path: &mut Path, found: &mut Judgement) {
    let Some(node) = node else { return };
    match value {
        Value::Object(fields) => {
            for (name, value) in fields.iter_mut() {
                if node.is_resource && OF_RESOURCES.contains(&name.as_str()) {
                    continue;
                }
                let below = match (node.properties.get(name), &node.additional) {
                    (Some(property), _) => Some(property),
                    (None, Additional::Schema(schema)) => Some(&**schema),
                    _ => continue,
                };
                path.field(name, |path| prune(value, below, path, found));
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                path.element(index, |path| prune_kept(item, node.items.as_deref(), path, found));
            }
        }
        _ => {}
    }
}

/// Removes nulls where they are not allowed and no default takes their place.
pub(crate) fn remove_nulls(value: &mut Value, node: Option<&Node>) {
    match value {
        Value::Object(fields) => fields.retain(|name, value| {
            let below = node.and_then(|node| below(node, name));
            let goes =
                value.is_null() && below.is_some_and(|below| !below.nullable && below.default.is_none());
            if !goes {
                remove_nulls(value, below);
            }
            !goes
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

/// The defaults have more values than may be added.
pub(crate) struct TooManyDefaults;

/// Fills in defaults, of which `left` values may be added.
pub(crate) fn fill_in(value: &mut Value, node: &Node, left: &mut usize) -> Result<(), TooManyDefaults> {
    match value {
        Value::Object(fields) => {
            for (name, property) in &node.properties {
                if let Some(default) = &property.default
                    && fields.get(name).is_none_or(|value| value.is_null() && !property.nullable)
                {
                    fields.insert(name.clone(), copy(default, left)?);
                }
            }
            fill_in_members(fields, node, left)?;
        }
        Value::Array(items) => {
            let Some(below) = node.items.as_deref() else { return Ok(()) };
            for item in items {
                if item.is_null() && !below.nullable {
                    *item = below
                        .default
                        .as_ref()
                        .map(|default| copy(default, left))
                        .transpose()?
                        .unwrap_or_default();
                }
                fill_in(item, below, left)?;
            }
        }
        _ => {}
    }
    Ok(())
}

fn fill_in_members(
    fields: &mut Map<String, Value>,
    node: &Node,
    left: &mut usize,
) -> Result<(), TooManyDefaults> {
    for (name, value) in fields.iter_mut() {
        if let Some(property) = node.properties.get(name) {
            fill_in(value, property, left)?;
        } else if let Additional::Schema(schema) = &node.additional {
            if value.is_null() && !schema.nullable {
                *value = schema
                    .default
                    .as_ref()
                    .map(|default| copy(default, left))
                    .transpose()?
                    .unwrap_or_default();
            }
            fill_in(value, schema, left)?;
        }
    }
    Ok(())
}

fn copy(default: &Value, left: &mut usize) -> Result<Value, TooManyDefaults> {
    *left = left.checked_sub(size(default)).ok_or(TooManyDefaults)?;
    Ok(default.clone())
}

/// The values in a value, of which long texts count as several.
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

fn below<'a>(node: &'a Node, name: &str) -> Option<&'a Node> {
    match (node.properties.get(name), &node.additional) {
        (Some(property), _) => Some(property),
        (None, Additional::Schema(schema)) => Some(schema),
        _ => None,
    }
}
