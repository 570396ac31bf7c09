//! The methods of the server, by their paths.

mod answers;
mod health;

use std::{
    convert::Infallible,
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

use futures::future::BoxFuture;
use olm_classic_core::registry_model::{Catalog, Content};
use olm_object::GroupVersionKind;
use prost_types::Struct;
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tonic::{Status, body::Body};
use tonic_reflection::server::Builder;
use tower::{Service, util::BoxCloneSyncService};

use crate::{
    api,
    convert::structure,
    limits::{LISTS_MAX, QUERIES_MAX, WATCHES_MAX},
    messages::DESCRIPTORS,
};
use answers::{Call, Message};

/// The header by which a client acknowledges that an API is experimental.
const ACKNOWLEDGED: &str = "x-acknowledge-experimental";

/// The catalogs that a server answers for.
pub trait Sources: Send + Sync + 'static {
    /// Their content.
    type Content: Content + 'static;

    /// The catalog for the requests of an authority, which is `host` or `host:port`; `None` when there is none, or when it
    /// is not read yet.
    fn catalog(&self, authority: &str) -> Option<Arc<Catalog<Self::Content>>>;

    /// Changes whenever catalogs come, go, or become others; closed where they never do.
    fn changes(&self) -> watch::Receiver<()> {
        watch::channel(()).1
    }
}

/// Name and namespace of the Service in an authority: `catalog.olm`, `catalog.olm.svc` or `catalog.olm.svc.cluster.local`, with
/// a port or without; `None` for any other.
pub fn service_of(authority: &str) -> Option<(&str, &str)> {
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    let mut labels = host.splitn(4, '.');
    match (labels.next(), labels.next(), labels.next()) {
        (Some(name), Some(namespace), None | Some("svc")) if !name.is_empty() && !namespace.is_empty() => {
            Some((name, namespace))
        }
        _ => None,
    }
}

/// The server. Clones share its limits.
pub struct RegistryServer<S> {
    sources: Arc<S>,
    queries: Arc<Semaphore>,
    lists: Arc<Semaphore>,
    watches: Arc<Semaphore>,
    reflection: Reflection,
    /// Ends what would never end.
    shutdown: CancellationToken,
}

/// Reflection in the two versions that clients ask.
type Reflection = [BoxCloneSyncService<http::Request<Body>, http::Response<Body>, Infallible>; 2];

impl<S> Clone for RegistryServer<S> {
    fn clone(&self) -> Self {
        Self {
            sources: Arc::clone(&self.sources),
            queries: Arc::clone(&self.queries),
            lists: Arc::clone(&self.lists),
            watches: Arc::clone(&self.watches),
            reflection: self.reflection.clone(),
            shutdown: self.shutdown.clone(),
        }
    }
}

impl<S> fmt::Debug for RegistryServer<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegistryServer").finish_non_exhaustive()
    }
}

impl<S: Sources> RegistryServer<S> {
    /// A server for these catalogs.
    pub fn new(sources: Arc<S>) -> Self {
        Self {
            sources,
            queries: Arc::new(Semaphore::new(QUERIES_MAX)),
            lists: Arc::new(Semaphore::new(LISTS_MAX)),
            watches: Arc::new(Semaphore::new(WATCHES_MAX)),
            reflection: reflection(),
            shutdown: CancellationToken::new(),
        }
    }

    /// The server, whose endless answers end with `shutdown`.
    pub(crate) fn until(self, shutdown: CancellationToken) -> Self {
        Self { shutdown, ..self }
    }

    async fn answer(mut self, request: http::Request<Body>) -> http::Response<Body> {
        let path = request.uri().path().to_owned();
        if let Some(method) = path.strip_prefix("/api.Registry/") {
            let call = Call::new(&self, request);
            return match method {
                "ListPackages"
                | "ListBundles"
                | "GetChannelEntriesThatReplace"
                | "GetChannelEntriesThatProvide"
                | "GetLatestChannelEntriesThatProvide" => list(method, call).await,
                _ => query(method, call).await,
            };
        }
        match path.as_str() {
            "/api.ExperimentalRegistry/ExperimentalListPackageCustomSchemas" => {
                documents(Call::new(&self, request)).await
            }
            "/grpc.health.v1.Health/Check" => self.check_health(request).await,
            "/grpc.health.v1.Health/Watch" => self.watch_health(request).await,
            path if path.starts_with("/grpc.reflection.v1.") => {
                infallible(self.reflection[0].call(request).await)
            }
            path if path.starts_with("/grpc.reflection.v1alpha.") => {
                infallible(self.reflection[1].call(request).await)
            }
            _ => unimplemented(),
        }
    }
}

