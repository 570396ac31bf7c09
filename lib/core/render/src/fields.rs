//! Fields of objects.

use serde_json::{Map, Value};

/// The map at a path of fields, made where there is none; nothing if `object` is no map itself.
pub(crate) fn map_at<'v>(object: &'v mut Value, path: &[&str]) -> Option<&'v mut Map<String, Value>> {
    let Some((first, rest)) = path.split_first() else { return object.as_object_mut() };
    let below = object.as_object_mut()?.entry(*first).or_insert(Value::Null);
    if !below.is_object() {
        *below = Value::Object(Map::new());
    }
    map_at(below, rest)
}

/// A list field of a map, made if it is absent or null.
pub(crate) fn list<'v>(object: &'v mut Map<String, Value>, field: &str) -> Option<&'v mut Vec<Value>> {
    let list = object.entry(field).or_insert(Value::Null);
    if list.is_null() {
        *list = Value::Array(Vec::new());
    }
    list.as_array_mut()
}

/// The maps of a list field.
pub(crate) fn each<'v>(
    object: &'v mut Map<String, Value>,
    field: &str,
) -> impl Iterator<Item = &'v mut Map<String, Value>> {
    object.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut)
}
