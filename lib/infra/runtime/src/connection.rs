//! The connection to the API server.
//!
//! kube's own stack leaves Nagle's algorithm on: over HTTP/1.1 each request with a body then waits some 40 ms
//! for the server's delayed acknowledgement. This is the same stack with TCP_NODELAY, and it counts requests.
//! Proxies are left to kube.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use http::{Request, Response};

use hyper_util::{
    client::legacy::{Client as HttpClient, connect::HttpConnector},
    rt::TokioExecutor,
};
use kube::{
    Client, Config,
    client::{Body, ConfigExt},
};
use tower::{BoxError, Service, ServiceBuilder};

use crate::metrics::RequestCount;

/// How long to wait for a connection to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an unused connection is kept.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);

/// A client for `config`.
///
/// # Errors
/// The configuration's certificates or credentials cannot be used.
pub(crate) fn client(config: Config, count: RequestCount) -> Result<Client, kube::Error> {
    if config.proxy_url.is_some() {
        return Client::try_from(config);
    }
    let host = config.cluster_url.authority().map_or_else(String::new, ToString::to_string);
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
    let https = config.rustls_https_connector_with_connector(connector)?;
    let http: HttpClient<_, Body> =
        HttpClient::builder(TokioExecutor::new()).pool_idle_timeout(IDLE_TIMEOUT).build(https);
    let service = ServiceBuilder::new()
        .layer_fn(move |inner| Counted { inner, host: host.clone(), count: count.clone() })
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(http);
    Ok(Client::new(service, config.default_namespace))
}

/// Counts what is asked and answered.
#[derive(Clone)]
struct Counted<S> {
    inner: S,
    host: String,
    count: RequestCount,
}

impl<S, A, B> Service<Request<A>> for Counted<S>
where
    S: Service<Request<A>, Response = Response<B>>,
    S::Future: Send + 'static,
    B: 'static,
{
    type Response = Response<B>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<B>, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let (method, host, count) = (request.method().clone(), self.host.clone(), self.count.clone());
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await;
            count.count(&method, &host, answer.as_ref().ok().map(Response::status));
            answer
        })
    }
}
