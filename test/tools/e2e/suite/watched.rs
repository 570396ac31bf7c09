//! Somebody who asks for a catalog again and again, and notes when there was no answer.

use std::sync::{Mutex, PoisonError};

use http::Request;
use olm_test::prelude::*;
use tokio::task::JoinHandle;

use crate::world::{World, content_path};

/// Between two questions.
const PAUSE: Duration = Duration::from_millis(25);
/// A question that takes longer was not answered.
const PATIENCE: Duration = Duration::from_secs(5);

/// What was seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) answered: usize,
    pub(crate) refused: Vec<String>,
    /// Between two answers, at the longest.
    pub(crate) longest: Duration,
}

/// How a question ended: in time or not, with an answer or an error.
type Answer = Result<Result<String, kube::Error>, tokio::time::error::Elapsed>;

fn note(seen: &Mutex<Seen>, answer: Answer, last: &mut Instant) {
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    match answer {
        Ok(Ok(_)) => {
            seen.answered += 1;
            seen.longest = seen.longest.max(last.elapsed());
            *last = Instant::now();
        }
        Ok(Err(error)) => seen.refused.push(error.to_string()),
        Err(_) => seen.refused.push(format!("no answer within {PATIENCE:?}")),
    }
}

/// The one who asks, until it is asked itself.
pub(crate) struct Watched {
    seen: Arc<Mutex<Seen>>,
    task: JoinHandle<()>,
}

impl Watched {
    /// Begins to ask.
    pub(crate) fn begin(world: &World, catalog: &str) -> Self {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let (client, path, notes) = (world.client.clone(), content_path(catalog), Arc::clone(&seen));
        let task = tokio::spawn(async move {
            let mut last = Instant::now();
            loop {
                let Ok(request) = Request::get(&path).body(Vec::new()) else { return };
                let answer = tokio::time::timeout(PATIENCE, client.request_text(request)).await;
                note(&notes, answer, &mut last);
                tokio::time::sleep(PAUSE).await;
            }
        });
        Self { seen, task }
    }

    /// Ends, and says what was seen.
    pub(crate) fn end(self) -> Seen {
        self.task.abort();
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
