//! Schemas of definitions: `JSONSchemaProps` of `apiextensions.k8s.io/v1`.
//!
//! [`Reader`] is the only reader of their JSON. It gives them the form in which the API's types hold them, so that two
//! schemas are the same to the API exactly if they are equal. Changes are found in that form; to validate objects it is
//! made into a [`Node`].

mod format;
mod node;
mod read;

use serde_json::Value;

pub(crate) use format::Format;
pub(crate) use node::{Additional, Kind as NodeKind, ListKind, Node, Pattern, Range, Rule, not_structural};
pub(crate) use read::Reader;

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

impl Kind {
    /// The type of a schema's member; `None` if the API does not have it.
    pub(crate) fn of(member: &str) -> Option<Self> {
        Some(match member {
            "$schema" | "description" | "format" | "id" | "pattern" | "title" | "type" => Self::Text,
            "$ref" | "x-kubernetes-list-type" | "x-kubernetes-map-type" => Self::TextPointer,
            "exclusiveMaximum"
            | "exclusiveMinimum"
            | "nullable"
            | "uniqueItems"
            | "x-kubernetes-embedded-resource"
            | "x-kubernetes-int-or-string" => Self::Flag,
            "x-kubernetes-preserve-unknown-fields" => Self::FlagPointer,
            "maximum" | "minimum" | "multipleOf" => Self::Float,
            "maxItems" | "maxLength" | "maxProperties" | "minItems" | "minLength" | "minProperties" => {
                Self::Integer
            }
            "default" | "example" => Self::Json,
            "enum" => Self::JsonList,
            "required" | "x-kubernetes-list-map-keys" => Self::TextList,
            "not" => Self::Schema,
            "allOf" | "anyOf" | "oneOf" => Self::SchemaList,
            "definitions" | "patternProperties" | "properties" => Self::SchemaMap,
            "additionalItems" | "additionalProperties" => Self::SchemaOrFlag,
            "items" => Self::SchemaOrList,
            "dependencies" => Self::Dependencies,
            "externalDocs" => Self::ExternalDocs,
            "x-kubernetes-validations" => Self::ValidationRules,
            _ => return None,
        })
    }

    /// The type of a validation rule's member.
    fn of_rule(member: &str) -> Option<Self> {
        Some(match member {
            "rule" | "message" | "messageExpression" | "fieldPath" => Self::Text,
            "reason" => Self::TextPointer,
            "optionalOldSelf" => Self::FlagPointer,
            _ => return None,
        })
    }

    /// The type of a member of `externalDocs`.
    fn of_docs(member: &str) -> Option<Self> {
        matches!(member, "description" | "url").then_some(Self::Text)
    }

    /// Whether its values have schemas.
    pub(crate) fn has_schemas(self) -> bool {
        matches!(
            self,
            Self::Schema
                | Self::SchemaList
                | Self::SchemaMap
                | Self::SchemaOrFlag
                | Self::SchemaOrList
                | Self::Dependencies
        )
    }

    /// Its name with an article, for errors.
    fn as_str(self) -> &'static str {
        match self {
            Self::Text | Self::TextPointer => "a string",
            Self::Flag | Self::FlagPointer => "a boolean",
            Self::Float => "a number",
            Self::Integer => "an integer",
            Self::Json => "any JSON",
            Self::JsonList => "a list",
            Self::TextList => "a list of strings",
            Self::Schema => "a schema",
            Self::SchemaList => "a list of schemas",
            Self::SchemaMap | Self::Dependencies => "an object of schemas",
            Self::SchemaOrFlag => "a schema or a boolean",
            Self::SchemaOrList => "a schema or a list of schemas",
            Self::ExternalDocs => "an object",
            Self::ValidationRules => "a list of rules",
        }
    }
}

/// Members that describe and do not constrain.
pub(crate) const ANNOTATIONS: [&str; 4] = ["description", "title", "example", "externalDocs"];

/// Called with the path of a schema, the schema, and the one of another schema that has the same path.
pub(crate) type Visit<'v, 'a> = dyn FnMut(&str, &'a Value, Option<&'a Value>) + 'v;

/// Visits `schema` and all schemas within it, parents first, each with that of `other` at the same place.
///
/// Paths are named as by `FlattenCRDVersion` in crdify's pkg/validations/util.go. crdify has one
/// entry where two members have the same path (a property `items` beside an `items` schema), here each is visited.
pub(crate) fn visit<'a>(
    path: &mut String,
    schema: &'a Value,
    other: Option<&'a Value>,
    call: &mut Visit<'_, 'a>,
) {
    call(path, schema, other);
    for (member, value) in schema.as_object().into_iter().flatten() {
        let Some(kind) = Kind::of(member).filter(|kind| kind.has_schemas()) else { continue };
        let other = other.and_then(|other| other.get(member));
        let mut below = |step: &str, schema: &'a Value, other: Option<&'a Value>| {
            let length = path.len();
            path.push_str(step);
            visit(path, schema, other.filter(|other| other.is_object()), call);
            path.truncate(length);
        };
        match value {
            Value::Array(schemas) => {
                for (index, schema) in schemas.iter().enumerate() {
                    below(&element_step(member, index), schema, other.and_then(|other| other.get(index)));
                }
            }
            Value::Object(schemas) if matches!(kind, Kind::SchemaMap | Kind::Dependencies) => {
                for (name, schema) in schemas.iter().filter(|(_, schema)| schema.is_object()) {
                    below(&entry_step(member, name), schema, other.and_then(|other| other.get(name)));
                }
            }
            Value::Object(_) => below(&format!(".{member}"), value, other),
            _ => {}
        }
    }
}

/// The step of a path to an element of a list of schemas.
fn element_step(member: &str, index: usize) -> String {
    format!(".{member}[{index}]")
}

/// The step of a path to a schema with a name.
fn entry_step(member: &str, name: &str) -> String {
    if member == "properties" { format!(".{name}") } else { format!(".{member}[{name}]") }
}
