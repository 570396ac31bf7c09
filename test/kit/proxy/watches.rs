//! The bodies of watches: events one by one, through a gate that keeps them back, loses them or ends the watch.

use std::{
    collections::VecDeque,
    sync::{Arc, atomic::Ordering},
};

use axum::body::Bytes;
use futures::{Stream, StreamExt, stream};
use http_body_util::BodyExt;
use hyper::body::Frame;
use kube::client::Body;
use tokio::sync::watch;

use super::{Fault, Shared};

/// An error of any kind.
pub(super) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What becomes of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Flow {
    #[default]
    Open,
    Held,
    Lost,
}

/// The gate of all watches.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gate {
    pub(super) flow: Flow,
    /// How many times all watches were told that they are too old.
    pub(super) expired: u64,
}

struct Events {
    upstream: stream::BoxStream<'static, Result<Bytes, BoxError>>,
    over: bool,
    partial: Vec<u8>,
    ready: VecDeque<Bytes>,
    gate: watch::Receiver<Gate>,
    born: Gate,
    shared: Arc<Shared>,
}

/// What comes next of a watch.
enum Step {
    Event(Bytes),
    Last(Bytes),
    Break,
    End,
}

/// The events of an answer.
pub(super) fn events(shared: Arc<Shared>, body: Body) -> impl Stream<Item = Result<Frame<Bytes>, BoxError>> {
    let gate = shared.gate.subscribe();
    let born = *gate.borrow();
    let upstream = body.into_data_stream().map(|data| data.map_err(BoxError::from)).boxed();
    let events =
        Events { upstream, over: false, partial: Vec::new(), ready: VecDeque::new(), gate, born, shared };
    stream::unfold(Some(events), |events| async {
        let mut events = events?;
        match events.next().await {
            Step::Event(line) => Some((Ok(Frame::data(line)), Some(events))),
            Step::Last(line) => Some((Ok(Frame::data(line)), None)),
            Step::Break => Some((Err("the proxy broke the watch".into()), None)),
            Step::End => None,
        }
    })
}

impl Events {
    async fn next(&mut self) -> Step {
        loop {
            let gate = *self.gate.borrow_and_update();
            if gate.expired > self.born.expired {
                let event = serde_json::json!({"type": "ERROR", "object": Fault::body(410)});
                return Step::Last(format!("{event}\n").into());
            }
            match gate.flow {
                Flow::Open => {
                    if let Some(line) = self.ready.pop_front() {
                        return Step::Event(line);
                    }
                    if self.over {
                        return Step::End;
                    }
                }
                Flow::Held => {}
                Flow::Lost => self.ready.clear(),
            }
            tokio::select! {
                // The sender lives as long as `shared`.
                _ = self.gate.changed() => {}
                data = self.upstream.next(), if !self.over => match data {
                    Some(Ok(bytes)) => self.take(&bytes, gate.flow),
                    Some(Err(_)) => return Step::Break,
                    None => self.over = true,
                },
            }
        }
    }

    fn take(&mut self, bytes: &[u8], flow: Flow) {
        self.partial.extend_from_slice(bytes);
        while let Some(end) = self.partial.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.partial.drain(..=end).collect();
            self.ready.push_back(line.into());
            if flow != Flow::Open {
                self.shared.kept_back.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}
