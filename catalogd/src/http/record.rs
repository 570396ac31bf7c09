//! The log line and the duration of each request, recorded once its last byte is sent.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use axum::{
    body::{Body, Bytes},
    http::{Method, Request, Response, StatusCode, Uri, Version, header},
};
use http_body::{Frame, SizeHint};
use tokio::time::Instant;

use super::HttpMetrics;

/// A request that is being answered. Recorded when it is dropped, so also when the client goes away.
pub(super) struct Record {
    metrics: HttpMetrics,
    started: Instant,
    method: Method,
    uri: Uri,
    version: Version,
    host: Option<header::HeaderValue>,
    status: StatusCode,
    bytes: u64,
}

impl Record {
    pub(super) fn begin(request: &Request<Body>, metrics: HttpMetrics) -> Self {
        Self {
            metrics,
            started: Instant::now(),
            method: request.method().clone(),
            uri: request.uri().clone(),
            version: request.version(),
            host: request.headers().get(header::HOST).cloned(),
            status: StatusCode::OK,
            bytes: 0,
        }
    }

    /// Follows a response to its end.
    pub(super) fn follow(mut self, response: Response<Body>) -> Response<Body> {
        self.status = response.status();
        response.map(|body| Body::new(Recorded { body, record: self }))
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        let status = self.status.as_u16();
        self.metrics.answered(status, self.started.elapsed().as_secs_f64());
        let (method, uri, protocol, size) = (&self.method, &self.uri, self.version, self.bytes);
        let host = self.host.as_ref().and_then(|host| host.to_str().ok()).unwrap_or_default();
        if self.status.is_server_error() && self.status != StatusCode::SERVICE_UNAVAILABLE {
            tracing::error!(host, %method, %uri, ?protocol, status, size, "handled request");
        } else {
            tracing::debug!(host, %method, %uri, ?protocol, status, size, "handled request");
        }
    }
}

struct Recorded {
    body: Body,
    record: Record,
}

impl http_body::Body for Recorded {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &polled {
            self.record.bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        // The length of an empty body says nothing about the content.
        if self.record.status == StatusCode::NOT_MODIFIED {
            return SizeHint::default();
        }
        self.body.size_hint()
    }
}
