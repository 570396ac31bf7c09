//! The connection to the API server.
//!
//! kube's own stack leaves Nagle's algorithm on: over HTTP/1.1 each request with a body then waits some 40 ms
//! for the server's delayed acknowledgement. This is the same stack with TCP_NODELAY, and it counts requests, those
//! through a proxy too.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use http::{HeaderValue, Request, Response};

use hyper_util::{
    client::{
        legacy::{
            Client as HttpClient,
            connect::{
                Connect, HttpConnector,
                proxy::{SocksV5, Tunnel},
            },
        },
        proxy::matcher::Matcher,
    },
    rt::{TokioExecutor, TokioTimer},
};
use kube::{
    Client, Config,
    client::{Body, ConfigExt},
};
use tower::{BoxError, Service, ServiceBuilder};

use crate::metrics::RequestCount;

/// How long to wait for a connection to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an unused connection is kept; it is closed before twice this time is over. An installation of many objects makes
/// many at once.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5);

/// A client for `config`, through its proxy if it has one.
pub(crate) fn client(config: Config, count: RequestCount) -> Result<Client, kube::Error> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
    let Some(url) = config.proxy_url.clone() else {
        return over(config.rustls_https_connector_with_connector(tcp)?, config, count);
    };
    // Its scheme and host, without the password that may stand before it.
    let unsupported = || {
        let shown = format!("{}://{}", url.scheme_str().unwrap_or_default(), url.host().unwrap_or_default());
        kube::Error::ProxyProtocolUnsupported { proxy_url: Box::new(shown.parse().unwrap_or_default()) }
    };
    let proxy = Matcher::builder().all(url.to_string()).build().intercept(&config.cluster_url);
    let proxy = proxy.ok_or_else(unsupported)?;
    let (to, login) = (proxy.uri().clone(), proxy.basic_auth().cloned());
    match to.scheme_str() {
        Some("http") => {
            let tunnel = with_login(Tunnel::new(to, tcp), login);
            over(config.rustls_https_connector_with_connector(tunnel)?, config, count)
        }
        Some("https") => {
            let tunnel = Tunnel::new(to, config.rustls_https_connector_with_connector(tcp)?);
            let tunnel = with_login(tunnel, login);
            over(config.rustls_https_connector_with_connector(tunnel)?, config, count)
        }
        Some("socks5" | "socks5h") => {
            let mut tunnel = SocksV5::new(to, tcp);
            if let Some((user, password)) = proxy.raw_auth() {
                tunnel = tunnel.with_auth(user.to_owned(), password.to_owned());
            }
            over(config.rustls_https_connector_with_connector(tunnel)?, config, count)
        }
        _ => Err(unsupported()),
    }
}

fn with_login<C>(tunnel: Tunnel<C>, login: Option<HeaderValue>) -> Tunnel<C> {
    match login {
        Some(login) => tunnel.with_auth(login),
        None => tunnel,
    }
}

/// A client over connections of this kind.
fn over<C>(connector: C, config: Config, count: RequestCount) -> Result<Client, kube::Error>
where
    C: Connect + Clone + Send + Sync + 'static,
{
    let host = config.cluster_url.authority().map_or_else(String::new, ToString::to_string);
    let http: HttpClient<_, Body> = HttpClient::builder(TokioExecutor::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        // Without a timer unused connections are only closed when another one is asked for.
        .pool_timer(TokioTimer::new())
        .build(connector);
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
        let uri = request.uri().clone();
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await;
            let status = answer.as_ref().ok().map(Response::status);
            tracing::debug!(%method, %uri, status = status.map(|status| status.as_u16()), "API server asked");
            count.count(&method, &host, status);
            answer
        })
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::registry::Registry;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::Metrics;

    /// The head of a request.
    async fn head(stream: &mut tokio::net::TcpStream) -> String {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        String::from_utf8(head).unwrap()
    }

    /// Answers a request for the version of the API server.
    async fn answer(stream: &mut tokio::net::TcpStream) {
        let body = r#"{"major":"1","minor":"33","gitVersion":"v1.33.0","gitCommit":"","gitTreeState":"","buildDate":"","goVersion":"","compiler":"","platform":""}"#;
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        stream.write_all(answer.as_bytes()).await.unwrap();
    }

    #[tokio::test]
    async fn connections_that_nobody_uses_are_closed() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            head(&mut stream).await;
            answer(&mut stream).await;
            stream
        };
        let config = Config::new(format!("http://{address}").parse().unwrap());
        let client = client(config, RequestCount::default()).unwrap();
        let (version, mut stream) = tokio::join!(client.apiserver_version(), serving);
        assert_eq!(version.unwrap().minor, "33");
        tokio::time::pause();
        let closed = tokio::time::timeout(3 * IDLE_TIMEOUT, stream.read_u8()).await;
        assert!(closed.expect("it is open").is_err(), "more was asked");
    }

    #[tokio::test]
    async fn requests_through_a_proxy_log_in_there_and_are_counted() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = format!("http://me:p%40ss@{}", listener.local_addr().unwrap());
        let serving = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let asked = head(&mut stream).await;
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
            let request = head(&mut stream).await;
            answer(&mut stream).await;
            (asked, request)
        });
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let mut config = Config::new("http://api.example:8080".parse().unwrap());
        config.proxy_url = Some(proxy.parse().unwrap());
        let version = client(config, metrics.requests()).unwrap().apiserver_version().await.unwrap();
        assert_eq!(version.minor, "33");
        let (asked, request) = serving.await.unwrap();
        assert!(asked.starts_with("CONNECT api.example:8080 HTTP/1.1\r\n"), "{asked}");
        // me:p@ss
        assert!(asked.contains("Proxy-Authorization: Basic bWU6cEBzcw==\r\n"), "{asked}");
        assert!(request.starts_with("GET /version HTTP/1.1\r\n"), "{request}");
        let text = crate::metrics::text(&registry);
        let counted = "rest_client_requests_total{code=\"200\",host=\"api.example:8080\",method=\"GET\"} 1\n";
        assert!(text.contains(counted), "{text}");
    }

    #[tokio::test]
    async fn a_proxy_of_an_unknown_kind_is_refused() {
        let mut config = Config::new("http://api.example:8080".parse().unwrap());
        config.proxy_url = Some("gopher://me:secret@a:1".parse().unwrap());
        let Err(error) = client(config, RequestCount::default()) else { panic!("a client") };
        assert!(error.to_string().contains("gopher://a") && !error.to_string().contains("secret"), "{error}");
    }
}
