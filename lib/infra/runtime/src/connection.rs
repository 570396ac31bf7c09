//! The connection to the API server.
//!
//! kube's own stack leaves Nagle's algorithm on: over HTTP/1.1 each request with a body then waits some 40 ms
//! for the server's delayed acknowledgement. This is the same stack with TCP_NODELAY. Proxies are left to kube.

use std::time::Duration;

use hyper_util::{
    client::legacy::{Client as HttpClient, connect::HttpConnector},
    rt::TokioExecutor,
};
use kube::{
    Client, Config,
    client::{Body, ConfigExt},
};
use tower::{BoxError, ServiceBuilder};

/// How long to wait for a connection to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an unused connection is kept.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);

/// A client for `config`.
///
/// # Errors
/// The configuration's certificates or credentials cannot be used.
pub(crate) fn client(config: Config) -> Result<Client, kube::Error> {
    if config.proxy_url.is_some() {
        return Client::try_from(config);
    }
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
    let https = config.rustls_https_connector_with_connector(connector)?;
    let http: HttpClient<_, Body> =
        HttpClient::builder(TokioExecutor::new()).pool_idle_timeout(IDLE_TIMEOUT).build(https);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(http);
    Ok(Client::new(service, config.default_namespace))
}
