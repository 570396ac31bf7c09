//! GraphQL queries over a catalog, behind the gate `GraphQLCatalogQueries`.
//!
//! Types are found in the documents, when a content is first asked, and kept as long as it is served. A query
//! is read, bounded, checked against the types and carried out over the lines on disk, so memory grows
//! neither with the catalog nor, beyond a limit, with the answer. Names, limits and most words are upstream's.

mod execute;
mod guard;
mod introspection;
mod lexer;
mod names;
mod parser;
mod shape;
mod syntax;
mod types;
mod validate;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use serde_json::json;
use tokio::{sync::Semaphore, time::Instant};

use crate::{
    limits::{GRAPHQL_QUERIES_MAX, GRAPHQL_TIMEOUT},
    store::Generation,
};
use execute::{Source, execute};
use shape::{CatalogShape, ShapeError};
use syntax::Position;
use types::Types;

/// Answers queries; what was found out about catalogs is shared by its clones.
#[derive(Clone)]
pub(crate) struct Graphql {
    catalogs: Arc<Mutex<BTreeMap<String, Entry>>>,
    queries: Arc<Semaphore>,
}

/// The types of one content of a catalog, or why it has none.
type Known = Arc<Result<(CatalogShape, Types), String>>;

#[derive(Clone)]
struct Entry {
    generation: Weak<Generation>,
    /// Held while the types are found, so that they are found once.
    known: Arc<Mutex<Option<Known>>>,
}

/// Why a query has no answer.
#[derive(Debug, PartialEq, Eq)]
struct Problem {
    text: String,
    at: Option<Position>,
}

impl Problem {
    fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), at: None }
    }

    fn at(at: Position, text: impl Into<String>) -> Self {
        Self { text: text.into(), at: Some(at) }
    }
}

impl Graphql {
    pub(crate) fn new() -> Self {
        Self { catalogs: Arc::default(), queries: Arc::new(Semaphore::new(GRAPHQL_QUERIES_MAX)) }
    }

    /// The answer to a query as JSON, errors included.
    pub(crate) async fn answer(
        &self,
        catalog: String,
        generation: Arc<Generation>,
        query: String,
    ) -> Vec<u8> {
        // The semaphore is never closed; without a permit the work is done all the same.
        let permit = Arc::clone(&self.queries).acquire_owned().await.ok();
        let this = self.clone();
        let work = move || {
            let _permit = permit;
            this.run(&catalog, &generation, &query)
        };
        let answered = tokio::task::spawn_blocking(work).await;
        match answered.unwrap_or_else(|error| Err(Problem::plain(format!("internal: {error}")))) {
            Ok(data) => [b"{\"data\":".as_slice(), &data, b"}\n"].concat(),
            Err(Problem { text, at }) => {
                let at = at.map(|at| json!({"line": at.line, "column": at.column}));
                let locations: Vec<_> = at.into_iter().collect();
                let errors = json!([{"message": text, "locations": locations}]);
                format!("{}\n", json!({"data": null, "errors": errors})).into_bytes()
            }
        }
    }

    fn run(&self, catalog: &str, generation: &Arc<Generation>, query: &str) -> Result<Vec<u8>, Problem> {
        let document = parser::parse(query).map_err(|error| {
            let Position { line, column } = error.at;
            let text = format!("query parse error: Syntax Error GraphQL ({line}:{column}) {}", error.problem);
            Problem::at(error.at, text)
        })?;
        guard::check(&document).map_err(Problem::plain)?;
        let known = self.known(catalog, generation).map_err(|error| Problem::plain(error.to_string()))?;
        let (shape, types) = known.as_ref().as_ref().map_err(Problem::plain)?;
        let operation = validate::operation(&document, types)?;
        let deadline = Instant::now() + GRAPHQL_TIMEOUT;
        let source = Source { catalog: shape, types, generation, deadline };
        execute(&source, &document, operation)
    }

    /// The types of a content; found when it is first asked for. Blocks.
    fn known(&self, catalog: &str, generation: &Arc<Generation>) -> Result<Known, ShapeError> {
        let entry = {
            let mut catalogs = self.catalogs.lock().unwrap_or_else(PoisonError::into_inner);
            catalogs.retain(|_, entry| entry.generation.strong_count() > 0);
            let current = catalogs.get(catalog).filter(|entry| {
                entry.generation.upgrade().is_some_and(|held| Arc::ptr_eq(&held, generation))
            });
            if let Some(entry) = current {
                entry.clone()
            } else {
                let entry = Entry { generation: Arc::downgrade(generation), known: Arc::default() };
                catalogs.insert(catalog.to_owned(), entry.clone());
                entry
            }
        };
        let mut known = entry.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*known {
            return Ok(Arc::clone(known));
        }
        let found = match shape::derive(generation) {
            Ok(shape) => Types::of(&shape).map(|types| (shape, types)),
            Err(ShapeError::Content(problem)) => Err(ShapeError::Content(problem).to_string()),
            // Reading may succeed next time.
            Err(error) => return Err(error),
        };
        Ok(Arc::clone(known.insert(Arc::new(found))))
    }
}

#[cfg(test)]
mod tests;
