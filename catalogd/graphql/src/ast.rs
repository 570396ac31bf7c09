//! The syntax tree of a query.

use std::collections::BTreeMap;

/// A place in a query's text, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) line: u32,
    pub(crate) column: u32,
}

/// The operations and fragments of a request.
#[derive(Debug, Default)]
pub(crate) struct Document {
    pub(crate) operations: Vec<Operation>,
    pub(crate) fragments: BTreeMap<String, Fragment>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OperationKind {
    Query,
    Mutation,
    Subscription,
}

#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) kind: OperationKind,
    pub(crate) name: Option<String>,
    pub(crate) variables: Vec<Variable>,
    pub(crate) selections: Vec<Selection>,
    pub(crate) at: Position,
}

/// A declared variable. Requests cannot give it a value, so its default is its value.
#[derive(Debug)]
pub(crate) struct Variable {
    pub(crate) name: String,
    /// The type, for instance `Int!`.
    pub(crate) kind: String,
    pub(crate) default: Option<Value>,
    pub(crate) at: Position,
}

#[derive(Debug)]
pub(crate) struct Fragment {
    pub(crate) on: String,
    pub(crate) selections: Vec<Selection>,
    pub(crate) at: Position,
}

#[derive(Debug)]
pub(crate) enum Selection {
    Field(Field),
    Spread { name: String, directives: Vec<Directive>, at: Position },
    Inline { on: Option<String>, directives: Vec<Directive>, selections: Vec<Selection>, at: Position },
}

#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) alias: Option<String>,
    pub(crate) name: String,
    pub(crate) arguments: Vec<(String, Value)>,
    pub(crate) directives: Vec<Directive>,
    pub(crate) selections: Vec<Selection>,
    pub(crate) at: Position,
}

impl Field {
    /// The name in the answer.
    pub(crate) fn key(&self) -> &str {
        self.alias.as_deref().unwrap_or(&self.name)
    }
}

#[derive(Debug)]
pub(crate) struct Directive {
    pub(crate) name: String,
    pub(crate) arguments: Vec<(String, Value)>,
    pub(crate) at: Position,
}

/// A literal. Numbers keep their text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
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
