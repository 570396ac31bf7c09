//! `/api/v1/graphql`: the request's body, and the answer's head.

use axum::{
    body::Body,
    http::{HeaderValue, Request, Response, StatusCode, header},
};
use http_body_util::{BodyExt, Limited};
use olm_go::field::names;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};

use super::text;
use crate::limits::{GRAPHQL_BODY_BYTES_MAX, GRAPHQL_BODY_TIMEOUT, GRAPHQL_QUERY_BYTES_MAX};

const INVALID: &str = "Invalid request body";

/// The query in a request's body; the answer to a request that has none. Only `query` counts.
pub(super) async fn query(request: Request<Body>) -> Result<String, Response<Body>> {
    let body = Limited::new(request.into_body(), GRAPHQL_BODY_BYTES_MAX).collect();
    let read = tokio::time::timeout(GRAPHQL_BODY_TIMEOUT, body).await.ok().and_then(Result::ok);
    let query = read.ok_or(INVALID).and_then(|body| parse(&body.to_bytes()));
    query.map_err(|why| text(StatusCode::BAD_REQUEST, why))
}

/// The query in a body, or what is wrong with it. Whatever follows the first value is ignored.
pub(super) fn parse(body: &[u8]) -> Result<String, &'static str> {
    let first = serde_json::Deserializer::from_slice(body).into_iter::<Option<Fields>>().next();
    let fields = first.and_then(Result::ok).ok_or(INVALID)?;
    let query = fields.map(|Fields(query)| query).unwrap_or_default();
    match query.len() {
        0 => Err("Query cannot be empty"),
        bytes if bytes > GRAPHQL_QUERY_BYTES_MAX => Err("Query too large"),
        _ => Ok(query),
    }
}

/// The fields of a request as Go reads them: keys in any case, and of several the last that is not null.
struct Fields(String);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfMap;
        impl<'de> Visitor<'de> for OfMap {
            type Value = Fields;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut query = String::new();
                while let Some(key) = map.next_key::<String>()? {
                    if names(&key, "query") {
                        query = map.next_value::<Option<String>>()?.unwrap_or(query);
                    } else {
                        map.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(Fields(query))
            }
        }
        deserializer.deserialize_map(OfMap)
    }
}

/// The answer to a query, as JSON.
pub(super) fn answered(json: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(Body::from(json));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    use super::{INVALID, parse};

    #[test]
    fn of_equal_keys_the_last_counts() {
        for (body, query) in [
            (r#"{"query":"a"}"#, Ok("a")),
            (r#"{"query":"a","query":"b"}"#, Ok("b")),
            (r#"{"query":"a","QUERY":"b"}"#, Ok("b")),
            (r#"{"QUERY":"a","query":"b"}"#, Ok("b")),
            (r#"{"QUERY":"a","query":"b","Query":"c","variables":{"query":"d"}}"#, Ok("c")),
            (r#"{"query":"a","Query":null} behind it"#, Ok("a")),
            (r#"{"other":[1,{}]}"#, Err("Query cannot be empty")),
            ("null", Err("Query cannot be empty")),
            (r#"{"query":"a","Query":1}"#, Err(INVALID)),
            (r#"["a"]"#, Err(INVALID)),
            ("", Err(INVALID)),
            (r#"{"query":"a""#, Err(INVALID)),
        ] {
            assert_eq!(parse(body.as_bytes()), query.map(str::to_owned), "{body}");
        }
    }
}
