//! From a request to its endpoint, with the answers that need no content.
//!
//! Matched by hand rather than by a router: upstream's answers to odd paths and methods (307 on unclean
//! paths, 405 without `Allow`, 404 texts) are part of the contract.

use std::borrow::Cow;

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{HeaderValue, Method, Response, StatusCode, header},
};
use olm_object::names::{SUBDOMAIN_FORM, is_subdomain};
use percent_encoding::percent_decode_str;
use tokio::time::Instant;

use super::{Content, ContentServer, all, graphql, metas, record::Record, set, status_text, text};
use crate::{
    limits::{CATCH_UP, RETRY_AFTER_SECONDS},
    store::Slot,
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Endpoint {
    All,
    Metas,
    Graphql,
}

/// What a request asks for, its parameters checked.
enum Asked {
    All,
    Metas(metas::Parameters),
    Graphql(String),
}

pub(super) fn router(server: ContentServer) -> Router {
    Router::new().fallback(answer).with_state(server)
}

async fn answer(State(server): State<ContentServer>, request: Request) -> Response<Body> {
    let record = Record::begin(&request, server.metrics.clone());
    let mut response = match dispatch(&server, request).await {
        Ok(response) | Err(response) => response,
    };
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    record.follow(response)
}

/// The answer; one that needs no content is the error.
async fn dispatch(server: &ContentServer, request: Request) -> Result<Response<Body>, Response<Body>> {
    let (name, endpoint) = target(server, &request)?;
    // The parameters are checked before the content is looked up, as upstream does.
    let (method, headers) = (request.method().clone(), request.headers().clone());
    let asked = match endpoint {
        Endpoint::All => Asked::All,
        Endpoint::Metas => {
            let parameters = metas::Parameters::parse(request.uri().query().unwrap_or_default());
            Asked::Metas(parameters.ok_or_else(|| status_text(StatusCode::BAD_REQUEST))?)
        }
        Endpoint::Graphql => Asked::Graphql(graphql::query(request).await?),
    };
    let content = match select(server.store.slot(&name), Instant::now()) {
        Selected::Absent => return Err(status_text(StatusCode::NOT_FOUND)),
        Selected::OnItsWay => {
            let mut response = status_text(StatusCode::SERVICE_UNAVAILABLE);
            set(&mut response, header::RETRY_AFTER, &RETRY_AFTER_SECONDS.to_string());
            return Err(response);
        }
        Selected::Content(content) => content,
    };
    let is_head = method == Method::HEAD;
    Ok(match asked {
        Asked::All => all::answer(content, &method, &headers).into_response(is_head).await,
        Asked::Metas(parameters) => {
            metas::answer(content, &parameters, &method, &headers).into_response(is_head).await
        }
        Asked::Graphql(query) => {
            graphql::answered(server.graphql.answer(name, content.generation, query).await)
        }
    })
}

/// The catalog and the endpoint that a request is for; the answer to a request that is for none.
#[expect(clippy::result_large_err, reason = "an answer is what both ways lead to")]
fn target(server: &ContentServer, request: &Request) -> Result<(String, Endpoint), Response<Body>> {
    let path = request.uri().path();
    let clean = cleaned(path);
    if clean != path {
        return Err(redirect(&clean, request.uri().query()));
    }
    let Some((name, endpoint)) = route(path, server) else {
        return Err(text(StatusCode::NOT_FOUND, "404 page not found"));
    };
    let is_allowed = match endpoint {
        Endpoint::All | Endpoint::Metas => matches!(*request.method(), Method::GET | Method::HEAD),
        Endpoint::Graphql => *request.method() == Method::POST,
    };
    if !is_allowed {
        return Err(text(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed"));
    }
    match percent_decoded(name).filter(|name| is_subdomain(name)) {
        Some(name) => Ok((name, endpoint)),
        None => Err(text(StatusCode::BAD_REQUEST, &format!("invalid catalog name: {SUBDOMAIN_FORM}"))),
    }
}

enum Selected {
    Content(Content),
    /// The status names content that is not here yet.
    OnItsWay,
    Absent,
}

/// The content that answers a catalog's requests: newer content is waited for, but not for long.
fn select(slot: Slot, now: Instant) -> Selected {
    match (slot.generation, slot.announced) {
        (None, None) => Selected::Absent,
        (None, Some(_)) => Selected::OnItsWay,
        (Some(generation), announced) => {
            let (same, other): (Vec<_>, Vec<_>) =
                announced.into_iter().partition(|announced| announced.reference == generation.reference());
            if other.iter().any(|announced| now.saturating_duration_since(announced.since) < CATCH_UP) {
                return Selected::OnItsWay;
            }
            let last_unpacked = same.first().and_then(|announced| announced.last_unpacked);
            let last_modified = last_unpacked.unwrap_or_else(|| generation.unpacked_at());
            Selected::Content(Content { generation, last_modified })
        }
    }
}

fn route<'a>(path: &'a str, server: &ContentServer) -> Option<(&'a str, Endpoint)> {
    let (name, rest) = path.strip_prefix("/catalogs/")?.split_once('/')?;
    match rest {
        _ if name.is_empty() => None,
        "api/v1/all" => Some((name, Endpoint::All)),
        "api/v1/metas" if server.has_metas => Some((name, Endpoint::Metas)),
        "api/v1/graphql" if server.has_graphql => Some((name, Endpoint::Graphql)),
        _ => None,
    }
}

/// The path without empty, `.` and `..` segments; a slash at the end stays.
fn cleaned(path: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            _ => segments.push(segment),
        }
    }
    let mut clean = format!("/{}", segments.join("/"));
    if path.ends_with('/') && clean.len() > 1 {
        clean.push('/');
    }
    clean
}

fn redirect(path: &str, query: Option<&str>) -> Response<Body> {
    // Browsers take a backslash for a slash, and two of them begin the name of another host.
    let path = path.replace('\\', "%5C");
    let target = query.map_or_else(|| path.clone(), |query| format!("{path}?{query}"));
    let escaped =
        target.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&#34;");
    let mut response =
        Response::new(Body::from(format!("<a href=\"{escaped}\">Temporary Redirect</a>.\n\n")));
    *response.status_mut() = StatusCode::TEMPORARY_REDIRECT;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    set(&mut response, header::LOCATION, &target);
    response
}

/// Decodes percent encoding; `None` when it is malformed, which the library would let pass.
pub(super) fn percent_decoded(encoded: &str) -> Option<String> {
    let is_hex = |rest: &str| rest.bytes().take(2).filter(u8::is_ascii_hexdigit).count() == 2;
    let decoded = encoded.split('%').skip(1).all(is_hex).then(|| percent_decode_str(encoded))?;
    decoded.decode_utf8().ok().map(Cow::into_owned)
}
