//! Listening: a router behind limits, with or without TLS, and the health endpoints.
//!
//! Every connection has a time for its handshake and its headers and a least speed for reading answers, every
//! request a time for its whole answer, and only so many are answered at once; some more wait for their turn, and
//! those that come after that, or wait too long, are asked to come again. No address gets all the places. HTTP/1.1
//! only.

mod limit;
mod metrics;
mod pace;
mod peer;
mod places;
mod reviews;

use std::{
    io,
    net::{SocketAddr, TcpListener},
    sync::Arc,
    time::Duration,
};

use axum::{
    Router,
    http::{StatusCode, header},
    response::IntoResponse,
    routing::get,
};
use axum_server::{
    Handle,
    tls_rustls::{RustlsAcceptor, RustlsConfig},
};
use hyper_util::rt::TokioTimer;
use pace::{Pace, PacedAcceptor};
use peer::PeerAcceptor;
use places::Places;
use rustix::net::sockopt::set_socket_send_buffer_size;
use thiserror::Error;
use tokio_util::sync::CancellationToken;

pub use metrics::metrics_router;
pub use peer::PeerCertificates;
pub use reviews::{Decision, Kept, Reviews, bearer};

/// Bytes of an answer that wait for the client in this process, beside the piece that is being read. Headers of a
/// request are as long at most.
const BUFFER_BYTES_MAX: usize = 64 << 10;
/// Bytes of an answer that wait for the client in the kernel, which takes up to twice as many. By itself it takes
/// megabytes, which count as this process's memory where it runs in a container.
const SEND_BUFFER_BYTES: usize = 128 << 10;

/// Why nothing could be served.
#[derive(Debug, Error)]
pub enum HttpError {
    /// The address is none.
    #[error("address {address:?} is not of the form [host]:port")]
    Address {
        /// The text given.
        address: String,
    },
    /// The port could not be taken.
    #[error("listening on {address}: {source}")]
    Listen {
        /// Where.
        address: String,
        /// What the system said.
        source: io::Error,
    },
    /// The server ended.
    #[error("serving: {0}")]
    Serve(#[source] io::Error),
}

/// Limits of a server.
#[derive(Debug, Clone)]
pub struct ServerLimits {
    /// Connections at the same time, each with buffers. Of these and of requests a quarter is kept for clients whose
    /// address has few.
    pub connections_max: usize,
    /// Requests that are answered at the same time, bodies included.
    pub requests_max: usize,
    /// Requests that may wait for their turn beside those; they take no more than their connection.
    pub waiting_max: usize,
    /// How long they wait.
    pub waiting_timeout: Duration,
    /// For the TLS handshake, and for the headers of each request (so also between two requests).
    pub header_timeout: Duration,
    /// Bytes of an answer that a client takes a second at least, as a mean over ten `speed_window`s. While others
    /// wait for their turn, it is ten times as many, over one.
    pub speed_min: u64,
    /// Time in which a client does not take what there is for it, and after which its speed is looked at.
    pub speed_window: Duration,
    /// For one answer, from its request to the end of its body.
    pub answer_timeout: Duration,
    /// For the answers in flight when the process ends, which waits longer than that for its servers.
    pub drain_timeout: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            connections_max: 512,
            requests_max: 128,
            waiting_max: 1024,
            waiting_timeout: Duration::from_secs(10),
            header_timeout: Duration::from_secs(5),
            speed_min: 10 << 10,
            speed_window: Duration::from_secs(3),
            answer_timeout: Duration::from_mins(5),
            drain_timeout: Duration::from_secs(2),
        }
    }
}

/// Takes a port, given as `host:port` or `:port` (all addresses, of both IP versions where there are two).
///
/// # Errors
/// The text is no address, or the port is taken.
pub fn listen(address: &str) -> Result<TcpListener, HttpError> {
    let malformed = || HttpError::Address { address: address.to_owned() };
    let failed = |source| HttpError::Listen { address: address.to_owned(), source };
    let (host, port) = address.rsplit_once(':').ok_or_else(malformed)?;
    let port: u16 = port.parse().map_err(|_| malformed())?;
    let listener = if host.is_empty() {
        let both = TcpListener::bind(SocketAddr::from(([0_u16; 8], port)));
        both.or_else(|_| TcpListener::bind(SocketAddr::from(([0_u8; 4], port)))).map_err(failed)?
    } else {
        TcpListener::bind(address).map_err(failed)?
    };
    listener.set_nonblocking(true).map_err(failed)?;
    Ok(listener)
}

/// Serves `router` until `shutdown`, then finishes what is in flight. With `tls`, only TLS is spoken.
///
/// # Errors
/// The server ended by itself.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    tls: Option<Arc<rustls::ServerConfig>>,
    limits: ServerLimits,
    shutdown: CancellationToken,
) -> Result<(), HttpError> {
    let requests = Places::new(limits.requests_max, limits.waiting_max);
    let router = limit::limited(router, &limits, Arc::clone(&requests));
    let acceptor = PacedAcceptor {
        connections: Places::new(limits.connections_max, 0),
        pace: Pace { least: limits.speed_min, window: limits.speed_window, requests },
    };
    // Accepted connections inherit it.
    set_socket_send_buffer_size(&listener, SEND_BUFFER_BYTES)
        .map_err(|error| HttpError::Serve(error.into()))?;
    let handle = Handle::new();
    let mut server = axum_server::from_tcp(listener).map_err(HttpError::Serve)?.handle(handle.clone());
    let mut builder = server.http_builder().http1();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_buf_size(BUFFER_BYTES_MAX);
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    let drain = async {
        shutdown.cancelled().await;
        handle.graceful_shutdown(Some(limits.drain_timeout));
        std::future::pending().await
    };
    let serving = async {
        match tls {
            None => server.acceptor(acceptor).http1_only().serve(service).await,
            Some(config) => {
                let acceptor = RustlsAcceptor::new(RustlsConfig::from_config(config))
                    .handshake_timeout(limits.header_timeout)
                    .acceptor(acceptor);
                // Said once, and after the acceptor: a second time panics, and a new acceptor forgets it.
                server.acceptor(PeerAcceptor(acceptor)).http1_only().serve(service).await
            }
        }
    };
    tokio::select! {
        result = serving => result.map_err(HttpError::Serve),
        never = drain => never,
    }
}

/// `/healthz` and `/readyz`. `ready` says what is missing, if anything is.
pub fn health_router(ready: impl Fn() -> Result<(), String> + Clone + Send + Sync + 'static) -> Router {
    const PLAIN: [(header::HeaderName, &str); 1] = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
    let readiness = move || {
        let answer = match ready() {
            Ok(()) => (StatusCode::OK, PLAIN, "ok".to_owned()),
            Err(missing) => {
                (StatusCode::INTERNAL_SERVER_ERROR, PLAIN, format!("[-]{missing}\nreadyz check failed\n"))
            }
        };
        std::future::ready(answer.into_response())
    };
    Router::new().route("/healthz", get(async move || (PLAIN, "ok"))).route("/readyz", get(readiness))
}

#[cfg(test)]
mod tests;
