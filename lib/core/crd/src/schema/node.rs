//! A schema for validating objects: patterns compiled, rules parsed.
//!
//! One type serves for the structural schema and for the schemas below `allOf`, `anyOf`, `oneOf` and `not`, which only
//! restrict.

use std::collections::BTreeMap;

use olm_cel::{Expression, Patterns};
use serde_json::Value;

use super::Format;

/// A schema.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a member of the API's type")]
pub(crate) struct Node {
    /// The types that a value may have; none: any.
    pub(crate) kinds: Vec<Kind>,
    pub(crate) format: Option<Format>,
    pub(crate) nullable: bool,
    pub(crate) int_or_string: bool,
    pub(crate) preserve_unknown: bool,
    /// Whether the value is a whole Kubernetes object inside another.
    pub(crate) embedded: bool,
    /// Whether rules see `apiVersion`, `kind` and `metadata`: at the root and in embedded objects.
    pub(crate) is_resource: bool,
    pub(crate) default: Option<Value>,
    pub(crate) properties: BTreeMap<String, Node>,
    pub(crate) additional: Additional,
    pub(crate) items: Option<Box<Node>>,
    pub(crate) enumeration: Vec<Value>,
    pub(crate) required: Vec<String>,
    pub(crate) minimum: Option<f64>,
    pub(crate) exclusive_minimum: bool,
    pub(crate) maximum: Option<f64>,
    pub(crate) exclusive_maximum: bool,
    pub(crate) multiple_of: Option<f64>,
    pub(crate) length: Range,
    pub(crate) item_count: Range,
    pub(crate) property_count: Range,
    pub(crate) pattern: Pattern,
    pub(crate) all_of: Vec<Node>,
    pub(crate) any_of: Vec<Node>,
    pub(crate) one_of: Vec<Node>,
    pub(crate) not: Option<Box<Node>>,
    pub(crate) list: ListKind,
    pub(crate) list_keys: Vec<String>,
    pub(crate) rules: Vec<Rule>,
}

/// A type of JSON values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Array,
    Boolean,
    Integer,
    Number,
    Object,
    String,
    /// A type that the API does not have; no value is of it.
    Unknown,
}

/// Members that an object may have beside its properties.
#[derive(Debug, Default)]
pub(crate) enum Additional {
    /// They are pruned.
    #[default]
    Nothing,
    /// They are retained, their own members are not.
    Anything,
    Schema(Box<Node>),
}

/// Bounds of a length or a number of elements.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Range {
    pub(crate) minimum: Option<i64>,
    pub(crate) maximum: Option<i64>,
}

/// A regular expression that a string must match somewhere.
#[derive(Debug, Default)]
pub(crate) enum Pattern {
    #[default]
    None,
    Regex(olm_cel::Pattern),
    /// A pattern that is not understood.
    Unknown,
}

/// The property that makes the elements of a list different.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListKind {
    #[default]
    Atomic,
    Set,
    Map,
}

/// A validation rule.
#[derive(Debug)]
pub(crate) struct Rule {
    /// The rule, or why it is not understood.
    pub(crate) expression: Result<Expression, String>,
    pub(crate) message: Option<String>,
    /// Whether it compares with the object before a change, which stored objects do not have.
    pub(crate) is_transition: bool,
    /// Whether it is also evaluated where there is no object before.
    pub(crate) optional_old: bool,
}

/// The member of a schema that structural schemas must not have, if it has one.
pub(crate) fn not_structural(schema: &Value) -> Option<&'static str> {
    const FORBIDDEN: [&str; 6] =
        ["$ref", "definitions", "dependencies", "patternProperties", "additionalItems", "uniqueItems"];
    let forbidden = FORBIDDEN.into_iter().find(|member| schema.get(member).is_some());
    forbidden.or_else(|| match (schema.get("items"), schema.get("additionalProperties")) {
        (Some(Value::Array(_)), _) => Some("items"),
        (_, Some(Value::Bool(false))) => Some("additionalProperties: false"),
        _ => None,
    })
}

impl Node {
    /// Reads the schema of a whole object.
    pub(crate) fn root(schema: &Value) -> Self {
        Self { is_resource: true, ..Self::read(schema, &mut Patterns::default()) }
    }

