//! Limits on what a policy may ask for, and on the work for an answer.

use jiff::SignedDuration;

/// How long a window may be open.
pub const DURATION_MAX: SignedDuration = SignedDuration::from_hours(7 * 24);
/// The shortest time a window is open. Schedules know whole minutes.
pub(crate) const DURATION_MIN: SignedDuration = SignedDuration::from_mins(1);
/// The longest minimum age.
pub const MINIMUM_AGE_MAX: SignedDuration = SignedDuration::from_hours(366 * 24);
/// Items of one field of a schedule.
pub(crate) const ITEMS_MAX: usize = 60;
/// Days after which a schedule has opened, if it ever does: there may be eight years between two leap days.
pub(crate) const DAYS_MAX: i64 = 8 * 366 + 1;
/// Steps from one change of the windows to the next that are looked at. Who waits longer looks again.
pub(crate) const STEPS_MAX: usize = 2_000;
