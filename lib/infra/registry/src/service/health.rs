//! The health service: whether the catalog of an authority can be queried. A probe that connects to an address asks for the
//! server itself.

use futures::{StreamExt, stream};
use tonic::{Request, Response, Status, body::Body};
use tower::service_fn;

use super::{RegistryServer, Sources, answers, service_of};
use crate::health::{HealthCheckRequest, HealthCheckResponse, health_check_response::ServingStatus};

fn health<S: Sources>(sources: &S, authority: &str) -> ServingStatus {
    let is_serving = service_of(authority).is_none() || sources.catalog(authority).is_some();
    if is_serving { ServingStatus::Serving } else { ServingStatus::NotServing }
}

impl<S: Sources> RegistryServer<S> {
    /// Answers with the state.
    pub(super) async fn check_health(&self, request: http::Request<Body>) -> http::Response<Body> {
        let status = health(&*self.sources, &answers::authority(&request));
        let answer = move |_: HealthCheckRequest| HealthCheckResponse { status: status.into() };
        answers::immediate(request, answer).await
    }

    /// Answers with the state, and with every other one from then on.
    pub(super) async fn watch_health(&self, request: http::Request<Body>) -> http::Response<Body> {
        let Ok(place) = self.watches.clone().try_acquire_owned() else {
            return Status::resource_exhausted("too many clients watch the health of catalogs: use Check")
                .into_http();
        };
        let (authority, sources) = (answers::authority(&request), self.sources.clone());
        let start = (sources.changes(), None);
        let states = stream::unfold(start, move |(mut changes, sent)| {
            let (authority, sources) = (authority.clone(), sources.clone());
            async move {
                loop {
                    changes.borrow_and_update();
                    let status = health(&*sources, &authority);
                    if sent != Some(status) {
                        return Some((
                            Ok(HealthCheckResponse { status: status.into() }),
                            (changes, Some(status)),
                        ));
                    }
                    if changes.changed().await.is_err() {
                        std::future::pending::<()>().await;
                    }
                }
            }
        });
        let states = states.take_until(self.shutdown.clone().cancelled_owned());
        // The place is free again when the client is gone.
        let states = states.map(move |state| {
            let _place = &place;
            state
        });
        let mut states = Some(states.boxed());
        let service = service_fn(move |_: Request<HealthCheckRequest>| {
            let states = states.take().ok_or_else(|| Status::internal("a request is answered once"));
            async move { states.map(Response::new) }
        });
        answers::codec().server_streaming(service, request).await
    }
}
