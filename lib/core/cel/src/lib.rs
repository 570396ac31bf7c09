//! The Common Expression Language, as far as rules of custom resource definitions and `olm.constraint` use it.
//!
//! An expression is evaluated with a [`Budget`]: every step, every comparison of long values and every regular
//! expression is charged. Parts of the language that are not implemented (optional values, dates, quantities, addresses and others)
//! make an expression undecided, never true or false; errors that every implementation meets are errors. Types are
//! not checked beforehand.
//!
//! Data stay JSON; a [`Typing`] gives their types in the language: a schema, or [`Untyped`].

mod ast;
mod budget;
mod duration;
mod equality;
mod eval;
mod functions;
mod lexer;
mod limits;
mod methods;
mod parser;
mod pattern;
#[cfg(test)]
mod tests;
mod value;

pub use ast::Expression;
pub use budget::{Budget, Stop};
pub use duration::duration;
pub use eval::{Evaluated, Function, evaluate};
pub use lexer::is_keyword;
pub use limits::{PATTERN_BYTES_MAX, PATTERNS_BYTES_MAX, RULE_BYTES_MAX, RULE_DEPTH_MAX};
pub use parser::parse;
pub use pattern::{Pattern, Patterns};
pub use value::{Text, Typing, Untyped, Value};
