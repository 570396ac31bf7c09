//! Bounds requests in number and time, until the last byte of their answers.

use std::{
    net::{IpAddr, Ipv6Addr, SocketAddr},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{ConnectInfo, Request, State},
    http::{HeaderValue, Response, StatusCode, header},
    middleware::{Next, from_fn_with_state},
};
use http_body::{Frame, SizeHint};
use tokio::time::{Sleep, sleep};

use super::{
    ServerLimits,
    places::{Place, Places},
};

#[derive(Clone)]
struct Gate {
    requests: Arc<Places>,
    waiting_timeout: Duration,
    answer_timeout: Duration,
}

/// The router with so many requests at the same time as there are places.
pub(super) fn limited(router: Router, limits: &ServerLimits, requests: Arc<Places>) -> Router {
    let gate =
        Gate { requests, waiting_timeout: limits.waiting_timeout, answer_timeout: limits.answer_timeout };
    router.layer(from_fn_with_state(gate, pass))
}

async fn pass(State(gate): State<Gate>, request: Request, next: Next) -> Response<Body> {
    let client = request.extensions().get::<ConnectInfo<SocketAddr>>();
    let client = client.map_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED), |info| info.0.ip());
    let Some(place) = gate.requests.take(client, gate.waiting_timeout).await else { return busy() };
    let deadline = Box::pin(sleep(gate.answer_timeout));
    let response = next.run(request).await;
    response.map(|body| Body::new(Guarded { body, deadline, _place: place }))
}

fn busy() -> Response<Body> {
    let mut response = Response::new(Body::from("503 Service Unavailable\n"));
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    let headers = response.headers_mut();
    headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

/// A body that holds its place among the requests, and breaks off at its deadline.
struct Guarded {
    body: Body,
    deadline: Pin<Box<Sleep>>,
    _place: Place,
}

impl http_body::Body for Guarded {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.deadline.as_mut().poll(context).is_ready() {
            let late = std::io::Error::new(std::io::ErrorKind::TimedOut, "the client took too long");
            return Poll::Ready(Some(Err(axum::Error::new(late))));
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
