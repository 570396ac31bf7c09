//! The HTTP side: `/catalogs/<name>/api/v1/{all,metas}`, read-only, for everybody who reaches the port.
//!
//! Each request takes the generation of its catalog once and reads nothing else, so answers are never mixed
//! from two contents. Nothing is compressed while a request waits. Routes, answers and texts are upstream's;
//! beyond them answers carry an entity tag (digest and query), and content that is on its way is a 503.

mod all;
mod body;
mod conditional;
mod metas;
mod metrics;
mod range;
mod routes;

use std::sync::Arc;

use axum::{
    Router,
    body::Body,
    http::{HeaderName, HeaderValue, Response, StatusCode, header},
};
use jiff::Timestamp;

pub(crate) use metrics::HttpMetrics;

use crate::store::{CatalogStore, Generation};

/// What requests are answered from.
pub(crate) struct Serving {
    pub(crate) store: Arc<CatalogStore>,
    /// Whether `/metas` exists.
    pub(crate) metas: bool,
    pub(crate) metrics: HttpMetrics,
}

/// The routes over a store.
pub(crate) fn router(serving: Serving) -> Router {
    routes::router(Arc::new(serving))
}

/// The content a request is answered from.
struct Content {
    generation: Arc<Generation>,
    last_modified: Timestamp,
}

/// A text answer as the original's error answers: a line, not to be sniffed.
fn text(status: StatusCode, body: &str) -> Response<Body> {
    let mut response = Response::new(Body::from(format!("{body}\n")));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// `<code> <text>`, as the original's errors.
fn status_text(status: StatusCode) -> Response<Body> {
    text(status, &format!("{} {}", status.as_u16(), status.canonical_reason().unwrap_or_default()))
}

/// Sets a header whose value is made of what we printed ourselves.
fn set(response: &mut Response<Body>, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

#[cfg(test)]
mod tests;
