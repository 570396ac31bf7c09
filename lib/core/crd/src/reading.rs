//! How a stored object is read under another definition.
//!
//! An object is read with the defaults of the definition that is served. Whether a value that equals the default is stored
//! cannot be seen: where the default changes, such a value may change with it.

use serde_json::Value;

use crate::{
    Schema, Validation,
    limits::{DEFAULTS_MAX, DROPPED_MAX},
    schema::{Additional, Node},
    validate::{prune, validation::Path},
};

/// The fields of an object, read under `old`, that may have another value when it is read under `new`. Values of fields
/// that only the new schema describes are additions, and no change.
pub(crate) fn changed(old: &Schema, new: &Schema, object: &Value) -> Vec<String> {
    // Too many defaults are noted by the validation.
    let read = |schema: &Schema| schema.completed(object, &mut Validation::default());
    let mut found = Vec::new();
    if let (Some(before), Some(after)) = (read(old), read(new)) {
        let sides = Sides { old: Some(&old.root), new: Some(&new.root) };
        compare(&before, &after, sides, &mut Path::default(), &mut found);
    }
    found
}

/// The schemas of a value.
#[derive(Clone, Copy)]
struct Sides<'s> {
    old: Option<&'s Node>,
    new: Option<&'s Node>,
}

impl<'s> Sides<'s> {
    fn each(self, below: impl Fn(&'s Node) -> Option<&'s Node>) -> Self {
        Self { old: self.old.and_then(&below), new: self.new.and_then(&below) }
    }

    /// Whether the old schema lets users have a field of that name.
    fn knew(self, name: &str) -> bool {
        self.old.is_some_and(|old| {
            old.child(name).is_some()
                || old.preserve_unknown
                || matches!(old.additional, Additional::Anything)
        })
    }

    /// Whether the value may be the old default, which the new schema does not have.
    fn may_be_default(self, value: &Value) -> bool {
        let Some((old, default)) = self.old.and_then(|old| Some((old, old.default.as_ref()?))) else {
            return false;
        };
        if self.new.and_then(|new| new.default.as_ref()) == Some(default) {
            return false;
        }
        let mut whole = default.clone();
        let mut left = DEFAULTS_MAX;
        prune::add_defaults(&mut whole, old, &mut left).is_err() || whole == *value
    }
}

fn compare(before: &Value, after: &Value, sides: Sides<'_>, path: &mut Path, found: &mut Vec<String>) {
    if found.len() >= DROPPED_MAX {
        return;
    }
    if sides.may_be_default(before) {
        found.push(path.as_str().to_owned());
        return;
    }
    match (before, after) {
        (Value::Object(old), Value::Object(new)) => {
            for (name, before) in old {
                path.field(name, |path| match new.get(name) {
                    Some(after) => compare(before, after, sides.each(|node| node.child(name)), path, found),
                    None => found.push(path.as_str().to_owned()),
                });
            }
            for name in new.keys().filter(|name| !old.contains_key(*name) && sides.knew(name)) {
                path.field(name, |path| found.push(path.as_str().to_owned()));
            }
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            for (index, (before, after)) in old.iter().zip(new).enumerate() {
                let below = sides.each(|node| node.items.as_deref());
                path.element(index, |path| compare(before, after, below, path, found));
            }
        }
        (before, after) if before != after => found.push(path.as_str().to_owned()),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::changed;
    use crate::Schema;

    fn schema(size: &Value) -> Schema {
        let spec = json!({"type": "object", "properties": {"size": size}});
        Schema::read(
            &json!({"metadata": {"name": "a.b"}, "spec": {"versions": [{
                "name": "v1", "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
            }]}}),
            "v1",
        )
        .unwrap()
    }

    #[test]
    fn values_that_may_come_from_a_changed_default_are_found() {
        let integer = |default: Option<u8>| {
            let mut schema = json!({"type": "integer"});
            if let Some(default) = default {
                schema["default"] = default.into();
            }
            self::schema(&schema)
        };
        let object = |size: u8| json!({"spec": {"size": size}});
        let (none, one, two) = (integer(None), integer(Some(1)), integer(Some(2)));
        for (old, new, object, wanted) in [
            (&one, &two, object(1), &["spec.size"][..]),
            (&one, &none, object(1), &["spec.size"]),
            (&one, &two, object(3), &[]),
            (&one, &one, object(1), &[]),
            (&none, &one, object(1), &[]),
            (&none, &one, json!({"spec": {}}), &["spec.size"]),
            (&none, &one, json!({}), &[]),
        ] {
            assert_eq!(changed(old, new, &object), wanted, "{object}");
        }
    }

    #[test]
    fn nulls_that_are_no_longer_allowed_are_found_and_new_fields_are_not() {
        let (old, new) = (
            schema(&json!({"type": "object", "nullable": true, "properties": {"a": {"type": "string"}}})),
            schema(&json!({"type": "object", "properties": {
                "a": {"type": "string"}, "b": {"type": "string", "default": "x"}}})),
        );
        assert_eq!(changed(&old, &new, &json!({"spec": {"size": null}})), ["spec.size"]);
        assert_eq!(changed(&old, &new, &json!({"spec": {"size": {"a": "y"}}})), [""; 0]);
        let free = schema(&json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}));
        assert_eq!(changed(&free, &new, &json!({"spec": {"size": {"a": "y"}}})), ["spec.size.b"]);
    }
}
