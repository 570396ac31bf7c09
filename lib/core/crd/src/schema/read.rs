//! Reads the JSON of schemas.

use serde_json::{Map, Value};

use super::{Kind, element_step, entry_step};
use crate::{CrdError, limits::SCHEMA_DEPTH_MAX};

/// Reads the schema of a version; on an error its path is that of the schema.
pub(crate) struct Reader<'a> {
    definition: &'a str,
    version: &'a str,
    path: String,
    depth: usize,
}

type Read<T> = Result<T, CrdError>;

impl<'a> Reader<'a> {
    pub(crate) fn new(definition: &'a str, version: &'a str) -> Self {
        Self { definition, version, path: "^".to_owned(), depth: 0 }
    }

    /// A schema in the API's form: without members that the API does not have and without those that equal absent
    /// ones, with numbers in their shortest form. Null is a schema without members.
    pub(crate) fn schema(&mut self, schema: &Value) -> Read<Value> {
        if self.depth == SCHEMA_DEPTH_MAX {
            return Err(CrdError::TooLarge {
                name: self.definition.to_owned(),
                at: format!("the schema of version {}", self.version),
                limit: SCHEMA_DEPTH_MAX,
                unit: "levels",
            });
        }
        self.depth += 1;
        let read = match schema {
            Value::Null => Value::Object(Map::new()),
            Value::Object(members) => self.members(members, Kind::of)?,
            _ => return Err(self.malformed("the schema", Kind::ExternalDocs)),
        };
        self.depth -= 1;
        Ok(read)
    }

    fn below(&mut self, step: &str, schema: &Value) -> Read<Value> {
        let length = self.path.len();
        self.path.push_str(step);
        let read = self.schema(schema)?;
        self.path.truncate(length);
        Ok(read)
    }

    fn members(&mut self, members: &Map<String, Value>, kind: fn(&str) -> Option<Kind>) -> Read<Value> {
        let mut read = Map::new();
        for (name, value) in members {
            if let Some(kind) = kind(name)
                && !is_unset(value, kind)
            {
                read.insert(name.clone(), self.member(name, kind, value)?);
            }
        }
        Ok(read.into())
    }

    fn member(&mut self, name: &str, kind: Kind, value: &Value) -> Read<Value> {
        Ok(match (kind, value) {
            (Kind::Text | Kind::TextPointer, Value::String(_))
            | (Kind::Flag | Kind::FlagPointer | Kind::SchemaOrFlag, Value::Bool(_)) => value.clone(),
            (Kind::Float, Value::Number(_)) | (Kind::Json, _) | (Kind::JsonList, Value::Array(_)) => {
                shortest(value)
            }
            (Kind::Integer, Value::Number(_)) if shortest(value).is_i64() => shortest(value),
            (Kind::TextList, Value::Array(texts)) if texts.iter().all(Value::is_string) => value.clone(),
            (Kind::Schema | Kind::SchemaOrFlag | Kind::SchemaOrList, Value::Object(_)) => {
                self.below(&format!(".{name}"), value)?
            }
            (Kind::SchemaList | Kind::SchemaOrList, Value::Array(schemas)) => {
                let schemas = schemas.iter().enumerate();
                schemas
                    .map(|(index, schema)| self.below(&element_step(name, index), schema))
                    .collect::<Read<_>>()?
            }
            (Kind::SchemaMap | Kind::Dependencies, Value::Object(schemas)) => {
                let mut read = Map::new();
                for (key, schema) in schemas {
                    let is_list_of_names = kind == Kind::Dependencies && schema.is_array();
                    let schema = if is_list_of_names {
                        schema.clone()
                    } else {
                        self.below(&entry_step(name, key), schema)?
                    };
                    read.insert(key.clone(), schema);
                }
                read.into()
            }
            (Kind::ExternalDocs, Value::Object(members)) => self.members(members, Kind::of_docs)?,
            (Kind::ValidationRules, Value::Array(rules)) => {
                let members = |rule: &Value| match rule {
                    Value::Object(members) => self.members(members, Kind::of_rule),
                    _ => Err(self.malformed(name, kind)),
                };
                rules.iter().map(members).collect::<Read<_>>()?
            }
            _ => return Err(self.malformed(name, kind)),
        })
    }

    fn malformed(&self, member: &str, kind: Kind) -> CrdError {
        CrdError::Malformed {
            name: self.definition.to_owned(),
            at: format!("{member} of {} in version {}", self.path, self.version),
            expected: kind.as_str(),
        }
    }
}

/// Whether the API treats the value of a member as absent.
fn is_unset(value: &Value, kind: Kind) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => kind == Kind::Flag && !flag,
        Value::String(text) => kind == Kind::Text && text.is_empty(),
        Value::Array(list) => {
            let is_list =
                matches!(kind, Kind::JsonList | Kind::TextList | Kind::SchemaList | Kind::ValidationRules);
            is_list && list.is_empty()
        }
        Value::Object(map) => matches!(kind, Kind::SchemaMap | Kind::Dependencies) && map.is_empty(),
        Value::Number(_) => false,
    }
}

/// The value with its numbers as Go writes them, whole ones without a fraction.
fn shortest(value: &Value) -> Value {
    match value {
        Value::Number(_) => {
            olm_go::json::marshal(value).parse().map_or_else(|_| value.clone(), Value::Number)
        }
        Value::Array(items) => items.iter().map(shortest).collect(),
        Value::Object(fields) => {
            Value::Object(fields.iter().map(|(name, value)| (name.clone(), shortest(value))).collect())
        }
        _ => value.clone(),
    }
}
