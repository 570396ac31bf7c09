//! The client: reads the catalog of a foreign server, which may be slow, endless or no registry at all.

use std::{fmt, time::Duration};

use http::uri::PathAndQuery;
use olm_classic_core::registry_model as model;
use prost::Message;
use thiserror::Error;
use tokio::time::{Instant, timeout_at};
use tonic::{
    Code, Request, Status, Streaming,
    client::Grpc,
    transport::{Channel, Endpoint},
};
use tonic_prost::ProstCodec;

use crate::{
    api,
    dial::{Proxy, channel, dial_error},
    health::{HealthCheckRequest, HealthCheckResponse, health_check_response::ServingStatus},
    limits::{
        ADDRESS_BYTES_MAX, ANSWER_TIMEOUT, CATALOG_BYTES_MAX, CATALOG_MESSAGES_MAX, CATALOG_TIMEOUT,
        KEEPALIVE_INTERVAL, KEEPALIVE_TIMEOUT, MESSAGE_BYTES_MAX, NAMES_BYTES_MAX,
    },
};

/// Why a server could not be read. Nothing of what a server sent is in the texts: who names an address need not be allowed
/// to read what is there.
#[derive(Debug, Error)]
pub enum ClientError {
    /// The address is none.
    #[error("the address is not of the form host:port")]
    Address,
    /// There is no connection to the server.
    #[error("{0}")]
    Unreachable(String),
    /// The connection ended, or was none of gRPC.
    #[error("{0}: the connection broke, or what answers there is no gRPC server")]
    Broken(&'static str),
    /// The server answered with an error.
    #[error("{method}: the server answered with an error: {}", code.description())]
    Call {
        /// Name of the method.
        method: &'static str,
        /// Code of the answer.
        code: Code,
    },
    /// The server did not answer in time.
    #[error("{0}: the server did not answer in time")]
    Timeout(&'static str),
    /// The catalog is larger than is read.
    #[error("{0}: the catalog has more than {CATALOG_MESSAGES_MAX} entries, or more bytes than are read")]
    TooLarge(&'static str),
}

/// A client of one server. Clones share its connection.
#[derive(Clone)]
pub struct RegistryClient {
    channel: Channel,
    timeout: Duration,
}

impl fmt::Debug for RegistryClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegistryClient").finish_non_exhaustive()
    }
}

impl RegistryClient {
    /// A client of the server at `host:port`, which connects when it is first used, and again whenever it has to.
    ///
    /// # Errors
    /// The address is none.
    pub fn new(address: &str) -> Result<Self, ClientError> {
        Self::by_way_of(None, address)
    }

    /// The same by way of a proxy.
    ///
    /// # Errors
    /// The address is none.
    pub fn by_way_of(proxy: Option<&Proxy>, address: &str) -> Result<Self, ClientError> {
        let (host, port) = address.rsplit_once(':').ok_or(ClientError::Address)?;
        let is_port = port.parse::<u16>().is_ok_and(|port| port > 0);
        if address.len() > ADDRESS_BYTES_MAX
            || host.is_empty()
            || host.contains(['/', '@', '?', '#'])
            || !is_port
        {
            return Err(ClientError::Address);
        }
        let endpoint =
            Endpoint::from_shared(format!("http://{address}")).map_err(|_| ClientError::Address)?;
        let endpoint =
            endpoint.http2_keep_alive_interval(KEEPALIVE_INTERVAL).keep_alive_timeout(KEEPALIVE_TIMEOUT);
        Ok(Self { channel: channel(&endpoint, proxy), timeout: CATALOG_TIMEOUT })
    }

