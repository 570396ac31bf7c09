//! GraphQL queries over a catalog, behind the gate `GraphQLCatalogQueries`.
//!
//! The schema of a content is derived at the first query and kept as long as the content is served.

use std::{
    collections::BTreeMap,
    io,
    ops::Range,
    sync::{Arc, Weak},
};

use olm_graphql::{Documents, Query, QueryError, Schema, SchemaError, response};
use parking_lot::Mutex;
use tokio::{sync::Semaphore, time::Instant};

use crate::{
    limits::{GRAPHQL_QUERIES_MAX, GRAPHQL_TIMEOUT},
    store::Generation,
};

/// Answers queries. Clones share the schemas of catalogs and the limit of concurrent queries.
#[derive(Clone)]
pub(crate) struct Graphql {
    catalogs: Arc<Mutex<BTreeMap<String, Entry>>>,
    queries: Arc<Semaphore>,
}

/// The schema of a content, or the reason why it has none.
type Derived = Arc<Result<Schema, String>>;

#[derive(Clone)]
struct Entry {
    generation: Weak<Generation>,
    /// Locked while the schema is derived, so that this is done once.
    schema: Arc<Mutex<Option<Derived>>>,
}

impl Documents for Generation {
    fn schemas(&self) -> Vec<&str> {
        self.schemas().collect()
    }

    fn lines<'a>(&'a self, schema: &'a str) -> Box<dyn ExactSizeIterator<Item = Range<u64>> + 'a> {
        Box::new(self.lines(schema))
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.read_lines(buffer, offset)
    }
}

impl Graphql {
    pub(crate) fn new() -> Self {
        Self { catalogs: Arc::default(), queries: Arc::new(Semaphore::new(GRAPHQL_QUERIES_MAX)) }
    }

    /// The response to a query as JSON, errors included.
    pub(crate) async fn answer(
        &self,
        catalog: String,
        generation: Arc<Generation>,
        query: String,
    ) -> Vec<u8> {
        // The semaphore is never closed; without a permit the query is answered all the same.
        let permit = Arc::clone(&self.queries).acquire_owned().await.ok();
        let this = self.clone();
        let work = move || {
            let _permit = permit;
            response(this.run(&catalog, &generation, &query))
        };
        let answered = tokio::task::spawn_blocking(work).await;
        answered.unwrap_or_else(|error| response(Err(QueryError::plain(format!("internal: {error}")))))
    }

    fn run(&self, catalog: &str, generation: &Arc<Generation>, query: &str) -> Result<Vec<u8>, QueryError> {
        let query = Query::parse(query)?;
        let schema =
            self.schema(catalog, generation).map_err(|error| QueryError::plain(error.to_string()))?;
        let schema = schema.as_ref().as_ref().map_err(QueryError::plain)?;
        let deadline = Instant::now() + GRAPHQL_TIMEOUT;
        query.answer(schema, &**generation, &|| Instant::now() > deadline)
    }

    /// The schema of a content, derived when it is first asked for. Blocks.
    fn schema(&self, catalog: &str, generation: &Arc<Generation>) -> Result<Derived, SchemaError> {
        let entry = {
            let mut catalogs = self.catalogs.lock();
            catalogs.retain(|_, entry| entry.generation.strong_count() > 0);
            let current = catalogs.get(catalog).filter(|entry| {
                entry.generation.upgrade().is_some_and(|held| Arc::ptr_eq(&held, generation))
            });
            if let Some(entry) = current {
                entry.clone()
            } else {
                let entry = Entry { generation: Arc::downgrade(generation), schema: Arc::default() };
                catalogs.insert(catalog.to_owned(), entry.clone());
                entry
            }
        };
        let mut known = entry.schema.lock();
        if let Some(known) = &*known {
            return Ok(Arc::clone(known));
        }
        let derived = match Schema::derive(&**generation) {
            Ok(schema) => Ok(schema),
            Err(error @ SchemaError::Content(_)) => Err(error.to_string()),
            // Reading may succeed next time.
            Err(error @ SchemaError::Read(_)) => return Err(error),
        };
        Ok(Arc::clone(known.insert(Arc::new(derived))))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::Graphql;
    use crate::{
        Generation,
        testing::{ONE, TWO, TestStore},
    };

    async fn total_schemas(graphql: &Graphql, generation: &Arc<Generation>) -> Value {
        let query = "{summary{totalSchemas}}".to_owned();
        let answer = graphql.answer("c".to_owned(), Arc::clone(generation), query).await;
        serde_json::from_slice(&answer).unwrap()
    }

    #[tokio::test]
    async fn schemas_are_derived_once_for_each_content() {
        let test = TestStore::new();
        let graphql = Graphql::new();
        let total = |schemas: usize| json!({"data": {"summary": {"totalSchemas": schemas}}});
        let first = test.install("c", ONE, &[("c.json", r#"{"schema":"x"}{"schema":"y"}"#)]);
        assert_eq!(total_schemas(&graphql, &first).await, total(2));
        let known = graphql.schema("c", &first).unwrap();
        assert!(Arc::ptr_eq(&known, &graphql.schema("c", &first).unwrap()));
        let second = test.install("c", TWO, &[("c.json", r#"{"schema":"x"}"#)]);
        assert_eq!(total_schemas(&graphql, &second).await, total(1));
        assert!(!Arc::ptr_eq(&known, &graphql.schema("c", &second).unwrap()));
        drop((first, second));
        test.store.remove("c").unwrap();
        let other = test.install("d", ONE, &[("c.json", r#"{"schema":"y"}"#)]);
        graphql.schema("d", &other).unwrap();
        let catalogs = graphql.catalogs.lock();
        assert_eq!(catalogs.keys().collect::<Vec<_>>(), ["d"], "content that is not served is forgotten");
    }
}
