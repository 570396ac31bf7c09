//! GraphQL over the documents of a file-based catalog.
//!
//! The types are derived from the documents ([`Schema::derive`]). A query is parsed and limited ([`Query::parse`]), then
//! validated and answered one document at a time ([`Query::answer`]), so memory grows neither with the catalog nor,
//! beyond a limit, with the answer. Names, limits and most messages are upstream's.

mod ast;
mod execute;
mod introspection;
mod lexer;
pub mod limits;
mod names;
mod parser;
mod shape;
mod types;
mod validate;

use std::{io, ops::Range};

use serde_json::json;
use thiserror::Error;

use ast::{Document, Position};
use shape::CatalogShape;
use types::Types;

/// Documents of a catalog, as JSON lines in a file.
pub trait Documents {
    /// The schemas of the documents, sorted.
    fn schemas(&self) -> Vec<&str>;
    /// Byte ranges of the documents of a schema, in file order.
    fn lines<'a>(&'a self, schema: &'a str) -> Box<dyn ExactSizeIterator<Item = Range<u64>> + 'a>;
    /// Fills `buffer` with the bytes from `offset` on.
    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
}

/// The types of a catalog.
#[derive(Debug)]
pub struct Schema {
    catalog: CatalogShape,
    types: Types,
}

/// A catalog has no types.
#[derive(Debug, Error)]
pub enum SchemaError {
    /// The documents cannot be read.
    #[error("reading catalog content: {0}")]
    Read(#[from] io::Error),
    /// The documents cannot be queried: the same content never can.
    #[error("the catalog has no GraphQL schema: {0}")]
    Content(String),
}

impl Schema {
    /// Derives the types from all documents, which are read one after another.
    pub fn derive(documents: &dyn Documents) -> Result<Self, SchemaError> {
        let catalog = shape::derive(documents)?;
        let types = Types::of(&catalog).map_err(SchemaError::Content)?;
        Ok(Self { catalog, types })
    }
}

/// A query within the limits.
#[derive(Debug)]
pub struct Query(Document);

impl Query {
    /// Parses a query.
    pub fn parse(text: &str) -> Result<Self, QueryError> {
        let document = parser::parse(text).map_err(|error| {
            let Position { line, column } = error.at;
            let message =
                format!("query parse error: Syntax Error GraphQL ({line}:{column}) {}", error.problem);
            QueryError::at(error.at, message)
        })?;
        limits::check(&document).map_err(QueryError::plain)?;
        Ok(Self(document))
    }

    /// The `data` of the answer as JSON. `is_overdue` is asked at least once for each object and value of the answer, and
    /// ends the work.
    pub fn answer(
        &self,
        schema: &Schema,
        documents: &dyn Documents,
        is_overdue: &dyn Fn() -> bool,
    ) -> Result<Vec<u8>, QueryError> {
        let operation = validate::operation(&self.0, &schema.types)?;
        execute::execute(&execute::Source { schema, documents, is_overdue }, &self.0, operation)
    }
}

/// A query has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryError {
    message: String,
    at: Option<Position>,
}

impl QueryError {
    /// An error that is not at one place of the query.
    pub fn plain(message: impl Into<String>) -> Self {
        Self { message: message.into(), at: None }
    }

    fn at(at: Position, message: impl Into<String>) -> Self {
        Self { message: message.into(), at: Some(at) }
    }
}

/// The response to a query, a line of JSON.
pub fn response(answer: Result<Vec<u8>, QueryError>) -> Vec<u8> {
    match answer {
        Ok(data) => [b"{\"data\":".as_slice(), &data, b"}\n"].concat(),
        Err(QueryError { message, at }) => {
            let at = at.map(|at| json!({"line": at.line, "column": at.column}));
            let locations: Vec<_> = at.into_iter().collect();
            let errors = json!([{"message": message, "locations": locations}]);
            format!("{}\n", json!({"data": null, "errors": errors})).into_bytes()
        }
    }
}

#[cfg(test)]
mod tests;
