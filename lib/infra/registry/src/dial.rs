//! Connections of the client. The address is a user's of a namespace: link-local addresses, where clouds keep credentials of
//! nodes, are not asked, whatever name leads to them. A proxy resolves names itself.

use std::{
    error::Error,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use http::Uri;
use hyper_util::{
    client::{legacy::connect::proxy::Tunnel, proxy::matcher::Matcher},
    rt::TokioIo,
};
use olm_image::is_link_local;
use thiserror::Error;
use tokio::{
    net::{TcpStream, lookup_host},
    time::timeout,
};
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

use crate::limits::CONNECT_TIMEOUT;

/// The addresses of a name that are tried.
const ADDRESSES_MAX: usize = 4;
/// The port of a proxy that names none.
const PROXY_PORT: u16 = 80;

/// Why there is no connection.
#[derive(Debug, Error)]
pub(crate) enum DialError {
    /// No answer, or the system's error.
    #[error("{0}")]
    Failed(String),
    /// The name leads to an address that is not asked.
    #[error("link-local, unspecified and multicast addresses are not asked")]
    Forbidden,
}

/// The proxy that leads to registry servers, and for which hosts.
#[derive(Debug, Clone)]
pub struct Proxy {
    address: Uri,
    hosts: std::sync::Arc<Matcher>,
}

impl Proxy {
    /// The proxy at `address`, for all hosts but those in `no`, which has the form of the variable `NO_PROXY`. `None` when
    /// the address is none.
    pub fn new(address: &str, no: &str) -> Option<Self> {
        let url = if address.contains("://") { address.to_owned() } else { format!("http://{address}") };
        let address: Uri = url.parse().ok()?;
        address.host().filter(|host| !host.is_empty())?;
        let hosts = Matcher::builder().all(url).no(no.to_owned()).build();
        Some(Self { address, hosts: hosts.into() })
    }
}

/// A channel to the server of an endpoint, which connects when it is first used, and again whenever it has to.
pub(crate) fn channel(endpoint: &Endpoint, proxy: Option<&Proxy>) -> Channel {
    match proxy.filter(|proxy| proxy.hosts.intercept(endpoint.uri()).is_some()) {
        Some(Proxy { address, .. }) => {
            let to_proxy = service_fn(|uri: Uri| dial(uri, |_| true));
            endpoint.connect_with_connector_lazy(Tunnel::new(address.clone(), to_proxy))
        }
        None => endpoint
            .connect_with_connector_lazy(service_fn(|uri: Uri| dial(uri, |found| !is_forbidden(found)))),
    }
}

async fn dial(uri: Uri, is_permitted: impl Fn(IpAddr) -> bool) -> Result<TokioIo<TcpStream>, DialError> {
    let host = uri.host().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let failed = |error: std::io::Error| DialError::Failed(error.to_string());
    let connected = async {
        let found = lookup_host((host, uri.port_u16().unwrap_or(PROXY_PORT))).await.map_err(failed)?;
        let found: Vec<SocketAddr> = found.collect();
        // Which one is dialled must not depend on their order.
        if !found.iter().all(|at| is_permitted(at.ip())) {
            return Err(DialError::Forbidden);
        }
        let mut last = DialError::Failed("the name has no address".to_owned());
        for at in found.into_iter().take(ADDRESSES_MAX) {
            match TcpStream::connect(at).await {
                Ok(stream) => return Ok(stream),
                Err(error) => last = failed(error),
            }
        }
        Err(last)
    };
    let late = |wait: Duration| DialError::Failed(format!("no connection within {} s", wait.as_secs()));
    let stream = timeout(CONNECT_TIMEOUT, connected).await.map_err(|_| late(CONNECT_TIMEOUT))??;
    stream.set_nodelay(true).map_err(failed)?;
    Ok(TokioIo::new(stream))
}

fn is_forbidden(address: IpAddr) -> bool {
    let address = address.to_canonical();
    let is_broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    is_link_local(address) || is_broadcast || address.is_unspecified() || address.is_multicast()
}

/// The reason for which there is no connection, if that is what an error is about.
pub(crate) fn dial_error<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e DialError> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = error.source();
    }
    None
}
