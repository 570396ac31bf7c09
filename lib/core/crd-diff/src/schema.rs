//! The members of a schema (`JSONSchemaProps` of `apiextensions.k8s.io/v1`) and when two are equal.
//!
//! Equal is what means the same to the API: an absent member equals its type's zero value, an empty
//! list or map equals none, numbers are compared as numbers, and members that the API does not have
//! do not count. This is the original's `Semantic.DeepEqual` on its decoded types.

use std::sync::LazyLock;

use serde_json::{Map, Value};

use crate::{error::Misfit, literal};

/// A schema, as JSON.
pub(crate) type Schema = Map<String, Value>;

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
    /// Its name in the original's types, which texts use.
    pub(crate) field: &'static str,
    pub(crate) kind: Kind,
}

const fn member(name: &'static str, field: &'static str, kind: Kind) -> Member {
    Member { name, field, kind }
}

/// All members, in the order of the original's type, which is the order in texts. Those that the rule
/// table does not name have no check.
pub(crate) static MEMBERS: &[Member] = &[
    member("id", "ID", Kind::Text),
    member("$schema", "Schema", Kind::Text),
    member("$ref", "Ref", Kind::TextPointer),
    member("description", "Description", Kind::Text),
    member("type", "Type", Kind::Text),
    member("format", "Format", Kind::Text),
    member("title", "Title", Kind::Text),
    member("default", "Default", Kind::Json),
    member("maximum", "Maximum", Kind::Float),
    member("exclusiveMaximum", "ExclusiveMaximum", Kind::Flag),
    member("minimum", "Minimum", Kind::Float),
    member("exclusiveMinimum", "ExclusiveMinimum", Kind::Flag),
    member("maxLength", "MaxLength", Kind::Integer),
    member("minLength", "MinLength", Kind::Integer),
    member("pattern", "Pattern", Kind::Text),
    member("maxItems", "MaxItems", Kind::Integer),
    member("minItems", "MinItems", Kind::Integer),
    member("uniqueItems", "UniqueItems", Kind::Flag),
    member("multipleOf", "MultipleOf", Kind::Float),
    member("enum", "Enum", Kind::JsonList),
    member("maxProperties", "MaxProperties", Kind::Integer),
    member("minProperties", "MinProperties", Kind::Integer),
    member("required", "Required", Kind::TextList),
    member("items", "Items", Kind::SchemaOrList),
    member("allOf", "AllOf", Kind::SchemaList),
    member("oneOf", "OneOf", Kind::SchemaList),
    member("anyOf", "AnyOf", Kind::SchemaList),
    member("not", "Not", Kind::Schema),
    member("properties", "Properties", Kind::SchemaMap),
    member("additionalProperties", "AdditionalProperties", Kind::SchemaOrFlag),
    member("patternProperties", "PatternProperties", Kind::SchemaMap),
    member("dependencies", "Dependencies", Kind::Dependencies),
    member("additionalItems", "AdditionalItems", Kind::SchemaOrFlag),
    member("definitions", "Definitions", Kind::SchemaMap),
    member("externalDocs", "ExternalDocs", Kind::ExternalDocs),
    member("example", "Example", Kind::Json),
    member("nullable", "Nullable", Kind::Flag),
    member("x-kubernetes-preserve-unknown-fields", "XPreserveUnknownFields", Kind::FlagPointer),
    member("x-kubernetes-embedded-resource", "XEmbeddedResource", Kind::Flag),
    member("x-kubernetes-int-or-string", "XIntOrString", Kind::Flag),
    member("x-kubernetes-list-map-keys", "XListMapKeys", Kind::TextList),
    member("x-kubernetes-list-type", "XListType", Kind::TextPointer),
    member("x-kubernetes-map-type", "XMapType", Kind::TextPointer),
    member("x-kubernetes-validations", "XValidations", Kind::ValidationRules),
];

/// The members whose schemas are compared at their own paths, so that they are not looked at themselves.
const BELOW: [&str; 2] = ["items", "properties"];

/// The members of a validation rule: name, field, kind.
pub(crate) static RULE_MEMBERS: &[(&str, &str, Kind)] = &[
    ("rule", "Rule", Kind::Text),
    ("message", "Message", Kind::Text),
    ("messageExpression", "MessageExpression", Kind::Text),
    ("reason", "Reason", Kind::TextPointer),
    ("fieldPath", "FieldPath", Kind::Text),
    ("optionalOldSelf", "OptionalOldSelf", Kind::FlagPointer),
];

/// The members of a reference to other documentation: name, kind.
static DOCS_MEMBERS: &[(&str, Kind)] = &[("description", Kind::Text), ("url", Kind::Text)];

/// The value of a member, or nothing where it is absent or as good as that.
pub(crate) fn value<'a>(schema: &'a Schema, name: &str, kind: Kind) -> Option<&'a Value> {
    schema.get(name).filter(|value| !is_unset(value, kind))
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
pub(crate) static EMPTY: LazyLock<Schema> = LazyLock::new(Map::new);

/// A schema in a list or map of schemas, where null is one without members.
pub(crate) fn element(value: &Value) -> Option<&Schema> {
    match value {
        Value::Null => Some(&EMPTY),
        _ => value.as_object(),
    }
}

/// Whether two schemas are the same in all members.
pub(crate) fn same_schema(old: &Value, new: &Value) -> bool {
    match (element(old), element(new)) {
        (Some(old), Some(new)) => old == new || differing(old, new).next().is_none(),
        _ => old == new,
    }
}

/// A member in which two schemas differ, with both values.
pub(crate) type Difference<'a> = (&'static Member, Option<&'a Value>, Option<&'a Value>);

