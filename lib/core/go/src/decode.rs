//! Structures read as `encoding/json` reads them: keys in any case, of which the last counts, unknown ones ignored, null as
//! [`crate::field`] has it.

use std::fmt;

#[doc(hidden)]
pub use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};

use serde::de::{DeserializeSeed, Error};
use serde_json::{Value, value::RawValue};

use crate::field::names;

/// Finds the field that a key names, without keeping the key.
#[derive(Debug)]
pub struct FieldOf(pub &'static [&'static str]);

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

/// A field that takes the next value of a map.
pub trait Field<'de> {
    /// Takes the value.
    ///
    /// # Errors
    /// It has another type.
    fn assign<A: MapAccess<'de>>(&mut self, map: &mut A) -> Result<(), A::Error>;
}

/// Null leaves texts and structures as they are.
#[macro_export]
macro_rules! left_by_null {
    ($($name:ty),+) => {$(
        impl<'de> $crate::decode::Field<'de> for $name {
            fn assign<A: $crate::decode::MapAccess<'de>>(&mut self, map: &mut A) -> Result<(), A::Error> {
                if let Some(value) = map.next_value()? {
                    *self = value;
                }
                Ok(())
            }
        }
    )+};
}
left_by_null!(String);

/// Null empties lists, and is the zero value of an element.
impl<'de, T: Deserialize<'de> + Default> Field<'de> for Vec<T> {
    fn assign<A: MapAccess<'de>>(&mut self, map: &mut A) -> Result<(), A::Error> {
        let elements = map.next_value::<Option<Vec<Option<T>>>>()?.unwrap_or_default();
        *self = elements.into_iter().map(Option::unwrap_or_default).collect();
        Ok(())
    }
}

impl<'de> Field<'de> for Value {
    fn assign<A: MapAccess<'de>>(&mut self, map: &mut A) -> Result<(), A::Error> {
        *self = map.next_value()?;
        Ok(())
    }
}

/// The text of a value, null included.
impl<'de> Field<'de> for Option<Box<RawValue>> {
    fn assign<A: MapAccess<'de>>(&mut self, map: &mut A) -> Result<(), A::Error> {
        *self = Some(map.next_value()?);
        Ok(())
    }
}

/// Implements `Deserialize` for structures whose fields are [`Field`]s: `Structure { "key" => field }`.
#[macro_export]
macro_rules! read_as_go_does {
    ($($name:ident { $($key:literal => $field:ident),+ })+) => {$(
        impl<'de> $crate::decode::Deserialize<'de> for $name {
            fn deserialize<D: $crate::decode::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Members;

                impl<'de> $crate::decode::Visitor<'de> for Members {
                    type Value = $name;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str(concat!("struct ", stringify!($name)))
                    }

                    fn visit_map<A: $crate::decode::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                        let mut read = $name::default();
                        while let Some(field) = map.next_key_seed($crate::decode::FieldOf(&[$($key),+]))? {
                            match field {
                                $(Some($key) => $crate::decode::Field::assign(&mut read.$field, &mut map)?,)+
                                _ => {
                                    map.next_value::<$crate::decode::IgnoredAny>()?;
                                }
                            }
                        }
                        Ok(read)
                    }
                }

                deserializer.deserialize_map(Members)
            }
        }
    )+};
}
