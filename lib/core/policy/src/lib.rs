//! Update policies: which one is in force for an extension, and whether a change may be rolled out now.
//!
//! [`Policy::parse`] reads an UpdatePolicy, [`in_force`] chooses one of several, [`permit`] decides about a change. Times
//! are arguments. Time zones are those of the database that is compiled in, so that every machine decides alike.
//!
//! A window opens at the times of its schedule in its time zone. A time that a day does not have, because clocks are put
//! forward, counts as the moment at which they are; of a time that a day has twice the first counts. A window is open for
//! its duration from then on, in time that passes, not by the clock on the wall. A window of kind Deny that is open wins.

mod calendar;
mod limits;
mod permit;
mod policy;
mod schedule;
mod sentence;
mod window;

#[cfg(test)]
mod tests;

pub use calendar::{Calendar, Entry};
pub use limits::{DURATION_MAX, MINIMUM_AGE_MAX};
pub use permit::{Approved, Change, Kind, Others, Permit, Risk, Wait, permit};
pub use policy::{Policy, in_force, selects};
pub use schedule::{Schedule, ScheduleError};
pub use sentence::{refusals, sentence};
pub use window::{Window, WindowError};
