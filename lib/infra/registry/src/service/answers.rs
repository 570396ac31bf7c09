//! How methods are answered: on threads that may block, some at the same time, each list no faster than its client reads.

use std::{sync::Arc, time::Duration};

use futures::stream::BoxStream;
use olm_classic_core::registry_model::{Catalog, QueryError};
use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    time::{Instant, timeout, timeout_at},
};
use tonic::{Request, Response, Status, body::Body, server::Grpc};
use tonic_prost::ProstCodec;
use tower::service_fn;

use super::{RegistryServer, Sources};
use crate::limits::{
    ANSWER_BYTES_MAX, LIST_TIMEOUT, MESSAGE_TIMEOUT, MESSAGES_WAITING_MAX, REQUEST_BYTES_MAX, TURN_TIMEOUT,
};

/// Takes the next message of a list; answers whether more are wanted.
pub(super) type Message<'m, M> = &'m mut dyn FnMut(M) -> bool;

/// A request to a catalog.
pub(super) struct Call<S: Sources> {
    request: http::Request<Body>,
    catalog: Result<Arc<Catalog<S::Content>>, Status>,
    queries: Arc<Semaphore>,
    lists: Arc<Semaphore>,
}

/// The authority of a request: of its URI, or by the header of HTTP/1.
pub(super) fn authority(request: &http::Request<Body>) -> String {
    let host = || request.headers().get(http::header::HOST).and_then(|host| host.to_str().ok());
    request.uri().authority().map(http::uri::Authority::as_str).or_else(host).unwrap_or_default().to_owned()
}

pub(super) fn codec<E: prost::Message + 'static, D: prost::Message + Default + 'static>()
-> Grpc<ProstCodec<E, D>> {
    Grpc::new(ProstCodec::default())
        .max_decoding_message_size(REQUEST_BYTES_MAX)
        .max_encoding_message_size(ANSWER_BYTES_MAX)
}

/// Answers at once.
pub(super) async fn immediate<Q, A>(
    request: http::Request<Body>,
    answer: impl Fn(Q) -> A + Copy + Send + 'static,
) -> http::Response<Body>
where
    Q: prost::Message + Default + 'static,
    A: prost::Message + 'static,
{
    let service = service_fn(move |asked: Request<Q>| async move {
        Ok::<_, Status>(Response::new(answer(asked.into_inner())))
    });
    codec().unary(service, request).await
}

impl<S: Sources> Call<S> {
    pub(super) fn new(server: &RegistryServer<S>, request: http::Request<Body>) -> Self {
        let authority = authority(&request);
        let catalog = server.sources.catalog(&authority).ok_or_else(|| {
            Status::unavailable(format!(
                "no catalog is served for {authority:?}: there is no such CatalogSource, or its content was not read yet"
            ))
        });
        Self { request, catalog, queries: Arc::clone(&server.queries), lists: Arc::clone(&server.lists) }
    }

    /// A header of the request.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.request.headers().get(name).and_then(|value| value.to_str().ok())
    }

    /// Answers with one message.
    pub(super) async fn one<Q, A>(
        self,
        query: impl FnOnce(&Catalog<S::Content>, Q) -> Result<A, QueryError> + Send + Clone + 'static,
    ) -> http::Response<Body>
    where
        Q: prost::Message + Default + 'static,
        A: prost::Message + 'static,
    {
        let (catalog, queries) = (self.catalog, self.queries);
        let service = service_fn(move |asked: Request<Q>| {
            let (catalog, queries, query) = (catalog.clone(), Arc::clone(&queries), query.clone());
            async move {
                let (catalog, turn) = (catalog?, turn(queries).await?);
                let answered = tokio::task::spawn_blocking(move || {
                    let _turn = turn;
                    query(&catalog, asked.into_inner())
                });
                answered
                    .await
                    .map_err(|error| Status::internal(error.to_string()))?
                    .map(Response::new)
                    .map_err(status)
            }
        });
        codec().unary(service, self.request).await
    }

    /// Answers with a list.
    pub(super) async fn many<Q, A>(
        self,
        query: impl FnOnce(&Catalog<S::Content>, Q, Message<'_, A>) -> Result<(), QueryError>
        + Send
        + Clone
        + 'static,
    ) -> http::Response<Body>
    where
        Q: prost::Message + Default + 'static,
        A: prost::Message + 'static,
    {
        let (catalog, lists) = (self.catalog, self.lists);
        let service = service_fn(move |asked: Request<Q>| {
            let (catalog, lists, query) = (catalog.clone(), Arc::clone(&lists), query.clone());
            async move {
                let (catalog, turn) = (catalog?, turn(lists).await?);
                let (sender, mut receiver) = mpsc::channel(MESSAGES_WAITING_MAX);
                let runtime = Handle::current();
                tokio::task::spawn_blocking(move || {
                    let _turn = turn;
                    let end = Instant::now() + LIST_TIMEOUT;
                    let send = |message| {
                        let end = end.min(Instant::now() + MESSAGE_TIMEOUT);
                        matches!(runtime.block_on(timeout_at(end, sender.send(message))), Ok(Ok(())))
                    };
                    if let Err(error) = query(&catalog, asked.into_inner(), &mut |message| send(Ok(message)))
                    {
                        send(Err(status(error)));
                    }
                });
                let messages: BoxStream<'static, Result<A, Status>> =
                    Box::pin(futures::stream::poll_fn(move |context| receiver.poll_recv(context)));
                Ok(Response::new(messages))
            }
        });
        codec().server_streaming(service, self.request).await
    }
}

/// Waits for a turn.
async fn turn(places: Arc<Semaphore>) -> Result<OwnedSemaphorePermit, Status> {
    let wait: Duration = TURN_TIMEOUT;
    match timeout(wait, places.acquire_owned()).await {
        Ok(Ok(turn)) => Ok(turn),
        _ => Err(Status::resource_exhausted("the server is busy with other requests: try again later")),
    }
}

fn status(error: QueryError) -> Status {
    match error {
        QueryError::Unknown(text) => Status::unknown(text),
        QueryError::InvalidArgument(text) => Status::invalid_argument(text),
    }
}
