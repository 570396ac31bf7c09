//! How much memory the process takes for what it uses.

use std::{env, os::unix::process::CommandExt, process::Command, sync::Arc};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

const MEBIBYTE: usize = 1 << 20;

/// What the allocator reads from the environment when a process starts: for how many milliseconds it keeps memory that was
/// freed, and after how many allocations of more than a kilobyte a thread takes back what others have freed of its memory.
/// Idle with a catalog of 132 MB, the process holds 35 MB by default, 31 MB with the first setting and 27 MB with both.
const ALLOCATOR: [(&str, &str); 2] = [("MIMALLOC_PURGE_DELAY", "0"), ("MIMALLOC_GENERIC_COLLECT", "1000")];

/// Keeps the memory of this process small. To be called first in `main`: a program gets an environment only when it starts,
/// so it is started once more, in this process and with the same arguments, unless it has what the allocator reads.
///
/// A system that does not let us costs memory, nothing else.
pub(crate) fn keep_small() {
    without_huge_pages();
    let missing: Vec<_> = ALLOCATOR.into_iter().filter(|(name, _)| env::var_os(name).is_none()).collect();
    let mut arguments = env::args_os();
    if let (false, Some(name), Ok(program)) = (missing.is_empty(), arguments.next(), env::current_exe()) {
        // It returns only where it fails.
        let _ = Command::new(program).arg0(name).args(arguments).envs(missing).exec();
    }
}

/// Turns huge pages off for this process.
///
/// The allocator spreads small allocations of many threads over its segments; with pages of 2 MB each touched
/// corner costs as much. With a catalog of 132 MB loaded the process held 93 MB with huge pages and 50 MB
/// without, at the same speed.
fn without_huge_pages() {
    if let Err(error) = rustix::thread::disable_transparent_huge_pages(true) {
        tracing::debug!(%error, "huge pages stay on");
    }
}

/// Memory that jobs share whose need can be estimated: small ones run side by side, and one that needs everything runs
/// alone. Clones are the same budget. Jobs are admitted in the order in which they ask.
#[derive(Debug, Clone)]
pub struct MemoryBudget {
    /// One permit a mebibyte.
    permits: Arc<Semaphore>,
    mebibytes: u32,
}

/// What a job may take, until this is dropped.
#[derive(Debug)]
pub struct MemoryShare {
    bytes: usize,
    permit: Option<OwnedSemaphorePermit>,
}

impl MemoryBudget {
    /// A budget of so many bytes, rounded up to mebibytes.
    pub fn new(bytes: usize) -> Self {
        let mebibytes = u32::try_from(bytes.div_ceil(MEBIBYTE)).unwrap_or(u32::MAX).max(1);
        Self { permits: Arc::new(Semaphore::new(mebibytes as usize)), mebibytes }
    }

    /// Takes `bytes`, or as much as there can ever be, unless there is less now or another job waits for it.
    pub fn try_share(&self, bytes: usize) -> Option<MemoryShare> {
        let wanted = self.wanted(bytes);
        let permit = Arc::clone(&self.permits).try_acquire_many_owned(wanted).ok()?;
        Some(MemoryShare { bytes: wanted as usize * MEBIBYTE, permit: Some(permit) })
    }

    /// Waits until there are `bytes`, or as much as there can ever be, and takes them.
    pub async fn share(&self, bytes: usize) -> MemoryShare {
        let wanted = self.wanted(bytes);
        // The semaphore is never closed; if it were, going on unbounded is right.
        let permit = Arc::clone(&self.permits).acquire_many_owned(wanted).await.ok();
        MemoryShare { bytes: wanted as usize * MEBIBYTE, permit }
    }

    fn wanted(&self, bytes: usize) -> u32 {
        u32::try_from(bytes.div_ceil(MEBIBYTE)).unwrap_or(u32::MAX).clamp(1, self.mebibytes)
    }
}

impl MemoryShare {
    /// Bytes that the job may take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Gives back what the job turned out not to need.
    pub fn shrink_to(&mut self, bytes: usize) {
        let kept = bytes.div_ceil(MEBIBYTE).max(1);
        let surplus = (self.bytes / MEBIBYTE).saturating_sub(kept);
        drop(self.permit.as_mut().and_then(|permit| permit.split(surplus)));
        self.bytes -= surplus * MEBIBYTE;
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn there_are_no_huge_pages() {
        without_huge_pages();
        assert!(rustix::thread::transparent_huge_pages_are_disabled().unwrap());
    }

    #[test]
    fn small_jobs_run_side_by_side_and_one_that_needs_everything_runs_alone() {
        let budget = MemoryBudget::new(8 * MEBIBYTE);
        let small = |bytes| budget.share(bytes).now_or_never();
        let (first, second) = (small(1).unwrap(), small(3 * MEBIBYTE + 1).unwrap());
        assert_eq!((first.bytes(), second.bytes()), (MEBIBYTE, 4 * MEBIBYTE));
        assert!(small(4 * MEBIBYTE).is_none(), "three are left");
        drop((first, second));
        let whole = small(usize::MAX).unwrap();
        assert_eq!(whole.bytes(), 8 * MEBIBYTE, "as much as there can ever be");
        assert!(small(1).is_none());
        drop(whole);
        let mut first = small(6 * MEBIBYTE).unwrap();
        first.shrink_to(2 * MEBIBYTE + 1);
        assert_eq!(first.bytes(), 3 * MEBIBYTE);
        let second = small(5 * MEBIBYTE).unwrap();
        first.shrink_to(usize::MAX);
        assert_eq!(first.bytes(), 3 * MEBIBYTE, "nothing grows");
        assert!(small(1).is_none());
        let mut waiting = Box::pin(budget.share(3 * MEBIBYTE));
        assert!((&mut waiting).now_or_never().is_none() && budget.try_share(1).is_none());
        first.shrink_to(1);
        assert!(budget.try_share(1).is_none(), "two are free, and somebody waits for three");
        drop((first, second));
        let third = waiting.now_or_never().unwrap();
        assert_eq!(budget.try_share(5 * MEBIBYTE).unwrap().bytes() + third.bytes(), 8 * MEBIBYTE);
        drop(third);
        assert_eq!(small(usize::MAX).unwrap().bytes(), 8 * MEBIBYTE);
    }
}
