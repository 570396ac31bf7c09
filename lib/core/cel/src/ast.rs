//! Expressions after parsing.

use std::collections::BTreeSet;

use crate::pattern::Pattern;

/// A parsed expression.
#[derive(Debug, Clone)]
pub struct Expression {
    pub(crate) root: Node,
    pub(crate) names: BTreeSet<String>,
}

impl Expression {
    /// Whether the expression names the variable `wanted`, at any depth.
    pub fn names(&self, wanted: &str) -> bool {
        self.names.contains(wanted)
    }
}

/// A node of an expression's tree.
#[derive(Debug, Clone)]
pub(crate) enum Node {
    Literal(Literal),
    Name(String),
    /// `operand.field`.
    Select(Box<Node>, String),
    /// `has(operand.field)`.
    Has(Box<Node>, String),
    /// `operand[index]`.
    Index(Box<Node>, Box<Node>),
    Call(Box<Call>),
    Not(Box<Node>),
    Negate(Box<Node>),
    /// Any number of operands of `||`.
    Or(Vec<Node>),
    /// Any number of operands of `&&`.
    And(Vec<Node>),
    /// Condition, then, otherwise.
    Choice(Box<[Node; 3]>),
    Binary(Operator, Box<[Node; 2]>),
    List(Vec<Node>),
    Map(Vec<(Node, Node)>),
    Fold(Box<Fold>),
}

/// A literal.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(String),
}

/// A call of a function, or of a method of `target`.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) function: String,
    pub(crate) target: Option<Node>,
    pub(crate) arguments: Vec<Node>,
    /// The regular expression, where a literal is one.
    pub(crate) pattern: Option<Pattern>,
}

/// An operator with two operands that are both evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

/// A macro over the elements of a list or the keys of a map.
#[derive(Debug, Clone)]
pub(crate) struct Fold {
    pub(crate) kind: FoldKind,
    pub(crate) range: Node,
    pub(crate) variable: String,
    /// Which elements `map` with three arguments takes.
    pub(crate) condition: Option<Node>,
    pub(crate) body: Node,
}

/// Which macro it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FoldKind {
    All,
    Exists,
    ExistsOne,
    Filter,
    Map,
}
