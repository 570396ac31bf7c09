//! Whether an object has the parts that a scenario writes down.

use serde_json::Value;

/// What stands for any value that is there.
const ANY: &str = "*";

/// What is missing in `found` of `wanted`, with its place; nothing if all is there. `null` wants a field to be absent;
/// items of lists may stand anywhere, and a text in a list of texts likewise.
pub(crate) fn missing(wanted: &Value, found: &Value) -> Option<String> {
    at("", wanted, Some(found))
}

fn at(place: &str, wanted: &Value, found: Option<&Value>) -> Option<String> {
    let Some(found) = found.filter(|found| !found.is_null()) else {
        return (!wanted.is_null()).then(|| format!("{place} is not there"));
    };
    match (wanted, found) {
        (Value::Null, _) => Some(format!("{place} is there: {found}")),
        (Value::String(text), _) if text == ANY => None,
        (Value::Object(fields), Value::Object(_)) => {
            fields.iter().find_map(|(name, wanted)| at(&format!("{place}/{name}"), wanted, found.get(name)))
        }
        (Value::Array(items), Value::Array(all)) => {
            let lacks = |item: &&Value| !all.iter().any(|one| at(place, item, Some(one)).is_none());
            items.iter().find(lacks).map(|item| format!("{place} has no item {item}: {found}"))
        }
        _ => (wanted != found).then(|| format!("{place} is {found}, not {wanted}")),
    }
}
