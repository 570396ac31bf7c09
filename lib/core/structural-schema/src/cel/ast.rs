//! Expressions after parsing.

use regex::Regex;

/// An expression.
#[derive(Debug, Clone)]
pub(crate) enum Expression {
    Literal(Literal),
    Name(String),
    /// `operand.field`.
    Select(Box<Expression>, String),
    /// `has(operand.field)`.
    Has(Box<Expression>, String),
    /// `operand[index]`.
    Index(Box<Expression>, Box<Expression>),
    Call(Box<Call>),
    Not(Box<Expression>),
    Negate(Box<Expression>),
    /// Any number of operands of `||`.
    Or(Vec<Expression>),
    /// Any number of operands of `&&`.
    And(Vec<Expression>),
    /// Condition, then, otherwise.
    Choice(Box<[Expression; 3]>),
    Binary(Operator, Box<[Expression; 2]>),
    List(Vec<Expression>),
    Map(Vec<(Expression, Expression)>),
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
    pub(crate) target: Option<Expression>,
    pub(crate) arguments: Vec<Expression>,
    /// The regular expression, where a literal is one.
    pub(crate) pattern: Option<Regex>,
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
    pub(crate) range: Expression,
    pub(crate) variable: String,
    /// Which elements `map` with three arguments takes.
    pub(crate) condition: Option<Expression>,
    pub(crate) body: Expression,
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

impl Expression {
    /// Whether the expression, or one inside it, names `wanted`.
    pub(crate) fn names(&self, wanted: &str) -> bool {
        let any = |list: &[Expression]| list.iter().any(|e| e.names(wanted));
        match self {
            Self::Literal(_) => false,
            Self::Name(name) => name == wanted,
            Self::Select(operand, _) | Self::Has(operand, _) | Self::Not(operand) | Self::Negate(operand) => {
                operand.names(wanted)
            }
            Self::Index(operand, index) => operand.names(wanted) || index.names(wanted),
            Self::Call(call) => call.target.as_ref().is_some_and(|t| t.names(wanted)) || any(&call.arguments),
            Self::Or(list) | Self::And(list) | Self::List(list) => any(list),
            Self::Choice(parts) => any(&parts[..]),
            Self::Binary(_, parts) => any(&parts[..]),
            Self::Map(entries) => entries.iter().any(|(k, v)| k.names(wanted) || v.names(wanted)),
            Self::Fold(fold) => {
                fold.range.names(wanted)
                    || fold.condition.as_ref().is_some_and(|c| c.names(wanted))
                    || fold.body.names(wanted)
            }
        }
    }
}
