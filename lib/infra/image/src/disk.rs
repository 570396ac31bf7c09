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
    /// Who fills it, in the plural, for people.
    holder: String,
    limit: u64,
    used: Mutex<u64>,
    reclaim: Mutex<Vec<Arc<Reclaim>>>,
    /// The budget that this one is a part of.
    whole: Option<DiskBudget>,
}

/// There is no room for what was to be written.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "{holder} hold {used} of the {limit} bytes they may take, and {wanted} more do not fit: raise --cache-limit together with the size of the volume, or delete catalogs"
)]
pub struct DiskFull {
    holder: String,
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
        Self::of("the caches", limit, None)
    }

    /// A part of this budget: what is charged to it counts for both. `holder` is who fills it, in the plural.
    #[must_use]
    pub fn part(&self, holder: &str, limit: u64) -> Self {
        Self::of(holder, limit, Some(self.clone()))
    }

    fn of(holder: &str, limit: u64, whole: Option<Self>) -> Self {
        let (holder, used, reclaim) = (holder.to_owned(), Mutex::new(0), Mutex::default());
        Self(Arc::new(Inner { holder, limit, used, reclaim, whole }))
    }

    /// The bytes that may be charged.
    pub fn limit(&self) -> u64 {
        self.0.limit
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
        for budget in self.and_wholes() {
            let mut used = budget.0.used.lock();
            *used = used.saturating_add(bytes);
        }
        DiskCharge { budget: self.clone(), bytes }
    }

    /// Takes bytes off the budget, which they must fit into, and off that which it is a part of.
    fn take(&self, wanted: u64) -> Result<(), DiskFull> {
        let Some(whole) = &self.0.whole else { return self.take_own(wanted) };
        self.take_own(wanted)?;
        whole.take_reclaiming(wanted).inspect_err(|_| {
            let mut used = self.0.used.lock();
            *used = used.saturating_sub(wanted);
        })
    }

    fn take_own(&self, wanted: u64) -> Result<(), DiskFull> {
        let mut used = self.0.used.lock();
        let Inner { holder, limit, .. } = &*self.0;
        let after = used.checked_add(wanted).filter(|after| after <= limit);
        let full = || DiskFull { holder: holder.clone(), used: *used, limit: *limit, wanted };
        *used = after.ok_or_else(full)?;
        Ok(())
    }

    /// The same; caches give up what they can do without if it does not fit otherwise.
    fn take_reclaiming(&self, wanted: u64) -> Result<(), DiskFull> {
        let Err(full) = self.take(wanted) else { return Ok(()) };
        let reclaim = self.0.reclaim.lock().clone();
        let missing = full.used.saturating_add(wanted).saturating_sub(full.limit);
        for reclaim in &reclaim {
            reclaim(missing);
        }
        self.take(wanted)
    }

    fn give_back(&self, bytes: u64) {
        for budget in self.and_wholes() {
            let mut used = budget.0.used.lock();
            *used = used.saturating_sub(bytes);
        }
    }

    /// This budget, and those that it is a part of.
    fn and_wholes(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |budget| budget.0.whole.as_ref())
    }
}

impl DiskCharge {
    /// Bytes that are charged.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A charge of no bytes of the same budget.
    #[must_use]
    pub fn beside(&self) -> Self {
        self.budget.empty()
    }

    /// Charges more bytes, which are about to be written.
    ///
    /// # Errors
    /// They do not fit, even after the caches gave up what they can do without. Nothing is charged then.
    pub fn grow(&mut self, bytes: u64) -> Result<(), DiskFull> {
        self.budget.take_reclaiming(bytes)?;
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
        self.budget.give_back(freed);
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
    fn a_part_fills_itself_and_not_the_whole() {
        let whole = DiskBudget::new(100);
        let (part, other) = (whole.part("the catalogs of namespace a", 40), whole.part("others", 40));
        let mut charge = part.empty();
        charge.grow(40).unwrap();
        let full = charge.grow(1).unwrap_err().to_string();
        assert!(full.starts_with("the catalogs of namespace a hold 40 of the 40 bytes"), "{full}");
        let mut second = other.charge_existing(30);
        assert_eq!((part.used(), other.used(), whole.used()), (40, 30, 70));
        let mut rest = whole.empty();
        rest.grow(25).unwrap();
        let full = second.grow(10).unwrap_err().to_string();
        assert!(full.starts_with("the caches hold 95 of the 100"), "{full}");
        assert_eq!((other.used(), whole.used()), (30, 95), "what was rejected is charged to neither");
        drop((charge, second));
        assert_eq!((part.used(), other.used(), whole.used()), (0, 0, 25));
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