/// The methods that answer with one message.
async fn query<S: Sources>(method: &str, call: Call<S>) -> http::Response<Body> {
    match method {
        "GetPackage" => {
            call.one(|catalog, asked: api::GetPackageRequest| {
                catalog.package(&asked.name).map(api::Package::from)
            })
            .await
        }
        "GetBundle" => {
            call.one(|catalog, asked: api::GetBundleRequest| {
                catalog.bundle(&asked.pkg_name, &asked.channel_name, &asked.csv_name).map(api::Bundle::from)
            })
            .await
        }
        "GetBundleForChannel" => {
            call.one(|catalog, asked: api::GetBundleInChannelRequest| {
                catalog.bundle_for_channel(&asked.pkg_name, &asked.channel_name).map(api::Bundle::from)
            })
            .await
        }
        "GetBundleThatReplaces" => {
            call.one(|catalog, asked: api::GetReplacementRequest| {
                catalog
                    .bundle_that_replaces(&asked.csv_name, &asked.pkg_name, &asked.channel_name)
                    .map(api::Bundle::from)
            })
            .await
        }
        "GetDefaultBundleThatProvides" => {
            call.one(|catalog, asked: api::GetDefaultProviderRequest| {
                let kind = kind(asked.group, asked.version, asked.kind);
                catalog.default_bundle_that_provides(&kind).map(api::Bundle::from)
            })
            .await
        }
        _ => unimplemented(),
    }
}

/// The methods that answer with a list.
async fn list<S: Sources>(method: &str, call: Call<S>) -> http::Response<Body> {
    match method {
        "ListPackages" => {
            call.many(|catalog, _: api::ListPackageRequest, send| {
                let mut names = catalog.packages().keys();
                names.all(|name| send(api::PackageName { name: name.clone() }));
                Ok(())
            })
            .await
        }
        "ListBundles" => {
            call.many(|catalog, _: api::ListBundlesRequest, send| {
                catalog.each_bundle(|bundle| send(api::Bundle::from(bundle)))
            })
            .await
        }
        "GetChannelEntriesThatReplace" => {
            call.many(|catalog, asked: api::GetAllReplacementsRequest, send| {
                catalog.entries_that_replace(&asked.csv_name, |entry| send(api::ChannelEntry::from(entry)))
            })
            .await
        }
        "GetChannelEntriesThatProvide" => {
            call.many(|catalog, asked: api::GetAllProvidersRequest, send| {
                let kind = kind(asked.group, asked.version, asked.kind);
                catalog.entries_that_provide(&kind, |entry| send(api::ChannelEntry::from(entry)))
            })
            .await
        }
        "GetLatestChannelEntriesThatProvide" => {
            call.many(|catalog, asked: api::GetLatestProvidersRequest, send| {
                let kind = kind(asked.group, asked.version, asked.kind);
                catalog.latest_entries_that_provide(&kind, |entry| send(api::ChannelEntry::from(entry)))
            })
            .await
        }
        _ => unimplemented(),
    }
}

/// The documents of a schema that is none of OLM's; none for clients that do not acknowledge the API as experimental.
async fn documents<S: Sources>(call: Call<S>) -> http::Response<Body> {
    let is_acknowledged = call.header(ACKNOWLEDGED) == Some("true");
    call.many(
        move |catalog, asked: api::ExperimentalListPackageCustomSchemasRequest, send: Message<'_, Struct>| {
            if !is_acknowledged {
                return Ok(());
            }
            catalog.each_document(&asked.schema, &asked.package_name, |document| {
                structure(document).is_none_or(&mut *send)
            })
        },
    )
    .await
}

fn kind(group: String, version: String, kind: String) -> GroupVersionKind {
    GroupVersionKind { group, version, kind }
}

fn unimplemented() -> http::Response<Body> {
    Status::unimplemented("the server has no such method").into_http()
}

fn infallible(answer: Result<http::Response<Body>, Infallible>) -> http::Response<Body> {
    match answer {
        Ok(answer) => answer,
        Err(never) => match never {},
    }
}

/// Reflection over all services.
fn reflection() -> Reflection {
    let builder = || Builder::configure().register_encoded_file_descriptor_set(DESCRIPTORS);
    let (Ok(v1), Ok(v1alpha)) = (builder().build_v1(), builder().build_v1alpha()) else {
        unreachable!("the descriptors are generated")
    };
    [BoxCloneSyncService::new(v1), BoxCloneSyncService::new(v1alpha)]
}

impl<S: Sources> Service<http::Request<Body>> for RegistryServer<S> {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let server = self.clone();
        Box::pin(async move { Ok(server.answer(request).await) })
    }
}

#[cfg(test)]
mod tests {
    use super::service_of;

    #[test]
    fn a_catalog_is_named_by_its_service_in_every_form() {
        for host in ["lamps.olm", "lamps.olm.svc", "lamps.olm.svc.cluster.local", "lamps.olm.svc.example."] {
            for authority in [host.to_owned(), format!("{host}:50051")] {
                assert_eq!(service_of(&authority), Some(("lamps", "olm")), "{authority}");
            }
        }
        for authority in [
            "",
            ":50051",
            "lamps",
            "localhost:50051",
            "127.0.0.1:50051",
            "[::1]:50051",
            ".olm",
            "lamps.",
            "lamps.olm.pod",
        ] {
            assert_eq!(service_of(authority), None, "{authority}");
        }
    }
}
