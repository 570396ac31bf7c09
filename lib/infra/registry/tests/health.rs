//! Watching the health of a catalog.
#![expect(clippy::expect_used, reason = "a helper of a test fails like the test itself")]

mod world;

use std::sync::{Arc, Mutex, PoisonError};

use http::uri::PathAndQuery;
use olm_classic_core::registry_model::Catalog;
use olm_registry::{
    Sources,
    health::{HealthCheckRequest, HealthCheckResponse, health_check_response::ServingStatus},
    limits::{STREAMS_MAX, WATCHES_MAX},
};
use tokio::sync::watch;
use tonic::{Code, Request, Status, Streaming, client::Grpc, transport::Channel};
use tonic_prost::ProstCodec;
use world::{Lines, World};

const CATALOG: &[u8] = br#"{"schema":"olm.package","name":"lamp","defaultChannel":"c"}
{"schema":"olm.channel","package":"lamp","name":"c","entries":[{"name":"lamp.v1"}]}
{"schema":"olm.bundle","package":"lamp","name":"lamp.v1","image":"r/lamp:1","properties":[{"type":"olm.package","value":{"packageName":"lamp","version":"1.0.0"}}]}
"#;

/// A catalog that comes and goes.
#[derive(Default)]
struct Changing {
    catalog: Mutex<Option<Arc<Catalog<Lines>>>>,
    changes: watch::Sender<()>,
}

impl Changing {
    fn set(&self, is_served: bool) {
        let catalog = || Arc::new(Catalog::read(Lines::read(CATALOG), None).expect("a catalog"));
        *self.catalog.lock().unwrap_or_else(PoisonError::into_inner) = is_served.then(catalog);
        self.changes.send_replace(());
    }
}

impl Sources for Changing {
    type Content = Lines;

    fn catalog(&self, _: &str) -> Option<Arc<Catalog<Lines>>> {
        self.catalog.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }
}

type Answer = Result<Streaming<HealthCheckResponse>, Status>;

async fn watch(channel: &Channel) -> Answer {
    let mut grpc = Grpc::new(channel.clone());
    grpc.ready().await.expect("connected");
    let path = PathAndQuery::from_static("/grpc.health.v1.Health/Watch");
    let codec = ProstCodec::<HealthCheckRequest, HealthCheckResponse>::default();
    let asked = Request::new(HealthCheckRequest::default());
    grpc.server_streaming(asked, path, codec).await.map(tonic::Response::into_inner)
}

async fn next(states: &mut Streaming<HealthCheckResponse>) -> Option<ServingStatus> {
    states.message().await.expect("a state").map(|state| state.status())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_other_state_is_reported_and_a_server_that_ends_waits_for_nobody() {
    let sources = Arc::new(Changing::default());
    let world = World::serve(sources.clone());
    let mut states = watch(&world.channel("lamps.olm.svc:50051")).await.expect("watched");
    assert_eq!(next(&mut states).await, Some(ServingStatus::NotServing));
    sources.set(true);
    assert_eq!(next(&mut states).await, Some(ServingStatus::Serving));
    // The same again is no change.
    sources.set(true);
    sources.set(false);
    assert_eq!(next(&mut states).await, Some(ServingStatus::NotServing));
    let mut of_server = watch(&world.channel("localhost:50051")).await.expect("watched");
    assert_eq!(next(&mut of_server).await, Some(ServingStatus::Serving));
    drop(world);
    assert_eq!(next(&mut states).await, None);
    assert_eq!(next(&mut of_server).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_so_many_watch_at_the_same_time() {
    let world = World::start(CATALOG);
    let mut watching = Vec::new();
    while watching.len() < WATCHES_MAX {
        let channel = world.channel("kiosk.olm.svc:50051");
        let count = WATCHES_MAX.min(watching.len() + STREAMS_MAX as usize);
        while watching.len() < count {
            let mut states = watch(&channel).await.expect("watched");
            assert_eq!(next(&mut states).await, Some(ServingStatus::Serving));
            watching.push(states);
        }
    }
    let channel = world.channel("kiosk.olm.svc:50051");
    let busy = watch(&channel).await.expect_err("one too many");
    assert_eq!(busy.code(), Code::ResourceExhausted);
    watching.pop();
    // The server learns a moment later that the client is gone.
    while let Err(busy) = watch(&channel).await {
        assert_eq!(busy.code(), Code::ResourceExhausted);
        tokio::task::yield_now().await;
    }
}
