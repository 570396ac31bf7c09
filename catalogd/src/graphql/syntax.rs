//! A query as text says it.

use std::collections::BTreeMap;

/// Where something begins, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) line: u32,
    pub(super) column: u32,
}

/// Everything a request's text has.
#[derive(Debug, Default)]
pub(super) struct Document {
    pub(super) operations: Vec<Operation>,
    pub(super) fragments: BTreeMap<String, Fragment>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OperationKind {
    Query,
    Mutation,
    Subscription,
}

#[derive(Debug)]
pub(super) struct Operation {
    pub(super) kind: OperationKind,
    pub(super) name: Option<String>,
    pub(super) variables: Vec<Variable>,
    pub(super) selections: Vec<Selection>,
    pub(super) at: Position,
}

/// A declared variable. Values for it are not taken, so its default is its value.
#[derive(Debug)]
pub(super) struct Variable {
    pub(super) name: String,
    /// The type as text, as `Int!`.
    pub(super) kind: String,
    pub(super) default: Option<Value>,
    pub(super) at: Position,
}

#[derive(Debug)]
pub(super) struct Fragment {
    pub(super) on: String,
    pub(super) selections: Vec<Selection>,
    pub(super) at: Position,
}

#[derive(Debug)]
pub(super) enum Selection {
    Field(Field),
    Spread { name: String, directives: Vec<Directive>, at: Position },
    Inline { on: Option<String>, directives: Vec<Directive>, selections: Vec<Selection>, at: Position },
}

#[derive(Debug)]
pub(super) struct Field {
    pub(super) alias: Option<String>,
    pub(super) name: String,
    pub(super) arguments: Vec<(String, Value)>,
    pub(super) directives: Vec<Directive>,
    pub(super) selections: Vec<Selection>,
    pub(super) at: Position,
}

impl Field {
    /// The name in the answer.
    pub(super) fn key(&self) -> &str {
        self.alias.as_deref().unwrap_or(&self.name)
    }
}

#[derive(Debug)]
pub(super) struct Directive {
    pub(super) name: String,
    pub(super) arguments: Vec<(String, Value)>,
    pub(super) at: Position,
}

/// A literal. Numbers keep their text.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Variable(String),
    Integer(String),
    Float(String),
    String(String),
    Boolean(bool),
    Null,
    Enum(String),
    List(Vec<Value>),
    Object(Vec<(String, Value)>),
}
