//! Bundles that wait for memory, outside of the workers of their controller.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use olm_runtime::{MemoryBudget, MemoryShare};
use tokio::{sync::mpsc, task::AbortHandle};

use super::Pulled;

/// How long memory is kept for an extension that does not take it: its reconcile may have found something else to do.
const KEPT: Duration = Duration::from_secs(30);

/// The extensions whose bundle waits for memory.
pub(super) struct Admissions {
    memory: MemoryBudget,
    /// Takes the names of those that have their memory.
    admitted: mpsc::Sender<String>,
    waiting: Mutex<BTreeMap<String, Admission>>,
}

/// One that waits, until this is dropped.
struct Admission {
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

/// How an extension's wait for memory stands.
pub(super) enum Admitted {
    /// It does not wait.
    No,
    /// It waits.
    Waits,
    /// It has waited.
    Yes(Pulled, MemoryShare),
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Admissions {
    pub(super) fn new(memory: MemoryBudget, admitted: mpsc::Sender<String>) -> Self {
        Self { memory, admitted, waiting: Mutex::default() }
    }

    /// Lets `extension` wait for so many bytes for a bundle, and for nothing else.
    pub(super) fn wait(&self, extension: &str, reference: &str, pulled: Pulled, bytes: usize) {
        let turn = Arc::new(Mutex::new(Turn::Waits));
        let (memory, admitted, name) = (self.memory.clone(), self.admitted.clone(), extension.to_owned());
        let own = Arc::clone(&turn);
        let task = tokio::spawn(async move {
            let share = memory.share(bytes).await;
            *lock(&own) = Turn::Has(share);
            // A closed channel means that the process is ending.
            let _ = admitted.send(name).await;
            tokio::time::sleep(KEPT).await;
            *lock(&own) = Turn::Over;
        });
        let (reference, task) = (reference.to_owned(), task.abort_handle());
        lock(&self.waiting).insert(extension.to_owned(), Admission { reference, pulled, turn, task });
    }

    /// What `extension` waited for, if that is the bundle that it needs now.
    pub(super) fn take(&self, extension: &str, reference: &str) -> Admitted {
        let mut waiting = lock(&self.waiting);
        let Some(admission) = waiting.get(extension) else { return Admitted::No };
        let is_same = admission.reference == reference;
        if is_same && matches!(*lock(&admission.turn), Turn::Waits) {
            return Admitted::Waits;
        }
        let Some(admission) = waiting.remove(extension).filter(|_| is_same) else { return Admitted::No };
        let turn = std::mem::replace(&mut *lock(&admission.turn), Turn::Over);
        match turn {
            Turn::Has(share) => Admitted::Yes(admission.pulled.clone(), share),
            Turn::Waits | Turn::Over => Admitted::No,
        }
    }

    /// `extension` needs no memory any more.
    pub(super) fn release(&self, extension: &str) {
        lock(&self.waiting).remove(extension);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
