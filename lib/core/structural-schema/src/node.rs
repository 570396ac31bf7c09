//! A schema as it is used: members read, patterns compiled, rules parsed.
//!
//! One type serves for the schema proper and for the schemas below `allOf`, `anyOf`, `oneOf` and `not`,
//! which only restrict.

use std::collections::BTreeMap;

use olm_cel::{Expression, Patterns};
use serde_json::{Map, Value};

use crate::{SchemaError, format::Format, limits::SCHEMA_DEPTH_MAX};

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
    /// One that the API does not have: nothing is of it.
    Unknown,
}

/// What members an object may have beside its properties.
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
    /// One that is not understood.
    Unknown,
}

/// What makes the elements of a list different.
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
    /// The rule, or what about it is not understood.
    pub(crate) expression: Result<Expression, String>,
    pub(crate) message: Option<String>,
    /// Whether it compares with the object before a change, of which stored objects have none.
    pub(crate) is_transition: bool,
    /// Whether it is evaluated without one as well.
    pub(crate) optional_old: bool,
}

/// Members of JSON Schema that structural schemas must not have.
const FORBIDDEN: [&str; 5] = ["$ref", "definitions", "dependencies", "patternProperties", "additionalItems"];

impl Node {
    /// Reads the schema of a whole object.
    pub(crate) fn root(schema: &Value) -> Result<Self, SchemaError> {
        let mut node = Reader { at: "^".to_owned(), depth: 0, patterns: Patterns::default() }.node(schema)?;
        node.is_resource = true;
        Ok(node)
    }
}

struct Reader {
    at: String,
    depth: usize,
    patterns: Patterns,
}

type Read<T> = Result<T, SchemaError>;

impl Reader {
    fn below<T>(&mut self, name: &str, read: impl FnOnce(&mut Self) -> Read<T>) -> Read<T> {
        let length = self.at.len();
        self.at.push('.');
        self.at.push_str(name);
        self.depth += 1;
        if self.depth > SCHEMA_DEPTH_MAX {
            return Err(SchemaError::TooDeep { limit: SCHEMA_DEPTH_MAX });
        }
        let result = read(self)?;
        self.depth -= 1;
        self.at.truncate(length);
        Ok(result)
    }

    fn node(&mut self, schema: &Value) -> Read<Node> {
        let empty = Map::new();
        let schema = match schema {
            Value::Object(schema) => schema,
            Value::Null => &empty,
            _ => return Err(self.malformed("schema", "an object")),
        };
        if let Some(member) = FORBIDDEN.iter().find(|member| schema.get(**member).is_some_and(is_set)) {
            return Err(SchemaError::NotStructural { at: self.at.clone(), member });
        }
        if schema.get("uniqueItems") == Some(&Value::Bool(true)) {
            return Err(SchemaError::NotStructural { at: self.at.clone(), member: "uniqueItems" });
        }
        let int_or_string = self.flag(schema, "x-kubernetes-int-or-string")?;
        let kinds = self.kinds(schema, int_or_string)?;
        let embedded = self.flag(schema, "x-kubernetes-embedded-resource")?;
        Ok(Node {
            format: Format::of(self.text(schema, "format")?, &kinds),
            kinds,
            nullable: self.flag(schema, "nullable")?,
            int_or_string,
            preserve_unknown: self.flag(schema, "x-kubernetes-preserve-unknown-fields")?,
            embedded,
            is_resource: embedded,
            default: schema.get("default").filter(|value| !value.is_null()).cloned(),
            properties: self.properties(schema)?,
            additional: self.additional(schema)?,
            items: self.one(schema, "items")?,
            enumeration: self.list(schema, "enum")?.to_vec(),
            required: self.texts(schema, "required")?,
            minimum: self.number(schema, "minimum")?,
            exclusive_minimum: self.flag(schema, "exclusiveMinimum")?,
            maximum: self.number(schema, "maximum")?,
            exclusive_maximum: self.flag(schema, "exclusiveMaximum")?,
            multiple_of: self.number(schema, "multipleOf")?,
            length: self.range(schema, "minLength", "maxLength")?,
            item_count: self.range(schema, "minItems", "maxItems")?,
            property_count: self.range(schema, "minProperties", "maxProperties")?,
            pattern: match self.text(schema, "pattern")? {
                "" => Pattern::None,
                text => self.patterns.compile(text).map_or(Pattern::Unknown, Pattern::Regex),
            },
            all_of: self.many(schema, "allOf")?,
            any_of: self.many(schema, "anyOf")?,
            one_of: self.many(schema, "oneOf")?,
            not: self.one(schema, "not")?,
            list: match self.text(schema, "x-kubernetes-list-type")? {
                "set" => ListKind::Set,
                "map" => ListKind::Map,
                _ => ListKind::Atomic,
            },
            list_keys: self.texts(schema, "x-kubernetes-list-map-keys")?,
            rules: self.rules(schema)?,
        })
    }

