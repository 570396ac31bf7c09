//! Conditional requests (RFC 9110, 13): whether the client needs the content at all.

use axum::{
    body::Body,
    http::{HeaderMap, HeaderName, Response, StatusCode, header},
};
use jiff::{Timestamp, civil::DateTime, fmt::rfc2822, tz::TimeZone};

use super::set;
use crate::limits::ETAGS_MAX;

/// What identifies an answer.
pub(super) struct Validators {
    /// Strong entity tag, quotes included. It names the content; a compressed form of it has the same tag as
    /// a weak one.
    pub(super) etag: String,
    /// Whether the answer is compressed.
    pub(super) is_compressed: bool,
    /// When the content was unpacked; seconds count.
    pub(super) last_modified: Timestamp,
}

impl Validators {
    /// The response to a request whose conditions ask for no content; `None` to continue.
    pub(super) fn check(&self, headers: &HeaderMap) -> Option<Response<Body>> {
        let status = self.status(headers)?;
        let mut response = Response::new(Body::empty());
        *response.status_mut() = status;
        if status == StatusCode::NOT_MODIFIED {
            self.stamp(&mut response);
        }
        Some(response)
    }

    fn status(&self, headers: &HeaderMap) -> Option<StatusCode> {
        if headers.contains_key(header::IF_MATCH) {
            if !named_in(headers, &header::IF_MATCH, |tag| tag == self.etag) {
                return Some(StatusCode::PRECONDITION_FAILED);
            }
        } else if let Some(since) = date(headers, &header::IF_UNMODIFIED_SINCE)
            && self.last_modified.as_second() > since.as_second()
        {
            return Some(StatusCode::PRECONDITION_FAILED);
        }
        if headers.contains_key(header::IF_NONE_MATCH) {
            let is_same = |tag: &str| tag.strip_prefix("W/").unwrap_or(tag) == self.etag;
            let named = named_in(headers, &header::IF_NONE_MATCH, is_same);
            return named.then_some(StatusCode::NOT_MODIFIED);
        }
        let since = date(headers, &header::IF_MODIFIED_SINCE)?;
        (self.last_modified.as_second() <= since.as_second()).then_some(StatusCode::NOT_MODIFIED)
    }

    /// Whether a `Range` header counts: `If-Range` has to name this very content.
    pub(super) fn range_counts(&self, headers: &HeaderMap) -> bool {
        let Some(condition) = headers.get(header::IF_RANGE) else { return true };
        match condition.to_str() {
            Ok(tag) if tag.starts_with('"') => tag == self.etag,
            Ok(_) => date(headers, &header::IF_RANGE)
                .is_some_and(|date| date.as_second() == self.last_modified.as_second()),
            Err(_) => false,
        }
    }

    /// Sets the headers that identify the content.
    pub(super) fn stamp<B>(&self, response: &mut Response<B>) {
        let weak = if self.is_compressed { "W/" } else { "" };
        set(response, header::ETAG, &format!("{weak}{}", self.etag));
        let printer = rfc2822::DateTimePrinter::new();
        if let Ok(text) = printer.timestamp_to_rfc9110_string(&self.last_modified) {
            set(response, header::LAST_MODIFIED, &text);
        }
    }
}

/// Whether a header has one of these tags, or names any.
fn named_in(headers: &HeaderMap, name: &HeaderName, is_same: impl Fn(&str) -> bool) -> bool {
    let tags = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    let mut tags = tags.flat_map(|list| list.split(',')).take(ETAGS_MAX).map(str::trim);
    tags.any(|tag| tag == "*" || is_same(tag))
}

/// The date in a header, in one of HTTP's three forms; what is none of them counts as absent.
fn date(headers: &HeaderMap, name: &HeaderName) -> Option<Timestamp> {
    let text = headers.get(name)?.to_str().ok()?;
    let civil = ["%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"]
        .into_iter()
        .find_map(|form| DateTime::strptime(form, text).ok())?;
    civil.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
}