    /// The same with another time for a whole catalog, which no single answer exceeds either.
    #[must_use]
    pub fn within(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Whether the server reports itself as serving, or answers without saying.
    ///
    /// # Errors
    /// It cannot be reached.
    pub async fn is_serving(&self) -> Result<bool, ClientError> {
        let asked = HealthCheckRequest::default();
        let path = PathAndQuery::from_static("/grpc.health.v1.Health/Check");
        match self.one::<_, HealthCheckResponse>("Check", path, asked).await {
            Ok(answer) => Ok(answer.status() == ServingStatus::Serving),
            Err(ClientError::Call { code: Code::Unimplemented, .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// A package with its channels.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn package(&self, name: &str) -> Result<model::Package, ClientError> {
        let asked = api::GetPackageRequest { name: name.to_owned() };
        let path = PathAndQuery::from_static("/api.Registry/GetPackage");
        self.one::<_, api::Package>("GetPackage", path, asked).await.map(model::Package::from)
    }

    /// The head of a channel, with its ClusterServiceVersion.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn head(&self, package: &str, channel: &str) -> Result<model::Bundle, ClientError> {
        let asked =
            api::GetBundleInChannelRequest { pkg_name: package.to_owned(), channel_name: channel.to_owned() };
        let path = PathAndQuery::from_static("/api.Registry/GetBundleForChannel");
        self.one::<_, api::Bundle>("GetBundleForChannel", path, asked).await.map(model::Bundle::from)
    }

    /// Names of the packages.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn packages(&self) -> Result<Vec<String>, ClientError> {
        let path = PathAndQuery::from_static("/api.Registry/ListPackages");
        let mut names = Vec::new();
        let take = |package: api::PackageName| {
            names.push(package.name);
            true
        };
        self.many("ListPackages", path, api::ListPackageRequest {}, NAMES_BYTES_MAX, take).await?;
        Ok(names)
    }

    /// Gives every entry of every channel to `take`, until it answers that it wants no more.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn each_bundle(&self, mut take: impl FnMut(model::Bundle) -> bool) -> Result<(), ClientError> {
        let path = PathAndQuery::from_static("/api.Registry/ListBundles");
        let take = |bundle: api::Bundle| take(bundle.into());
        self.many("ListBundles", path, api::ListBundlesRequest {}, CATALOG_BYTES_MAX, take).await
    }

    fn grpc(&self) -> Grpc<Channel> {
        Grpc::new(self.channel.clone()).max_decoding_message_size(MESSAGE_BYTES_MAX)
    }

    async fn one<Q, A>(&self, method: &'static str, path: PathAndQuery, asked: Q) -> Result<A, ClientError>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let mut grpc = self.grpc();
        let answer = async {
            grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
            grpc.unary(Request::new(asked), path, ProstCodec::default()).await
        };
        let end = Instant::now() + ANSWER_TIMEOUT.min(self.timeout);
        let answer = in_time(method, end, answer).await?;
        Ok(answer.into_inner())
    }

    async fn many<Q, A>(
        &self,
        method: &'static str,
        path: PathAndQuery,
        asked: Q,
        bytes_max: usize,
        mut take: impl FnMut(A) -> bool,
    ) -> Result<(), ClientError>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let end = Instant::now() + self.timeout;
        let next = || end.min(Instant::now() + ANSWER_TIMEOUT);
        let mut grpc = self.grpc();
        let answer = async {
            grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
            grpc.server_streaming(Request::new(asked), path, ProstCodec::default()).await
        };
        let mut messages: Streaming<A> = in_time(method, next(), answer).await?.into_inner();
        let (mut bytes, mut count) = (0_usize, 0_usize);
        while let Some(message) = in_time(method, next(), messages.message()).await? {
            bytes = bytes.saturating_add(message.encoded_len());
            count += 1;
            if bytes > bytes_max || count > CATALOG_MESSAGES_MAX {
                return Err(ClientError::TooLarge(method));
            }
            if !take(message) {
                return Ok(());
            }
        }
        Ok(())
    }
}

async fn in_time<T>(
    method: &'static str,
    end: Instant,
    answer: impl Future<Output = Result<T, Status>>,
) -> Result<T, ClientError> {
    timeout_at(end, answer).await.map_err(|_| ClientError::Timeout(method))?.map_err(|status| {
        match std::error::Error::source(&status) {
            Some(source) => match dial_error(source) {
                Some(error) => ClientError::Unreachable(error.to_string()),
                None => ClientError::Broken(method),
            },
            None => ClientError::Call { method, code: status.code() },
        }
    })
}
