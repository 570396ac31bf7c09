//! Fields of JSON objects, found as the decoder of `encoding/json` finds them.
//!
//! The decoder goes through the keys of a document in their order and assigns each to the field that it names,
//! whatever the key's case. So of several keys that name one field the last counts; a key in exactly the field's
//! spelling is not preferred. Null sets slices, maps and raw messages to nothing, and leaves texts, numbers and
//! structures as they are.
//!
//! Objects held as [`Map`] are sorted by key: their last key is the last in that order, as it is in documents that
//! upstream has decoded to a map and encoded again.

use serde_json::{Map, Value};

/// Whether a key names the field `name`, which is ASCII.
pub fn names(key: &str, name: &str) -> bool {
    if key.is_ascii() {
        return key.eq_ignore_ascii_case(name);
    }
    // The only characters beyond ASCII that fold to ASCII: a long s and the Kelvin sign.
    let folded = key.chars().map(|c| match c {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        c => c.to_ascii_lowercase(),
    });
    folded.eq(name.chars().map(|c| c.to_ascii_lowercase()))
}

/// The value of a field that null sets to nothing: slices, maps and raw messages. Null may be that value.
pub fn last<'m, V>(members: impl DoubleEndedIterator<Item = (&'m str, V)>, name: &str) -> Option<V> {
    members.rev().find(|(key, _)| names(key, name)).map(|(_, value)| value)
}

/// The fields of a value, none when it is no object. A field whose value has another type than asked for is as absent: who
/// must know the difference checks types before.
#[derive(Debug, Clone, Copy, Default)]
#[must_use]
pub struct Fields<'v>(Option<&'v Map<String, Value>>);

impl<'v> From<&'v Map<String, Value>> for Fields<'v> {
    fn from(object: &'v Map<String, Value>) -> Self {
        Self(Some(object))
    }
}

impl<'v> Fields<'v> {
    /// The fields of a value.
    pub fn of(value: &'v Value) -> Self {
        Self(value.as_object())
    }

    /// The raw value of a field, null included.
    pub fn raw(self, name: &str) -> Option<&'v Value> {
        last(self.0?.iter().map(|(key, value)| (key.as_str(), value)), name)
    }

    /// The value of a field that null leaves as it is: texts, numbers, flags and structures.
    pub fn scalar(self, name: &str) -> Option<&'v Value> {
        self.0?.iter().rev().find(|(key, value)| !value.is_null() && names(key, name)).map(|(_, value)| value)
    }

    /// The text of a field; empty when it has none.
    pub fn text(self, name: &str) -> &'v str {
        self.scalar(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// The fields of a structure.
    pub fn object(self, name: &str) -> Self {
        self.scalar(name).map_or(Self::default(), Self::of)
    }

    /// The elements of a list; none when it has none.
    pub fn list(self, name: &str) -> &'v [Value] {
        self.raw(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    /// The fields of each element of a list.
    pub fn objects(self, name: &str) -> impl Iterator<Item = Self> + use<'v> {
        self.list(name).iter().map(Self::of)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn of_several_keys_the_last_counts_and_none_is_preferred() {
        for (document, wanted) in [
            (json!({"defaultChannel": "a"}), "a"),
            (json!({"DefaultChannel": "a", "defaultChannel": "b"}), "b"),
            (json!({"defaultChannel": "a", "defaultchannel": "b"}), "b"),
            (json!({"DefaultChannel": "a", "defaultChannel": null}), "a"),
            (json!({"DEFAULTCHANNEL": 7}), ""),
            (json!({"defaultChannel2": "a"}), ""),
        ] {
            assert_eq!(Fields::of(&document).text("defaultChannel"), wanted, "{document}");
        }
    }

    #[test]
    fn null_empties_lists() {
        let document = json!({"Entries": [1], "entries": null});
        assert!(Fields::of(&document).list("entries").is_empty());
        assert_eq!(Fields::of(&document).raw("entries"), Some(&Value::Null));
        let document = json!({"Entries": null, "entries": [1]});
        assert_eq!(Fields::of(&document).objects("entries").count(), 1);
    }

    #[test]
    fn keys_fold_one_character_to_one() {
        assert!(names("replace\u{17f}", "replaces") && names("S\u{212a}IPS", "skips"));
        assert!(!names("addre\u{df}", "address") && !names("skip\u{e4}", "skips"));
    }
}
