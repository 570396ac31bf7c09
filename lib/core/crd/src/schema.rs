//! Schemas of definitions: `JSONSchemaProps` of `apiextensions.k8s.io/v1`.
//!
//! [`MEMBERS`] and [`access`] are the only reader of their JSON. Changes are found in the JSON itself; to validate
//! objects it is read into a [`Node`].

pub(crate) mod access;
mod format;
mod node;

use std::sync::LazyLock;

use serde_json::{Map, Value};

pub(crate) use format::Format;
pub(crate) use node::{Additional, Kind as NodeKind, ListKind, Node, Pattern, Range, Rule};

use crate::{CrdError, limits::SCHEMA_DEPTH_MAX};

/// The members of a schema, as JSON.
pub(crate) type Members = Map<String, Value>;

/// The type of a member, in which absent and zero may be the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A string; empty means absent.
    Text,
    /// A string; empty is a value.
    TextPointer,
    /// A boolean; false means absent.
    Flag,
    /// A boolean; false is a value.
    FlagPointer,
    Float,
    Integer,
    /// Any JSON.
    Json,
    /// A list of any JSON.
    JsonList,
    TextList,
    Schema,
    SchemaList,
    /// Schemas by name.
    SchemaMap,
    SchemaOrFlag,
    SchemaOrList,
    /// Schemas or lists of names, by name.
    Dependencies,
    ExternalDocs,
    ValidationRules,
}

/// A member of a schema.
#[derive(Debug)]
pub(crate) struct Member {
    /// Its name in JSON.
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
}

const fn member(name: &'static str, kind: Kind) -> Member {
    Member { name, kind }
}

/// All members, in the order of the API's type, which is the order in texts.
pub(crate) static MEMBERS: &[Member] = &[
    member("id", Kind::Text),
    member("$schema", Kind::Text),
    member("$ref", Kind::TextPointer),
    member("description", Kind::Text),
    member("type", Kind::Text),
    member("format", Kind::Text),
    member("title", Kind::Text),
    member("default", Kind::Json),
    member("maximum", Kind::Float),
    member("exclusiveMaximum", Kind::Flag),
    member("minimum", Kind::Float),
    member("exclusiveMinimum", Kind::Flag),
    member("maxLength", Kind::Integer),
    member("minLength", Kind::Integer),
    member("pattern", Kind::Text),
    member("maxItems", Kind::Integer),
    member("minItems", Kind::Integer),
    member("uniqueItems", Kind::Flag),
    member("multipleOf", Kind::Float),
    member("enum", Kind::JsonList),
    member("maxProperties", Kind::Integer),
    member("minProperties", Kind::Integer),
    member("required", Kind::TextList),
    member("items", Kind::SchemaOrList),
    member("allOf", Kind::SchemaList),
    member("oneOf", Kind::SchemaList),
    member("anyOf", Kind::SchemaList),
    member("not", Kind::Schema),
    member("properties", Kind::SchemaMap),
    member("additionalProperties", Kind::SchemaOrFlag),
    member("patternProperties", Kind::SchemaMap),
    member("dependencies", Kind::Dependencies),
    member("additionalItems", Kind::SchemaOrFlag),
    member("definitions", Kind::SchemaMap),
    member("externalDocs", Kind::ExternalDocs),
    member("example", Kind::Json),
    member("nullable", Kind::Flag),
    member("x-kubernetes-preserve-unknown-fields", Kind::FlagPointer),
    member("x-kubernetes-embedded-resource", Kind::Flag),
    member("x-kubernetes-int-or-string", Kind::Flag),
    member("x-kubernetes-list-map-keys", Kind::TextList),
    member("x-kubernetes-list-type", Kind::TextPointer),
    member("x-kubernetes-map-type", Kind::TextPointer),
    member("x-kubernetes-validations", Kind::ValidationRules),
];

/// The members of a validation rule.
pub(crate) static RULE_MEMBERS: &[Member] = &[
    member("rule", Kind::Text),
    member("message", Kind::Text),
    member("messageExpression", Kind::Text),
    member("reason", Kind::TextPointer),
    member("fieldPath", Kind::Text),
    member("optionalOldSelf", Kind::FlagPointer),
];

/// The members of a reference to other documentation.
pub(crate) static DOCS_MEMBERS: &[Member] = &[member("description", Kind::Text), member("url", Kind::Text)];

/// The value of a member; `None` if the API treats it as absent.
pub(crate) fn value<'a>(schema: &'a Members, member: &Member) -> Option<&'a Value> {
    schema.get(member.name).filter(|value| !is_unset(value, member.kind))
}

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

/// A schema without members.
pub(crate) static EMPTY: LazyLock<Members> = LazyLock::new(Map::new);

/// A schema in a list or map of schemas, where null is one without members.
pub(crate) fn element(value: &Value) -> Option<&Members> {
    match value {
        Value::Null => Some(&EMPTY),
        _ => value.as_object(),
    }
}

/// Members that describe and do not constrain.
pub(crate) const ANNOTATIONS: [&str; 4] = ["description", "title", "example", "externalDocs"];

/// A member that has the wrong JSON type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Misfit {
    pub(crate) member: String,
    /// The type that the API prescribes, with an article.
    pub(crate) expected: &'static str,
}

impl Misfit {
    pub(crate) fn new(member: impl Into<String>, expected: &'static str) -> Self {
        Self { member: member.into(), expected }
    }
}

/// A schema that cannot be read, and where in the version's schema it is.
#[derive(Debug)]
pub(crate) struct SchemaFault {
    /// The path from the root, which is `^`.
    pub(crate) path: String,
    pub(crate) cause: FaultCause,
}

/// A reason why a schema cannot be read.
#[derive(Debug)]
pub(crate) enum FaultCause {
    Misfit(Misfit),
    /// The schema has a member that structural schemas must not have.
    NotStructural(&'static str),
    /// Schemas are nested deeper than [`SCHEMA_DEPTH_MAX`].
    TooDeep,
}

impl From<Misfit> for FaultCause {
    fn from(misfit: Misfit) -> Self {
        Self::Misfit(misfit)
    }
}

impl SchemaFault {
    /// The error about the schema of `version` in `definition`.
    pub(crate) fn of(self, definition: &str, version: &str) -> CrdError {
        let name = definition.to_owned();
        let Self { path, cause } = self;
        match cause {
            FaultCause::Misfit(Misfit { member, expected }) => {
                CrdError::Malformed { name, at: format!("{member} of {path} in version {version}"), expected }
            }
            FaultCause::NotStructural(member) => {
                CrdError::NotStructural { name, at: format!("{path} in version {version}"), member }
            }
            FaultCause::TooDeep => CrdError::TooLarge {
                name,
                at: format!("the schema of version {version}"),
                limit: SCHEMA_DEPTH_MAX,
                unit: "levels",
            },
        }
    }
}