    fn kinds(&self, schema: &Map<String, Value>, int_or_string: bool) -> Read<Vec<Kind>> {
        if int_or_string {
            return Ok(vec![Kind::Integer, Kind::String]);
        }
        Ok(match self.text(schema, "type")? {
            "" => Vec::new(),
            "array" => vec![Kind::Array],
            "boolean" => vec![Kind::Boolean],
            "integer" => vec![Kind::Integer],
            "number" => vec![Kind::Number],
            "object" => vec![Kind::Object],
            "string" => vec![Kind::String],
            _ => vec![Kind::Unknown],
        })
    }

    fn properties(&mut self, schema: &Map<String, Value>) -> Read<BTreeMap<String, Node>> {
        let mut properties = BTreeMap::new();
        match schema.get("properties") {
            None | Some(Value::Null) => {}
            Some(Value::Object(listed)) => {
                for (name, property) in listed {
                    properties.insert(name.clone(), self.below(name, |reader| reader.node(property))?);
                }
            }
            Some(_) => return Err(self.malformed("properties", "an object")),
        }
        Ok(properties)
    }

    fn additional(&mut self, schema: &Map<String, Value>) -> Read<Additional> {
        match schema.get("additionalProperties") {
            None | Some(Value::Null) => Ok(Additional::Nothing),
            Some(Value::Bool(true)) => Ok(Additional::Anything),
            Some(Value::Bool(false)) => {
                Err(SchemaError::NotStructural { at: self.at.clone(), member: "additionalProperties: false" })
            }
            Some(below) => {
                let node = self.below("additionalProperties", |reader| reader.node(below))?;
                Ok(Additional::Schema(Box::new(node)))
            }
        }
    }

    fn one(&mut self, schema: &Map<String, Value>, member: &'static str) -> Read<Option<Box<Node>>> {
        match schema.get(member) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Array(_)) => Err(SchemaError::NotStructural { at: self.at.clone(), member }),
            Some(below) => Ok(Some(Box::new(self.below(member, |reader| reader.node(below))?))),
        }
    }

    fn many(&mut self, schema: &Map<String, Value>, member: &'static str) -> Read<Vec<Node>> {
        let list = self.list(schema, member)?.to_vec();
        list.iter().map(|below| self.below(member, |reader| reader.node(below))).collect()
    }

    fn rules(&mut self, schema: &Map<String, Value>) -> Read<Vec<Rule>> {
        let listed = self.list(schema, "x-kubernetes-validations")?;
        let rules = listed.iter().map(|rule| {
            let text = rule.get("rule").and_then(Value::as_str).unwrap_or_default();
            let expression = olm_cel::parse(text.trim(), &mut self.patterns);
            let is_transition = match &expression {
                Ok(expression) => expression.names("oldSelf"),
                Err(_) => text.contains("oldSelf"),
            };
            Rule {
                expression,
                message: rule.get("message").and_then(Value::as_str).map(str::to_owned),
                is_transition,
                optional_old: rule.get("optionalOldSelf") == Some(&Value::Bool(true)),
            }
        });
        Ok(rules.collect())
    }

    fn flag(&self, schema: &Map<String, Value>, member: &'static str) -> Read<bool> {
        match schema.get(member) {
            None | Some(Value::Null) => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(self.malformed(member, "a boolean")),
        }
    }

    fn text<'v>(&self, schema: &'v Map<String, Value>, member: &'static str) -> Read<&'v str> {
        match schema.get(member) {
            None | Some(Value::Null) => Ok(""),
            Some(Value::String(text)) => Ok(text),
            Some(_) => Err(self.malformed(member, "a string")),
        }
    }

    fn number(&self, schema: &Map<String, Value>, member: &'static str) -> Read<Option<f64>> {
        match schema.get(member) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => value.as_f64().map(Some).ok_or_else(|| self.malformed(member, "a number")),
        }
    }

    fn range(&self, schema: &Map<String, Value>, least: &'static str, most: &'static str) -> Read<Range> {
        Ok(Range { minimum: self.count(schema, least)?, maximum: self.count(schema, most)? })
    }

    fn count(&self, schema: &Map<String, Value>, member: &'static str) -> Read<Option<u64>> {
        match schema.get(member) {
            None | Some(Value::Null) => Ok(None),
            // Nothing is shorter than a negative length.
            Some(value) if value.as_i64().is_some_and(|number| number < 0) && least(member) => Ok(None),
            Some(value) => value.as_u64().map(Some).ok_or_else(|| self.malformed(member, "a whole number")),
        }
    }

    fn list<'v>(&self, schema: &'v Map<String, Value>, member: &'static str) -> Read<&'v [Value]> {
        match schema.get(member) {
            None | Some(Value::Null) => Ok(&[]),
            Some(Value::Array(list)) => Ok(list),
            Some(_) => Err(self.malformed(member, "a list")),
        }
    }

    fn texts(&self, schema: &Map<String, Value>, member: &'static str) -> Read<Vec<String>> {
        let texts = self.list(schema, member)?.iter();
        texts
            .map(|v| v.as_str().map(str::to_owned).ok_or_else(|| self.malformed(member, "a list of strings")))
            .collect()
    }

    fn malformed(&self, member: &'static str, expected: &'static str) -> SchemaError {
        SchemaError::Malformed { at: self.at.clone(), member, expected }
    }
}

fn least(member: &str) -> bool {
    member.starts_with("min")
}

fn is_set(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Object(map) => !map.is_empty(),
        _ => true,
    }
}
