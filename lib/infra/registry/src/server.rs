//! Listening, and the limits of connections.

use std::net::TcpListener;

use thiserror::Error;
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;

use crate::{
    RegistryServer, Sources,
    connections::accepted,
    limits::{HEADER_BYTES_MAX, KEEPALIVE_INTERVAL, KEEPALIVE_TIMEOUT, RESET_STREAMS_MAX, STREAMS_MAX},
};

/// Why serving ended.
#[derive(Debug, Error)]
#[error("serving the registry API: {0}")]
pub struct ServeError(String);

/// Serves the registry API until `shutdown`, with health service and reflection.
///
/// # Errors
/// The listener cannot be used, or the server ended by itself.
pub async fn serve<S: Sources>(
    listener: TcpListener,
    server: RegistryServer<S>,
    shutdown: CancellationToken,
) -> Result<(), ServeError> {
    let failed = |error: &dyn std::fmt::Display| ServeError(error.to_string());
    listener.set_nonblocking(true).map_err(|error| failed(&error))?;
    let listener = tokio::net::TcpListener::from_std(listener).map_err(|error| failed(&error))?;
    let server = server.until(shutdown.clone());
    Server::builder()
        .max_concurrent_streams(STREAMS_MAX)
        .http2_max_header_list_size(HEADER_BYTES_MAX)
        .http2_max_pending_accept_reset_streams(Some(RESET_STREAMS_MAX))
        .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
        .serve_with_incoming_shutdown(server, Box::pin(accepted(listener)), shutdown.cancelled_owned())
        .await
        .map_err(|error| failed(&error))
}
