//! `/api/v1/all`: every line of a catalog, whole or in ranges.

use std::ops::Range;

use axum::{
    body::Bytes,
    http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header},
};

use super::{
    Content,
    body::{Answer, Part, length, lines},
    conditional::Validators,
    encoding::compressed,
    range::{Asked, parse},
    set, text,
};

/// JSON lines.
pub(super) const JSON_LINES: HeaderValue = HeaderValue::from_static("application/jsonl");
/// Separates the parts of an answer with several ranges. JSON lines never begin with two hyphens.
const BOUNDARY: &str = "catalog-range-boundary-8f14e45fceea167a";

pub(super) fn answer(content: Content, method: &Method, headers: &HeaderMap) -> Answer {
    let generation = content.generation;
    let etag = format!("\"{}\"", generation.digest());
    let mut validators = Validators { etag, is_compressed: false, last_modified: content.last_modified };
    let size = generation.bytes();
    let asked = match headers.get(header::RANGE).map(HeaderValue::to_str) {
        Some(Ok(range)) if validators.range_counts(headers) => parse(range, size),
        _ => Asked::Whole,
    };
    let whole: Vec<_> = Some(0..size).filter(|all| !all.is_empty()).into_iter().collect();
    // Ranges are ranges of the lines as they are.
    let member = match asked {
        Asked::Whole => compressed(method, headers, &generation, &whole),
        _ => None,
    };
    validators.is_compressed = member.is_some();
    if let Some(response) = validators.check(headers) {
        return Answer::Whole(response);
    }
    let mut response = match asked {
        Asked::Whole => {
            let is_plain = member.is_none();
            let mut response = lines(whole, member);
            if is_plain {
                response.headers_mut().insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
            }
            response
        }
        Asked::Unsatisfiable(why) => {
            let mut response = text(StatusCode::RANGE_NOT_SATISFIABLE, why);
            set(&mut response, header::CONTENT_RANGE, &format!("bytes */{size}"));
            return Answer::Whole(response);
        }
        Asked::Parts(ranges) => partial(ranges, size),
    };
    validators.stamp(&mut response);
    Answer::Parts(response, generation)
}

/// The head and the parts of an answer to a request for ranges.
fn partial(ranges: Vec<Range<u64>>, size: u64) -> Response<Vec<Part>> {
    let single = match ranges.as_slice() {
        [range] => Some(format!("bytes {}-{}/{size}", range.start, range.end - 1)),
        _ => None,
    };
    let parts = match single {
        Some(_) => ranges.into_iter().map(Part::Lines).collect(),
        None => multipart(ranges, size),
    };
    let bytes = length(&parts);
    let mut response = Response::new(parts);
    *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    if let Some(range) = single {
        response.headers_mut().insert(header::CONTENT_TYPE, JSON_LINES);
        set(&mut response, header::CONTENT_RANGE, &range);
    } else {
        set(&mut response, header::CONTENT_TYPE, &format!("multipart/byteranges; boundary={BOUNDARY}"));
    }
    response.headers_mut().insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    set(&mut response, header::CONTENT_LENGTH, &bytes.to_string());
    response
}

fn multipart(ranges: Vec<Range<u64>>, size: u64) -> Vec<Part> {
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
