//! The one rule by which the fields of a document are found: the case of a key means nothing, and of several keys that
//! mean one field the last that is not null counts, as Go's decoder has it. In a canonical line keys are sorted, so
//! the last is the last of those.

use serde_json::{Map, Value};

use crate::envelope::fold;

/// Whether a key means the field `name`, which is ASCII.
pub fn means(key: &str, name: &str) -> bool {
    key.eq_ignore_ascii_case(name) || (!key.is_ascii() && fold(key) == fold(name))
}

/// The last value of a field that is not null, or else null.
pub fn find<'m, V>(
    members: impl DoubleEndedIterator<Item = (&'m str, V)>,
    name: &str,
    is_null: impl Fn(&V) -> bool,
) -> Option<V> {
    let mut null = None;
    for (_, value) in members.rev().filter(|(key, _)| means(key, name)) {
        if !is_null(&value) {
            return Some(value);
        }
        null = null.or(Some(value));
    }
    null
}

/// The value of a field, null where it is nothing else.
pub fn field_or_null<'v>(object: &'v Map<String, Value>, name: &str) -> Option<&'v Value> {
    find(object.iter().map(|(key, value)| (key.as_str(), value)), name, |value| value.is_null())
}

/// The value of a field. Null counts as absent.
pub fn field<'v>(object: &'v Map<String, Value>, name: &str) -> Option<&'v Value> {
    field_or_null(object, name).filter(|value| !value.is_null())
}
