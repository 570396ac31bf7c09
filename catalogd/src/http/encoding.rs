//! The choice between an answer as it is and its compressed form, by `Accept-Encoding`.

use std::ops::Range;

use axum::http::{HeaderMap, Method, header};

use crate::{compressed::GzipMember, limits::COMPRESSED_ANSWER_BYTES_MIN, store::Generation};

/// The compressed form of these lines, if the client takes it, it is there, and it is worth it.
pub(super) fn compressed(
    method: &Method,
    headers: &HeaderMap,
    generation: &Generation,
    lines: &[Range<u64>],
) -> Option<GzipMember> {
    let bytes: u64 = lines.iter().map(|range| range.end - range.start).sum();
    if *method != Method::GET || bytes < COMPRESSED_ANSWER_BYTES_MIN || !is_gzip_wanted(headers) {
        return None;
    }
    generation.segments()?.member(lines).filter(|member| member.bytes() < bytes)
}

/// Whether `Accept-Encoding` has gzip (by name, or as `*`) with no less weight than plain text.
fn is_gzip_wanted(headers: &HeaderMap) -> bool {
    let (mut gzip, mut any, mut identity) = (None, None, None);
    let values = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    for coding in values.flat_map(|list| list.split(',')) {
        let (name, parameters) = coding.split_once(';').unwrap_or((coding, ""));
        let Some(weight) = weight(parameters) else { continue };
        match name.trim().to_ascii_lowercase().as_str() {
            "gzip" | "x-gzip" => gzip = gzip.max(Some(weight)),
            "*" => any = Some(weight),
            "identity" => identity = Some(weight),
            _ => {}
        }
    }
    let gzip = gzip.or(any).unwrap_or_default();
    gzip > 0 && gzip >= identity.unwrap_or_default()
}

/// The weight in thousandths; `None` when it is none, and the coding is then not counted.
fn weight(parameters: &str) -> Option<u16> {
    const WHOLE: u16 = 1_000;
    let mut found = WHOLE;
    for parameter in parameters.split(';').map(str::trim).filter(|parameter| !parameter.is_empty()) {
        let (name, value) = parameter.split_once('=')?;
        if !name.trim().eq_ignore_ascii_case("q") {
            continue;
        }
        let (whole, part) = value.trim().split_once('.').unwrap_or((value.trim(), ""));
        if part.len() > 3 || !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let part: u16 = format!("{part:0<3}").parse().ok()?;
        found = match whole {
            "0" => part,
            "1" if part == 0 => WHOLE,
            _ => return None,
        };
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, HeaderValue, header};

    use super::is_gzip_wanted;

    #[test]
    fn gzip_is_sent_to_whoever_takes_it() {
        for (accepted, wanted) in [
            (&["gzip"][..], true),
            (&["GZip"], true),
            (&["x-gzip"], true),
            (&["gzip, deflate, br, zstd"], true),
            (&["br", "gzip"], true),
            (&["gzip;q=0.001"], true),
            (&["gzip; q=1.0"], true),
            (&["deflate, gzip;q=1.0, *;q=0.5"], true),
            (&["*"], true),
            (&["*;q=0.1, identity;q=0"], true),
            (&["gzip, identity"], true),
            (&[], false),
            (&[""], false),
            (&["identity"], false),
            (&["br, zstd"], false),
            (&["gzip;q=0"], false),
            (&["gzip;q=0.000"], false),
            (&["gzip;q=0, *"], false),
            (&["*;q=0"], false),
            (&["gzip;q=0.5, identity"], false),
            (&["gzip;q=2"], false),
            (&["gzip;q=x"], false),
            (&["gzip;q=1.001"], false),
            (&["gzip;q=0.0001"], false),
        ] {
            let mut headers = HeaderMap::new();
            for value in accepted {
                headers.append(header::ACCEPT_ENCODING, HeaderValue::from_static(value));
            }
            assert_eq!(is_gzip_wanted(&headers), wanted, "{accepted:?}");
        }
    }
}
