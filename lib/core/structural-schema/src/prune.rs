//! What happens to an object before it is validated: unknown fields go, nulls go, defaults come.

use serde_json::{Map, Value};

use crate::{
    node::{Additional, Node},
    outcome::Path,
};

/// The fields that every object has, whatever its schema says.
const OF_RESOURCES: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Removes what the schema does not have; the paths of what went are added to `dropped`.
pub(crate) fn prune(value: &mut Value, node: Option<&Node>, path: &mut Path, dropped: &mut Vec<String>) {
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
                    Some(below) => prune(value, below, path, dropped),
                    None if keeps => return true,
                    None => dropped.push(path.as_str().to_owned()),
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
                        prune_kept(item, below, path, dropped);
                    } else {
                        prune(item, below, path, dropped);
                    }
                });
            }
        }
        _ => {}
    }
}

/// The elements of a list that keeps what is unknown keep it as well.
fn prune_kept(value: &mut Value, node: Option<&Node>, path: &mut Path, dropped: &mut Vec<String>) {
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
                path.field(name, |path| prune(value, below, path, dropped));
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                path.element(index, |path| prune_kept(item, node.items.as_deref(), path, dropped));
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

/// Fills in defaults.
pub(crate) fn fill_in(value: &mut Value, node: &Node) {
    match value {
        Value::Object(fields) => {
            for (name, property) in &node.properties {
                if let Some(default) = &property.default
                    && fields.get(name).is_none_or(|value| value.is_null() && !property.nullable)
                {
                    fields.insert(name.clone(), default.clone());
                }
            }
            fill_in_members(fields, node);
        }
        Value::Array(items) => {
            let Some(below) = node.items.as_deref() else { return };
            for item in items {
                if item.is_null() && !below.nullable {
                    *item = below.default.clone().unwrap_or_default();
                }
                fill_in(item, below);
            }
        }
        _ => {}
    }
}

fn fill_in_members(fields: &mut Map<String, Value>, node: &Node) {
    for (name, value) in fields.iter_mut() {
        if let Some(property) = node.properties.get(name) {
            fill_in(value, property);
        } else if let Additional::Schema(schema) = &node.additional {
            if value.is_null() && !schema.nullable {
                *value = schema.default.clone().unwrap_or_default();
            }
            fill_in(value, schema);
        }
    }
}

fn below<'a>(node: &'a Node, name: &str) -> Option<&'a Node> {
    match (node.properties.get(name), &node.additional) {
        (Some(property), _) => Some(property),
        (None, Additional::Schema(schema)) => Some(schema),
        _ => None,
    }
}
