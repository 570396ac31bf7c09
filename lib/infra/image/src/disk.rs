//! How much of the disk the caches of a process may take, whatever fills them.
//!
//! Bytes are charged before they are written and given back when the [`DiskCharge`] is dropped, which is when the file
//! is gone. Caches that can do without some of their content are asked to before anybody is refused.

use std::{io, sync::Arc};

use parking_lot::Mutex;
use thiserror::Error;

/// Removes content of a cache that is not needed now, of at least so many bytes if there is that much.
type Reclaim = dyn Fn(u64) + Send + Sync;

/// The bytes that all caches of a process may take on disk. Clones are the same budget.
#[derive(Clone)]
pub struct DiskBudget(Arc<Inner>);

struct Inner {
    limit: u64,
    used: Mutex<u64>,
    reclaim: Mutex<Vec<Arc<Reclaim>>>,
}

/// There is no room for what was to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "the caches hold {used} of the {limit} bytes they may take, and {wanted} more do not fit: raise --cache-limit together with the size of the volume, or delete catalogs"
)]
pub struct DiskFull {
    used: u64,
    limit: u64,
    wanted: u64,
}

impl From<DiskFull> for io::Error {
    fn from(full: DiskFull) -> Self {
        Self::new(io::ErrorKind::QuotaExceeded, full)
    }
}

/// Bytes on disk that are counted as long as this lives.
pub struct DiskCharge {
    budget: DiskBudget,
    bytes: u64,
}

impl Default for DiskBudget {
    fn default() -> Self {
        Self::new(u64::MAX)
    }
}

impl std::fmt::Debug for DiskBudget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DiskBudget").field("limit", &self.0.limit).field("used", &self.used()).finish()
    }
}

impl std::fmt::Debug for DiskCharge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DiskCharge").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl DiskBudget {
    /// A budget of `limit` bytes, of which none are used.
    pub fn new(limit: u64) -> Self {
        Self(Arc::new(Inner { limit, used: Mutex::new(0), reclaim: Mutex::default() }))
    }

    /// Bytes that are charged now.
    pub fn used(&self) -> u64 {
        *self.0.used.lock()
    }

    /// Has a cache give up content when there is no room. `reclaim` must not charge anything.
    pub fn on_shortage(&self, reclaim: impl Fn(u64) + Send + Sync + 'static) {
        self.0.reclaim.lock().push(Arc::new(reclaim));
    }

    /// A charge of no bytes, to be raised with [`DiskCharge::grow`].
    pub fn empty(&self) -> DiskCharge {
        DiskCharge { budget: self.clone(), bytes: 0 }
    }

    /// Charges what an earlier process left on disk, whether it fits or not.
    pub fn charge_existing(&self, bytes: u64) -> DiskCharge {
        let mut used = self.0.used.lock();
        *used = used.saturating_add(bytes);
        DiskCharge { budget: self.clone(), bytes }
    }

    /// Takes bytes off the budget, which they must fit into.
    fn take(&self, wanted: u64) -> Result<(), DiskFull> {
        let mut used = self.0.used.lock();
        let limit = self.0.limit;
        let after = used.checked_add(wanted).filter(|after| *after <= limit);
        *used = after.ok_or(DiskFull { used: *used, limit, wanted })?;
        Ok(())
    }
}

impl DiskCharge {
    /// Bytes that are charged.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Charges more bytes, which are about to be written.
    ///
    /// # Errors
    /// They do not fit, even after the caches gave up what they can do without. Nothing is charged then.
    pub fn grow(&mut self, bytes: u64) -> Result<(), DiskFull> {
        if let Err(full) = self.budget.take(bytes) {
            let reclaim = self.budget.0.reclaim.lock().clone();
            let missing = full.used.saturating_add(bytes).saturating_sub(full.limit);
            for reclaim in &reclaim {
                reclaim(missing);
            }
            self.budget.take(bytes)?;
        }
        self.bytes = self.bytes.saturating_add(bytes);
        Ok(())
    }

    /// Takes over what another charge of the same budget has.
    pub fn merge(&mut self, mut other: Self) {
        self.bytes = self.bytes.saturating_add(std::mem::take(&mut other.bytes));
    }

    /// Gives bytes back that are no longer on disk.
    pub fn shrink_to(&mut self, bytes: u64) {
        let freed = self.bytes.saturating_sub(bytes);
        self.bytes -= freed;
        let mut used = self.budget.0.used.lock();
        *used = used.saturating_sub(freed);
    }
}

impl Drop for DiskCharge {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_rejected_until_something_goes() {
        let budget = DiskBudget::new(100);
        let (mut first, mut second) = (budget.empty(), budget.empty());
        first.grow(60).unwrap();
        let full = second.grow(41).unwrap_err();
        assert_eq!(
            full.to_string(),
            "the caches hold 60 of the 100 bytes they may take, and 41 more do not fit: raise --cache-limit together with the size of the volume, or delete catalogs"
        );
        assert_eq!((second.bytes(), budget.used()), (0, 60), "what was rejected is not charged");
        first.shrink_to(59);
        second.grow(41).unwrap();
        drop(first);
        assert_eq!(budget.used(), 41);
        assert!(budget.empty().grow(u64::MAX).is_err());
    }

    #[test]
    fn caches_give_up_content_before_anybody_is_rejected() {
        let budget = DiskBudget::new(100);
        let spare = Arc::new(Mutex::new(Some(budget.charge_existing(30))));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (of_cache, seen) = (spare.clone(), asked.clone());
        budget.on_shortage(move |missing| {
            seen.lock().push(missing);
            drop(of_cache.lock().take());
        });
        let mut charge = budget.empty();
        charge.grow(70).unwrap();
        charge.grow(10).unwrap();
        assert_eq!((budget.used(), &*asked.lock()), (80, &vec![10]));
        assert!(charge.grow(21).is_err(), "there is nothing left to give up");
    }

    #[test]
    fn what_is_there_at_the_start_counts_though_it_does_not_fit() {
        let budget = DiskBudget::new(100);
        let existing = budget.charge_existing(150);
        assert!(budget.empty().grow(1).is_err());
        drop(existing);
        budget.empty().grow(100).unwrap();
    }
}
