//! The HTTP side: `/catalogs/<name>/api/v1/{all,metas,graphql}`, read-only, for everybody who reaches the port.
//!
//! Each request takes the generation of its catalog once and reads nothing else, so answers are never mixed
//! from two contents. Nothing is compressed while a request waits: what is sent compressed was made before, and
//! until then content is sent as it is. Routes, answers and texts are upstream's;
//! beyond them answers carry an entity tag (digest and query), and content that is on its way is a 503.

mod all;
mod body;
mod conditional;
mod encoding;
mod graphql;
mod metas;
mod metrics;
mod range;
mod record;
mod routes;

use std::sync::Arc;

use axum::{
    Router,
    body::Body,
    http::{HeaderName, HeaderValue, Response, StatusCode, header},
};
use jiff::Timestamp;
use metrics::HttpMetrics;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

use crate::{
    Config,
    compressed::worker,
    graphql::Graphql,
    store::{CatalogStore, Generation},
};

/// Serves the content of a store: the routes, and the making of compressed forms.
#[derive(Clone)]
pub struct ContentServer {
    store: Arc<CatalogStore>,
    has_metas: bool,
    has_graphql: bool,
    graphql: Graphql,
    metrics: HttpMetrics,
}

impl ContentServer {
    /// Serves a store with the endpoints that `config` has on, and registers the metric.
    pub fn new(store: Arc<CatalogStore>, config: &Config, registry: &mut Registry) -> Self {
        Self {
            store,
            has_metas: config.metas,
            has_graphql: config.graphql,
            graphql: Graphql::new(),
            metrics: HttpMetrics::register(registry),
        }
    }

    /// The same for a process without metrics.
    pub fn unmeasured(store: Arc<CatalogStore>, config: &Config) -> Self {
        Self::new(store, config, &mut Registry::default())
    }

    /// The HTTP routes, to be put on a listener.
    pub fn router(&self) -> Router {
        routes::router(self.clone())
    }

    /// Compresses what is served, as it comes, until `shutdown`.
    pub async fn run(&self, shutdown: CancellationToken) {
        worker::run(Arc::clone(&self.store), shutdown).await;
    }
}

/// What `/api/v1/graphql` answers to a request with this body, for tests that have no server.
#[doc(hidden)]
pub async fn answer_graphql(generation: Arc<Generation>, body: &[u8]) -> Result<Vec<u8>, &'static str> {
    let query = graphql::parse(body)?;
    Ok(Graphql::new().answer(String::new(), generation, query).await)
}

/// The content a request is answered from.
struct Content {
    generation: Arc<Generation>,
    last_modified: Timestamp,
}

/// A text answer like Go's error answers: a line, not to be sniffed.
fn text(status: StatusCode, body: &str) -> Response<Body> {
    let mut response = Response::new(Body::from(format!("{body}\n")));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// `<code> <text>`, like upstream's errors.
fn status_text(status: StatusCode) -> Response<Body> {
    text(status, &format!("{} {}", status.as_u16(), status.canonical_reason().unwrap_or_default()))
}

/// Sets a header to a value of our own, which is always valid.
fn set<B>(response: &mut Response<B>, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

#[cfg(test)]
mod tests;