/// The members in which two schemas differ.
pub(crate) fn differing<'a>(old: &'a Schema, new: &'a Schema) -> impl Iterator<Item = Difference<'a>> {
    MEMBERS.iter().filter_map(move |member| {
        let (old, new) = (value(old, member.name, member.kind), value(new, member.name, member.kind));
        (!same(old, new, member.kind)).then_some((member, old, new))
    })
}

/// The members in which two schemas differ, those left out whose schemas are compared at their own
/// paths.
pub(crate) fn differing_here<'a>(old: &'a Schema, new: &'a Schema) -> Vec<Difference<'a>> {
    let here = |name: &str| !BELOW.contains(&name);
    // Nearly all schemas are the same byte for byte: that is found out without the table.
    let same = |one: &Schema, other: &Schema| {
        one.iter().all(|(name, value)| !here(name) || other.get(name) == Some(value))
    };
    let names = |schema: &Schema| schema.keys().filter(|name| here(name)).count();
    if names(old) == names(new) && same(old, new) {
        return Vec::new();
    }
    MEMBERS
        .iter()
        .filter(|member| here(member.name))
        .filter_map(|member| {
            let (old, new) = (value(old, member.name, member.kind), value(new, member.name, member.kind));
            (!self::same(old, new, member.kind)).then_some((member, old, new))
        })
        .collect()
}

/// Whether two values of a member are the same.
pub(crate) fn same(old: Option<&Value>, new: Option<&Value>, kind: Kind) -> bool {
    match (old, new) {
        (None, None) => true,
        (Some(old), Some(new)) => old == new || same_value(old, new, kind),
        _ => false,
    }
}

/// Whether two values that are not the same JSON mean the same.
fn same_value(old: &Value, new: &Value, kind: Kind) -> bool {
    match kind {
        Kind::Text | Kind::TextPointer | Kind::Flag | Kind::FlagPointer | Kind::TextList => false,
        Kind::Float | Kind::Integer => old.is_number() && new.is_number() && old.as_f64() == new.as_f64(),
        Kind::Json | Kind::JsonList => literal::json(old) == literal::json(new),
        Kind::Schema | Kind::SchemaOrFlag => same_schema(old, new),
        Kind::SchemaList => same_list(old, new, same_schema),
        Kind::SchemaMap | Kind::Dependencies => same_map(old, new, same_schema),
        Kind::SchemaOrList => same_list(old, new, same_schema) || same_schema(old, new),
        Kind::ExternalDocs => same_members(old, new, DOCS_MEMBERS.iter().copied()),
        Kind::ValidationRules => same_list(old, new, |old, new| {
            same_members(old, new, RULE_MEMBERS.iter().map(|(name, _, kind)| (*name, *kind)))
        }),
    }
}

fn same_list(old: &Value, new: &Value, same: impl Fn(&Value, &Value) -> bool) -> bool {
    match (old, new) {
        (Value::Array(old), Value::Array(new)) => {
            old.len() == new.len() && old.iter().zip(new).all(|(old, new)| same(old, new))
        }
        _ => false,
    }
}

fn same_map(old: &Value, new: &Value, same: impl Fn(&Value, &Value) -> bool) -> bool {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            old.len() == new.len()
                && old.iter().all(|(key, old)| new.get(key).is_some_and(|new| same(old, new)))
        }
        _ => false,
    }
}

fn same_members(old: &Value, new: &Value, mut members: impl Iterator<Item = (&'static str, Kind)>) -> bool {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            members.all(|(name, kind)| same(value(old, name, kind), value(new, name, kind), kind))
        }
        _ => false,
    }
}

/// A string member, empty if absent.
pub(crate) fn text<'a>(value: Option<&'a Value>, member: &str) -> Result<&'a str, Misfit> {
    match value {
        None => Ok(""),
        Some(value) => value.as_str().ok_or_else(|| Misfit::new(member, "a string")),
    }
}

/// A list member, empty if absent.
pub(crate) fn list<'a>(value: Option<&'a Value>, member: &str) -> Result<&'a [Value], Misfit> {
    match value {
        None => Ok(&[]),
        Some(Value::Array(list)) => Ok(list),
        Some(_) => Err(Misfit::new(member, "a list")),
    }
}

/// A schema as the API's types hold it: without members that they do not have and without those
/// that are as good as absent.
pub(crate) fn canonical(schema: &Value) -> Value {
    let Some(members) = element(schema) else {
        return schema.clone();
    };
    let kept = MEMBERS.iter().filter_map(|member| {
        let value = value(members, member.name, member.kind)?;
        Some((member.name.to_owned(), canonical_value(value, member.kind)))
    });
    Value::Object(kept.collect())
}

pub(crate) fn canonical_value(value: &Value, kind: Kind) -> Value {
    match (kind, value) {
        (Kind::Schema | Kind::SchemaOrFlag | Kind::SchemaOrList, Value::Object(_)) => canonical(value),
        (Kind::SchemaList | Kind::SchemaOrList, Value::Array(list)) => list.iter().map(canonical).collect(),
        (Kind::SchemaMap | Kind::Dependencies, Value::Object(map)) => {
            let schemas = map.iter().map(|(name, schema)| (name.clone(), canonical(schema)));
            Value::Object(schemas.collect())
        }
        _ => value.clone(),
    }
}

/// A schema without the members that describe and do not constrain.
pub(crate) fn without_annotations(schema: &Value) -> Value {
    let mut schema = canonical(schema);
    if let Value::Object(members) = &mut schema {
        members.retain(|name, _| !ANNOTATIONS.contains(&name.as_str()));
    }
    schema
}

/// Members that describe and do not constrain.
pub(crate) const ANNOTATIONS: [&str; 4] = ["description", "title", "example", "externalDocs"];