    /// Reads a structural schema in the API's form.
    fn read(schema: &Value, patterns: &mut Patterns) -> Self {
        let flag = |member: &str| schema.get(member) == Some(&Value::Bool(true));
        let number = |member: &str| schema.get(member).and_then(Value::as_f64);
        let text = |member: &str| schema.get(member).and_then(Value::as_str).unwrap_or_default();
        let list = |member: &str| schema.get(member).and_then(Value::as_array).into_iter().flatten();
        let texts = |member: &str| list(member).filter_map(Value::as_str).map(str::to_owned).collect();
        let range = |minimum: &str, maximum: &str| Range {
            minimum: schema.get(minimum).and_then(Value::as_i64),
            maximum: schema.get(maximum).and_then(Value::as_i64),
        };
        let kinds = if flag("x-kubernetes-int-or-string") {
            vec![Kind::Integer, Kind::String]
        } else {
            Kind::named(text("type"))
        };
        let mut below = |schema: &Value| Self::read(schema, patterns);
        let one = |member: &str, below: &mut dyn FnMut(&Value) -> Self| {
            schema.get(member).map(|schema| Box::new(below(schema)))
        };
        let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
        Self {
            format: Format::of(text("format"), &kinds),
            kinds,
            nullable: flag("nullable"),
            int_or_string: flag("x-kubernetes-int-or-string"),
            preserve_unknown: flag("x-kubernetes-preserve-unknown-fields"),
            embedded: flag("x-kubernetes-embedded-resource"),
            is_resource: flag("x-kubernetes-embedded-resource"),
            default: schema.get("default").cloned(),
            properties: properties.map(|(name, schema)| (name.clone(), below(schema))).collect(),
            additional: match schema.get("additionalProperties") {
                None => Additional::Nothing,
                Some(Value::Bool(_)) => Additional::Anything,
                Some(schema) => Additional::Schema(Box::new(below(schema))),
            },
            items: one("items", &mut below),
            enumeration: list("enum").cloned().collect(),
            required: texts("required"),
            minimum: number("minimum"),
            exclusive_minimum: flag("exclusiveMinimum"),
            maximum: number("maximum"),
            exclusive_maximum: flag("exclusiveMaximum"),
            multiple_of: number("multipleOf"),
            length: range("minLength", "maxLength"),
            item_count: range("minItems", "maxItems"),
            property_count: range("minProperties", "maxProperties"),
            all_of: list("allOf").map(&mut below).collect(),
            any_of: list("anyOf").map(&mut below).collect(),
            one_of: list("oneOf").map(&mut below).collect(),
            not: one("not", &mut below),
            list: match text("x-kubernetes-list-type") {
                "set" => ListKind::Set,
                "map" => ListKind::Map,
                _ => ListKind::Atomic,
            },
            list_keys: texts("x-kubernetes-list-map-keys"),
            rules: list("x-kubernetes-validations").map(|rule| Rule::read(rule, patterns)).collect(),
            pattern: match text("pattern") {
                "" => Pattern::None,
                text => patterns.compile(text).map_or(Pattern::Unknown, Pattern::Regex),
            },
        }
    }

    /// The schema of a field: its property, or that of additional properties.
    pub(crate) fn child(&self, name: &str) -> Option<&Self> {
        match (self.properties.get(name), &self.additional) {
            (Some(property), _) => Some(property),
            (None, Additional::Schema(schema)) => Some(schema),
            (None, Additional::Nothing | Additional::Anything) => None,
        }
    }
}

impl Kind {
    /// The types of a schema by the value of its member `type`.
    fn named(name: &str) -> Vec<Self> {
        match name {
            "" => Vec::new(),
            "array" => vec![Self::Array],
            "boolean" => vec![Self::Boolean],
            "integer" => vec![Self::Integer],
            "number" => vec![Self::Number],
            "object" => vec![Self::Object],
            "string" => vec![Self::String],
            _ => vec![Self::Unknown],
        }
    }
}

impl Rule {
    fn read(rule: &Value, patterns: &mut Patterns) -> Self {
        let text = rule.get("rule").and_then(Value::as_str).unwrap_or_default();
        let expression = olm_cel::parse(text.trim(), patterns);
        let is_transition = match &expression {
            Ok(expression) => expression.names("oldSelf"),
            Err(_) => text.contains("oldSelf"),
        };
        Self {
            expression,
            message: rule.get("message").and_then(Value::as_str).map(str::to_owned),
            is_transition,
            optional_old: rule.get("optionalOldSelf") == Some(&Value::Bool(true)),
        }
    }
}
