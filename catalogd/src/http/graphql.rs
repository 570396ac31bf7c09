//! `/api/v1/graphql`: the request's body, and the answer's head.

use axum::{
    body::Body,
    http::{HeaderValue, Request, Response, StatusCode, header},
};
use http_body_util::{BodyExt, Limited};
use serde_json::Value;

use super::text;
use crate::limits::{GRAPHQL_BODY_BYTES_MAX, GRAPHQL_BODY_TIMEOUT, GRAPHQL_QUERY_BYTES_MAX};

/// The query in a request's body; the answer to a request that has none. Only `query` counts.
pub(super) async fn query(request: Request<Body>) -> Result<String, Response<Body>> {
    let refused = |why: &str| text(StatusCode::BAD_REQUEST, why);
    let invalid = || refused("Invalid request body");
    let body = Limited::new(request.into_body(), GRAPHQL_BODY_BYTES_MAX).collect();
    let read = tokio::time::timeout(GRAPHQL_BODY_TIMEOUT, body).await;
    let body = read.map_err(|_| invalid())?.map_err(|_| invalid())?.to_bytes();
    // What stands behind the first value is not looked at.
    let first = serde_json::Deserializer::from_slice(&body).into_iter::<Value>().next();
    let query = match first {
        Some(Ok(Value::Object(fields))) => {
            // Keys differ in case only to whoever looks closely.
            let field = fields.into_iter().find(|(key, _)| key.eq_ignore_ascii_case("query"));
            match field.map(|(_, value)| value) {
                Some(Value::String(query)) => query,
                None | Some(Value::Null) => String::new(),
                Some(_) => return Err(invalid()),
            }
        }
        Some(Ok(Value::Null)) => String::new(),
        _ => return Err(invalid()),
    };
    match query.len() {
        0 => Err(refused("Query cannot be empty")),
        bytes if bytes > GRAPHQL_QUERY_BYTES_MAX => Err(refused("Query too large")),
        _ => Ok(query),
    }
}

/// The answer to a query, as JSON.
pub(super) fn answered(json: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(Body::from(json));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
