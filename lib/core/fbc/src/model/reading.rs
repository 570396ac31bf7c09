//! Documents read as Go's JSON package reads them: keys in any case, of which the last counts, unknown ones ignored.
//! Published catalogs have nulls, because opm writes them.

use std::fmt;

use olm_go::field::names;
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, Error, IgnoredAny, MapAccess, Visitor},
};
use serde_json::Value;

use super::{
    Bundle, Channel, ChannelEntry, Deprecation, DeprecationEntry, Package, PackageReference, Property,
};

/// Finds the field that a key names, without keeping the key.
struct FieldOf(&'static [&'static str]);

impl<'de> DeserializeSeed<'de> for FieldOf {
    type Value = Option<&'static str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl Visitor<'_> for FieldOf {
    type Value = Option<&'static str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Self::Value, E> {
        Ok(self.0.iter().copied().find(|field| names(key, field)))
    }
}

/// The effect of null on a field.
trait AssignNull {
    /// Leaves texts and structures as they are.
    fn assign_null(&mut self) {}
}

impl AssignNull for String {}
impl AssignNull for PackageReference {}

impl<T> AssignNull for Vec<T> {
    fn assign_null(&mut self) {
        self.clear();
    }
}

impl AssignNull for Value {
    fn assign_null(&mut self) {
        *self = Self::Null;
    }
}

macro_rules! read_as_go_does {
    ($($name:ident { $($key:literal => $field:ident),+ })+) => {$(
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Members;

                impl<'de> Visitor<'de> for Members {
                    type Value = $name;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str(concat!("struct ", stringify!($name)))
                    }

                    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
                        Ok($name::default())
                    }

                    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                        let mut read = $name::default();
                        while let Some(field) = map.next_key_seed(FieldOf(&[$($key),+]))? {
                            match field {
                                $(Some($key) => match map.next_value::<Option<_>>()? {
                                    Some(value) => read.$field = value,
                                    None => read.$field.assign_null(),
                                },)+
                                _ => {
                                    map.next_value::<IgnoredAny>()?;
                                }
                            }
                        }
                        Ok(read)
                    }
                }

                deserializer.deserialize_any(Members)
            }
        }
    )+};
}

read_as_go_does! {
    Package { "name" => name, "defaultChannel" => default_channel }
    Channel { "name" => name, "package" => package, "entries" => entries }
    ChannelEntry { "name" => name, "replaces" => replaces, "skips" => skips, "skipRange" => skip_range }
    Bundle { "name" => name, "package" => package, "image" => image, "properties" => properties }
    Property { "type" => kind, "value" => value }
    Deprecation { "package" => package, "entries" => entries }
    DeprecationEntry { "reference" => reference, "message" => message }
    PackageReference { "schema" => schema, "name" => name }
}

#[cfg(test)]
mod tests {
    use crate::PackageContent;

    fn read(documents: &[&str]) -> PackageContent {
        let mut content = PackageContent::default();
        for document in documents {
            content.push_json(document.as_bytes()).expect(document);
        }
        content
    }

    #[test]
    fn nulls_are_as_if_absent_and_keys_may_have_any_case() {
        let plain = read(&[
            r#"{"schema":"olm.package","name":"p"}"#,
            r#"{"schema":"olm.channel","package":"p","name":"c","entries":[{"name":"b"},{}]}"#,
            r#"{"schema":"olm.channel","package":"p","name":"d"}"#,
            r#"{"schema":"olm.bundle","package":"p","name":"b","properties":[{"type":"t","value":{"Name":1}}]}"#,
            r#"{"schema":"olm.deprecations","package":"p","entries":[{"reference":{"schema":"olm.package"},"message":"m"}]}"#,
        ]);
        let odd = read(&[
            r#"{"schema":"olm.package","Name":"p","defaultChannel":null,"icon":{"x":[]}}"#,
            r#"{"schema":"olm.channel","PACKAGE":"p","name":"c","Entries":[{"NAME":"b","replaces":null,"skips":null,"skipRange":null},null]}"#,
            r#"{"schema":"olm.channel","package":"p","name":"d","entries":null}"#,
            r#"{"schema":"olm.bundle","package":"p","name":"b","image":null,"Properties":[{"Type":"t","VALUE":{"Name":1}}]}"#,
            r#"{"schema":"olm.deprecations","package":"p","entries":[{"Reference":{"Schema":"olm.package","name":null},"Message":"m"}]}"#,
        ]);
        assert_eq!(plain, odd);
        let bundle = read(&[r#"{"schema":"olm.bundle","properties":null}"#]);
        assert_eq!(bundle.bundles.len(), 1);
    }

    #[test]
    fn other_types_are_refused() {
        for document in [
            r#"{"schema":"olm.channel","entries":{}}"#,
            r#"{"schema":"olm.channel","entries":[7]}"#,
            r#"{"schema":"olm.bundle","image":1}"#,
            r#"{"schema":"olm.package","name":["p"]}"#,
        ] {
            assert!(PackageContent::default().push_json(document.as_bytes()).is_err(), "{document}");
        }
    }
}
