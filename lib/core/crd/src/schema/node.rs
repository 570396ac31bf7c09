//! A schema for validating objects: members read, patterns compiled, rules parsed.
//!
//! One type serves for the structural schema and for the schemas below `allOf`, `anyOf`, `oneOf` and `not`, which only
//! restrict.

use std::collections::BTreeMap;

use olm_cel::{Expression, Patterns};
use serde_json::Value;

use super::{EMPTY, FaultCause, Format, Members, Misfit, SchemaFault, access};
use crate::limits::SCHEMA_DEPTH_MAX;

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
    /// They are kept, their own members are not.
    Anything,
    Schema(Box<Node>),
}

/// Bounds of a length or a number of elements.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Range {
    pub(crate) minimum: Option<u64>,
    pub(crate) maximum: Option<u64>,
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

/// Members of JSON Schema that structural schemas must not have.
const FORBIDDEN: [&str; 5] = ["$ref", "definitions", "dependencies", "patternProperties", "additionalItems"];

impl Node {
    /// Reads the schema of a whole object.
    pub(crate) fn root(schema: Option<&Members>) -> Result<Self, SchemaFault> {
        let mut reader = Reader { path: "^".to_owned(), depth: 0, patterns: Patterns::default() };
        let mut node = reader
            .node(schema.unwrap_or(&EMPTY))
            .map_err(|cause| SchemaFault { path: reader.path.clone(), cause })?;
        node.is_resource = true;
        Ok(node)
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

/// Reads schemas; on an error its path is that of the schema.
struct Reader {
    path: String,
    depth: usize,
    patterns: Patterns,
}

type Read<T> = Result<T, FaultCause>;

impl Reader {
    fn below(&mut self, name: &str, schema: &Value) -> Read<Node> {
        let length = self.path.len();
        self.path.push('.');
        self.path.push_str(name);
        self.depth += 1;
        if self.depth > SCHEMA_DEPTH_MAX {
            return Err(FaultCause::TooDeep);
        }
        let node = self.node(access::object(Some(schema), "schema")?.unwrap_or(&EMPTY))?;
        self.depth -= 1;
        self.path.truncate(length);
        Ok(node)
    }

    fn node(&mut self, schema: &Members) -> Read<Node> {
        if let Some(member) = FORBIDDEN.iter().find(|member| schema.get(**member).is_some_and(is_set)) {
            return Err(FaultCause::NotStructural(member));
        }
        if schema.get("uniqueItems") == Some(&Value::Bool(true)) {
            return Err(FaultCause::NotStructural("uniqueItems"));
        }
        let flag = |member: &str| access::flag(schema.get(member), member);
        let number = |member: &str| access::number(schema.get(member), member);
        let text = |member: &str| access::text(schema.get(member), member);
        let kinds = if flag("x-kubernetes-int-or-string")? {
            vec![Kind::Integer, Kind::String]
        } else {
            Kind::named(text("type")?)
        };
        let embedded = flag("x-kubernetes-embedded-resource")?;
        Ok(Node {
            format: Format::of(text("format")?, &kinds),
            kinds,
            nullable: flag("nullable")?,
            int_or_string: flag("x-kubernetes-int-or-string")?,
            preserve_unknown: flag("x-kubernetes-preserve-unknown-fields")?,
            embedded,
            is_resource: embedded,
            default: schema.get("default").filter(|value| !value.is_null()).cloned(),
            properties: self.properties(schema)?,
            additional: self.additional(schema)?,
            items: self.one(schema, "items")?,
            enumeration: access::list(schema.get("enum"), "enum")?.to_vec(),
            required: texts(schema, "required")?,
            minimum: number("minimum")?,
            exclusive_minimum: flag("exclusiveMinimum")?,
            maximum: number("maximum")?,
            exclusive_maximum: flag("exclusiveMaximum")?,
            multiple_of: number("multipleOf")?,
            length: Range::read(schema, "minLength", "maxLength")?,
            item_count: Range::read(schema, "minItems", "maxItems")?,
            property_count: Range::read(schema, "minProperties", "maxProperties")?,
            pattern: match text("pattern")? {
                "" => Pattern::None,
                text => self.patterns.compile(text).map_or(Pattern::Unknown, Pattern::Regex),
            },
            all_of: self.many(schema, "allOf")?,
            any_of: self.many(schema, "anyOf")?,
            one_of: self.many(schema, "oneOf")?,
            not: self.one(schema, "not")?,
            list: ListKind::named(text("x-kubernetes-list-type")?),
            list_keys: texts(schema, "x-kubernetes-list-map-keys")?,
            rules: self.rules(schema)?,
        })
    }

    fn properties(&mut self, schema: &Members) -> Read<BTreeMap<String, Node>> {
        let mut properties = BTreeMap::new();
        for (name, property) in access::object(schema.get("properties"), "properties")?.into_iter().flatten()
        {
            properties.insert(name.clone(), self.below(name, property)?);
        }
        Ok(properties)
    }

    fn additional(&mut self, schema: &Members) -> Read<Additional> {
        match schema.get("additionalProperties") {
            None | Some(Value::Null) => Ok(Additional::Nothing),
            Some(Value::Bool(true)) => Ok(Additional::Anything),
            Some(Value::Bool(false)) => Err(FaultCause::NotStructural("additionalProperties: false")),
            Some(below) => Ok(Additional::Schema(Box::new(self.below("additionalProperties", below)?))),
        }
    }

    fn one(&mut self, schema: &Members, member: &'static str) -> Read<Option<Box<Node>>> {
        match schema.get(member) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Array(_)) => Err(FaultCause::NotStructural(member)),
            Some(below) => Ok(Some(Box::new(self.below(member, below)?))),
        }
    }

    fn many(&mut self, schema: &Members, member: &str) -> Read<Vec<Node>> {
        access::list(schema.get(member), member)?.iter().map(|below| self.below(member, below)).collect()
    }

    fn rules(&mut self, schema: &Members) -> Read<Vec<Rule>> {
        let rules = access::list(schema.get("x-kubernetes-validations"), "x-kubernetes-validations")?;
        Ok(rules.iter().map(|rule| Rule::read(rule, &mut self.patterns)).collect())
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

impl ListKind {
    fn named(name: &str) -> Self {
        match name {
            "set" => Self::Set,
            "map" => Self::Map,
            _ => Self::Atomic,
        }
    }
}

impl Range {
    fn read(schema: &Members, minimum: &str, maximum: &str) -> Read<Self> {
        let bound = |member: &str| match schema.get(member) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => value.as_i64().map(Some).ok_or_else(|| Misfit::new(member, "an integer")),
        };
        // Nothing is shorter than a negative length.
        let minimum = bound(minimum)?.and_then(|bound| u64::try_from(bound).ok());
        let maximum = match bound(maximum)? {
            Some(bound) => Some(u64::try_from(bound).map_err(|_| Misfit::new(maximum, "an integer"))?),
            None => None,
        };
        Ok(Self { minimum, maximum })
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

fn texts(schema: &Members, member: &str) -> Result<Vec<String>, Misfit> {
    Ok(access::texts(schema.get(member), member)?.into_iter().map(str::to_owned).collect())
}

fn is_set(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Object(map) => !map.is_empty(),
        _ => true,
    }
}
