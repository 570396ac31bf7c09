//! The Common Expression Language, as far as rules of custom resource definitions use it.
//!
//! The language is evaluated with a budget of steps. What is not implemented (optional values, dates,
//! quantities, addresses, and whatever else) makes a rule undecided, never true or false; errors that the
//! API server would meet as well are errors. Rules that passed the API server are typed correctly, so
//! types are not checked beforehand.

mod ast;
mod equality;
mod eval;
mod functions;
mod lexer;
mod methods;
mod parser;
mod value;

pub(crate) use ast::Expression;
pub(crate) use eval::{Budget, Stop, is_true};
pub(crate) use parser::parse;
pub(crate) use value::Value;
