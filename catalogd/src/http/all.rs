//! `/api/v1/all`: every line of a catalog, whole or in ranges.

use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, HeaderValue, Response, StatusCode, header},
};

use super::{
    Content,
    body::{Part, length, stream},
    conditional::Validators,
    range::{Asked, parse},
    set, text,
};

/// JSON lines.
pub(super) const JSON_LINES: HeaderValue = HeaderValue::from_static("application/jsonl");
/// Separates the parts of an answer with several ranges. JSON lines never begin with two hyphens.
const BOUNDARY: &str = "catalog-range-boundary-8f14e45fceea167a";

pub(super) fn answer(content: Content, headers: &HeaderMap) -> Response<Body> {
    let etag = format!("\"{}\"", content.generation.digest());
    let validators = Validators { etag, last_modified: content.last_modified };
    if let Some(response) = validators.check(headers) {
        return response;
    }
    let size = content.generation.bytes();
    let asked = match headers.get(header::RANGE).map(HeaderValue::to_str) {
        Some(Ok(range)) if validators.range_counts(headers) => parse(range, size),
        _ => Asked::Whole,
    };
    let (status, kind, parts) = match asked {
        Asked::Whole => (StatusCode::OK, None, vec![Part::Lines(0..size)]),
        Asked::Unsatisfiable(why) => {
            let mut response = text(StatusCode::RANGE_NOT_SATISFIABLE, why);
            set(&mut response, header::CONTENT_RANGE, &format!("bytes */{size}"));
            return response;
        }
        Asked::Parts(ranges) => match ranges.as_slice() {
            [range] => {
                let kind = Kind::Range(format!("bytes {}-{}/{size}", range.start, range.end - 1));
                (StatusCode::PARTIAL_CONTENT, Some(kind), vec![Part::Lines(range.clone())])
            }
            _ => (StatusCode::PARTIAL_CONTENT, Some(Kind::Multipart), multipart(ranges, size)),
        },
    };
    let bytes = length(&parts);
    let mut response = Response::new(stream(content.generation, parts));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, JSON_LINES);
    match kind {
        None => {}
        Some(Kind::Range(range)) => set(&mut response, header::CONTENT_RANGE, &range),
        Some(Kind::Multipart) => {
            set(&mut response, header::CONTENT_TYPE, &format!("multipart/byteranges; boundary={BOUNDARY}"));
        }
    }
    response.headers_mut().insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    set(&mut response, header::CONTENT_LENGTH, &bytes.to_string());
    validators.stamp(&mut response);
    response
}

enum Kind {
    Range(String),
    Multipart,
}

fn multipart(ranges: Vec<std::ops::Range<u64>>, size: u64) -> Vec<Part> {
    let mut parts = Vec::with_capacity(2 * ranges.len() + 1);
    for (at, range) in ranges.into_iter().enumerate() {
        let before = if at == 0 { "" } else { "\r\n" };
        let head = format!(
            "{before}--{BOUNDARY}\r\nContent-Range: bytes {}-{}/{size}\r\nContent-Type: application/jsonl\r\n\r\n",
            range.start,
            range.end - 1
        );
        parts.push(Part::Text(Bytes::from(head)));
        parts.push(Part::Lines(range));
    }
    parts.push(Part::Text(Bytes::from(format!("\r\n--{BOUNDARY}--\r\n"))));
    parts
}
