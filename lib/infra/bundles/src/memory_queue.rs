//! Bundles that wait for memory, outside of the workers of their controller.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use olm_runtime::{JobEnded, MemoryBudget, MemoryShare};
use parking_lot::Mutex;
use tokio::{task::AbortHandle, time::Instant};

use super::Pulled;

/// How long memory is kept for an extension that does not take it: its reconcile may have found something else to do.
const KEPT: Duration = Duration::from_secs(30);

/// The extensions whose bundle waits for memory.
pub(crate) struct MemoryQueue {
    memory: MemoryBudget,
    /// Called with the name of each that has its memory.
    admitted: JobEnded,
    waiting: Mutex<BTreeMap<String, Waiter>>,
}

/// One that waits, until this is dropped.
struct Waiter {
    since: Instant,
    reference: String,
    pulled: Pulled,
    turn: Arc<Mutex<Turn>>,
    task: AbortHandle,
}

enum Turn {
    Waits,
    Has(MemoryShare),
    Over,
}

/// Whether an extension waits for memory, or has waited.
pub(crate) enum Waited {
    No,
    Waits(Duration),
    Yes(Pulled, MemoryShare),
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl MemoryQueue {
    pub(crate) fn new(memory: MemoryBudget, admitted: JobEnded) -> Self {
        Self { memory, admitted, waiting: Mutex::default() }
    }

    /// Lets `extension` wait for so many bytes for a bundle, and for nothing else.
    pub(crate) fn wait(&self, extension: &str, reference: &str, pulled: Pulled, bytes: usize) {
        let turn = Arc::new(Mutex::new(Turn::Waits));
        let (memory, admitted, name) = (self.memory.clone(), self.admitted.clone(), extension.to_owned());
        let own = Arc::clone(&turn);
        let task = tokio::spawn(async move {
            let share = memory.share(bytes).await;
            *own.lock() = Turn::Has(share);
            admitted(&name);
            tokio::time::sleep(KEPT).await;
            *own.lock() = Turn::Over;
        });
        let (reference, task) = (reference.to_owned(), task.abort_handle());
        let waiter = Waiter { since: Instant::now(), reference, pulled, turn, task };
        self.waiting.lock().insert(extension.to_owned(), waiter);
    }

    /// What `extension` waited for, if that is the bundle that it needs now.
    pub(crate) fn take(&self, extension: &str, reference: &str) -> Waited {
        let mut waiting = self.waiting.lock();
        let Some(waiter) = waiting.get(extension) else { return Waited::No };
        let is_same = waiter.reference == reference;
        if is_same && matches!(*waiter.turn.lock(), Turn::Waits) {
            return Waited::Waits(waiter.since.elapsed());
        }
        let Some(waiter) = waiting.remove(extension).filter(|_| is_same) else { return Waited::No };
        let turn = std::mem::replace(&mut *waiter.turn.lock(), Turn::Over);
        match turn {
            Turn::Has(share) => Waited::Yes(waiter.pulled.clone(), share),
            Turn::Waits | Turn::Over => Waited::No,
        }
    }

    /// `extension` needs no memory any more.
    pub(crate) fn release(&self, extension: &str) {
        self.waiting.lock().remove(extension);
    }
}
