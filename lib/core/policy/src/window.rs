//! One window: the moments at which it opens, and for how long.

use std::fmt;

use jiff::{
    SignedDuration, Timestamp,
    civil::Date,
    tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase},
};
use olm_api::v1alpha1::{SCHEDULE_MAX, TIME_ZONE_MAX, UpdateWindow, WindowKind};
use olm_go::duration;

use crate::{
    limits::{DAYS_MAX, DURATION_MAX, DURATION_MIN},
    schedule::{Schedule, ScheduleError},
};

/// Why a window cannot be used. Displays as a clause about the window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WindowError {
    /// Its schedule.
    Schedule {
        /// The text.
        text: String,
        /// What is wrong.
        source: ScheduleError,
    },
    /// Its duration is none, or too long or short a one.
    Duration(String),
    /// There is no such time zone.
    TimeZone(String),
    /// A text is longer than it may be.
    TooLong,
}

impl fmt::Display for WindowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Schedule { text, source } => write!(f, "schedule {text:?} {source}"),
            Self::Duration(text) => write!(f, "duration {text:?} has to be from 1m to 168h, such as 4h"),
            Self::TimeZone(text) => write!(
                f,
                "timeZone {text:?} is none that the IANA database names: write one such as Europe/Berlin"
            ),
            Self::TooLong => f.write_str("schedule or timeZone is too long"),
        }
    }
}

/// A span of time that comes again and again.
#[derive(Debug, Clone)]
pub struct Window {
    kind: WindowKind,
    schedule: Schedule,
    duration: SignedDuration,
    zone: TimeZone,
}

impl Window {
    /// Reads a window.
    ///
    /// # Errors
    /// One of its texts cannot be read.
    pub fn parse(window: &UpdateWindow) -> Result<Self, WindowError> {
        let UpdateWindow { kind, schedule, duration, time_zone } = window;
        if schedule.len() > SCHEDULE_MAX || time_zone.len() > TIME_ZONE_MAX {
            return Err(WindowError::TooLong);
        }
        let read = Schedule::parse(schedule);
        let read = read.map_err(|source| WindowError::Schedule { text: schedule.clone(), source })?;
        let is_allowed = |length: &SignedDuration| (DURATION_MIN..=DURATION_MAX).contains(length);
        let length = span(duration).filter(is_allowed);
        let length = length.ok_or_else(|| WindowError::Duration(duration.clone()))?;
        let zone = TimeZoneDatabase::bundled().get(time_zone);
        let zone = zone.map_err(|_| WindowError::TimeZone(time_zone.clone()))?;
        Ok(Self { kind: *kind, schedule: read, duration: length, zone })
    }

    /// Whether updates may begin while it is open, or may not.
    pub fn kind(&self) -> WindowKind {
        self.kind
    }

    /// Its time zone.
    pub fn zone(&self) -> &TimeZone {
        &self.zone
    }

    /// Until when it is open, if it is open at `now`.
    pub fn open_until(&self, now: Timestamp) -> Option<Timestamp> {
        let end = self.last_opening(now)?.checked_add(self.duration).ok()?;
        (end > now).then_some(end)
    }

    /// The last time at which it opened, not after `now`; only looked for as long as it may still be open.
    fn last_opening(&self, now: Timestamp) -> Option<Timestamp> {
        let earliest = now.checked_sub(self.duration).ok()?;
        let mut day = self.day_of(now);
        // A day that a zone leaves out counts as the moment after it.
        let first = self.day_of(earliest).yesterday().ok()?;
        while day >= first {
            if self.schedule.has_day(day) {
                let opened = self.schedule.times().rev().filter_map(|time| self.moment(day, time));
                if let Some(found) = opened.into_iter().find(|moment| *moment <= now) {
                    return Some(found);
                }
            }
            day = day.yesterday().ok()?;
        }
        None
    }

    /// The first time after `now` at which it opens.
    pub fn next_opening(&self, now: Timestamp) -> Option<Timestamp> {
        let mut day = self.day_of(now).yesterday().ok()?;
        let mut left = DAYS_MAX;
        while left > 0 {
            if !self.schedule.has_month(day.month()) {
                let next = day.first_of_month().checked_add(jiff::Span::new().months(1)).ok()?;
                left -= i64::from(day.days_in_month() - day.day()) + 1;
                day = next;
                continue;
            }
            if self.schedule.has_day(day) {
                let mut opens = self.schedule.times().filter_map(|time| self.moment(day, time));
                if let Some(found) = opens.find(|moment| *moment > now) {
                    return Some(found);
                }
            }
            day = day.tomorrow().ok()?;
            left -= 1;
        }
        None
    }

    fn day_of(&self, moment: Timestamp) -> Date {
        self.zone.to_datetime(moment).date()
    }

    /// The moment of a time of the day, in the order of these times.
    fn moment(&self, day: Date, (hour, minute): (i8, i8)) -> Option<Timestamp> {
        let ambiguous = self.zone.to_ambiguous_timestamp(day.at(hour, minute, 0, 0));
        match ambiguous.offset() {
            AmbiguousOffset::Gap { .. } => {
                let before = ambiguous.earlier().ok()?;
                self.zone.following(before).next().map(|transition| transition.timestamp())
            }
            AmbiguousOffset::Unambiguous { .. } | AmbiguousOffset::Fold { .. } => ambiguous.earlier().ok(),
        }
    }
}

/// A duration as Go writes it.
pub(crate) fn span(text: &str) -> Option<SignedDuration> {
    duration::parse(text).ok().map(SignedDuration::from_nanos)
}
