//! All windows of a policy together.

use jiff::{Timestamp, tz::TimeZone};
use olm_api::v1alpha1::WindowKind::{Allow, Deny};

use crate::{limits::STEPS_MAX, window::Window};

/// When updates may begin.
#[derive(Debug, Clone, Default)]
pub struct Calendar(Vec<Window>);

/// Whether updates may begin at a moment.
#[derive(Debug, Clone, PartialEq)]
pub enum Entry {
    /// They may.
    Open,
    /// They may not.
    Closed {
        /// When they may, and the time zone of the window that decides it; nothing if that is too far away to be known.
        opens: Option<(Timestamp, TimeZone)>,
        /// When this is worth another look.
        look_again: Timestamp,
    },
}

impl Calendar {
    /// Of these windows.
    pub fn new(windows: Vec<Window>) -> Self {
        Self(windows)
    }

    /// Whether updates may begin at `now`. Without a window of kind Allow they may whenever no other forbids it.
    pub fn entry(&self, now: Timestamp) -> Entry {
        let mut moment = now;
        let mut zone = None;
        for _ in 0..STEPS_MAX {
            match self.next_chance(moment) {
                Chance::Now if moment == now => return Entry::Open,
                Chance::Now => {
                    let zone = zone.unwrap_or(TimeZone::UTC);
                    return Entry::Closed { opens: Some((moment, zone)), look_again: moment };
                }
                Chance::At(next, of) if next > moment => {
                    moment = next;
                    zone = Some(of);
                }
                Chance::At(..) | Chance::Never => break,
            }
        }
        // No window may be far away: a day later another look costs nothing.
        let tomorrow = now.checked_add(jiff::SignedDuration::from_hours(24)).unwrap_or(Timestamp::MAX);
        Entry::Closed { opens: None, look_again: tomorrow }
    }

    /// Whether nothing is in the way at a moment, else the first moment after it at which that could be.
    fn next_chance(&self, moment: Timestamp) -> Chance {
        let denied = self.0.iter().filter(|window| window.kind() == Deny);
        let denied = denied.filter_map(|window| Some((window.open_until(moment)?, window)));
        if let Some((end, window)) = denied.max_by_key(|(end, _)| *end) {
            return Chance::At(end, window.zone().clone());
        }
        let mut allowing = self.0.iter().filter(|window| window.kind() == Allow).peekable();
        if allowing.peek().is_none() {
            return Chance::Now;
        }
        let mut next: Option<(Timestamp, &Window)> = None;
        for window in allowing {
            if window.open_until(moment).is_some() {
                return Chance::Now;
            }
            let opening = window.next_opening(moment);
            if let Some(opening) = opening.filter(|at| next.is_none_or(|(known, _)| *at < known)) {
                next = Some((opening, window));
            }
        }
        next.map_or(Chance::Never, |(at, window)| Chance::At(at, window.zone().clone()))
    }
}

enum Chance {
    Now,
    At(Timestamp, TimeZone),
    Never,
}
