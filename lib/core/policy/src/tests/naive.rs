//! Windows against an implementation that looks at every minute.

use std::collections::BTreeSet;

use jiff::{
    SignedDuration, Timestamp,
    civil::DateTime,
    tz::{TimeZone, TimeZoneDatabase},
};
use proptest::prelude::*;

use super::{at, calendar};
use crate::Entry;

const ZONES: [&str; 9] = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "America/Sao_Paulo",
    "Australia/Lord_Howe",
    "Pacific/Chatham",
    "Pacific/Apia",
    "Asia/Kathmandu",
    "Africa/Casablanca",
];

/// Moments around which clocks change, days are left out or added.
const MOMENTS: [&str; 12] = [
    "2026-03-29T01:00:00Z",
    "2026-10-25T01:00:00Z",
    "2026-03-08T07:00:00Z",
    "2026-11-01T06:00:00Z",
    "2018-11-04T03:00:00Z",
    "2018-02-18T02:00:00Z",
    "2026-10-03T15:30:00Z",
    "2026-04-04T15:00:00Z",
    "2011-12-30T10:00:00Z",
    "2028-02-29T12:00:00Z",
    "2026-02-15T02:00:00Z",
    "2026-12-31T23:00:00Z",
];

/// How far the naive implementation looks.
const HORIZON_MINUTES: i64 = 3 * 24 * 60;

/// A window as lists of what matches.
#[derive(Debug, Clone)]
struct Listed {
    denies: bool,
    minutes: BTreeSet<i8>,
    hours: BTreeSet<i8>,
    /// All when there is none.
    days: BTreeSet<i8>,
    weekdays: BTreeSet<i8>,
    minutes_open: i64,
    zone: &'static str,
}

impl Listed {
    fn text(&self) -> String {
        let list = |numbers: &BTreeSet<i8>| {
            let texts: Vec<String> = numbers.iter().map(ToString::to_string).collect();
            if texts.is_empty() { "*".to_owned() } else { texts.join(",") }
        };
        let kind = if self.denies { "Deny" } else { "Allow" };
        let (minutes, hours) = (list(&self.minutes), list(&self.hours));
        let (days, weekdays) = (list(&self.days), list(&self.weekdays));
        format!("{kind} {minutes} {hours} {days} * {weekdays} {}m {}", self.minutes_open, self.zone)
    }

    fn matches(&self, time: DateTime) -> bool {
        let day = self.days.contains(&time.day());
        let weekday = self.weekdays.contains(&time.weekday().to_sunday_zero_offset());
        let is_day = match (self.days.is_empty(), self.weekdays.is_empty()) {
            (true, true) => true,
            (true, false) => weekday,
            (false, true) => day,
            (false, false) => day || weekday,
        };
        is_day && self.minutes.contains(&time.minute()) && self.hours.contains(&time.hour())
    }

    /// Whether it opens at the minute that begins at `moment`.
    fn opens(&self, zone: &TimeZone, moment: Timestamp) -> bool {
        let here = zone.to_datetime(moment);
        let before = zone.to_datetime(moment - SignedDuration::from_mins(1));
        let step = here.duration_since(before).as_mins();
        // Minutes that the clock left out.
        let skipped = (1..step).any(|minute| self.matches(before + SignedDuration::from_mins(minute)));
        let is_again = || {
            (1..=24 * 60).any(|minutes| zone.to_datetime(moment - SignedDuration::from_mins(minutes)) == here)
        };
        skipped || (self.matches(here) && !is_again())
    }

    fn openings(&self, first: Timestamp, minutes: i64) -> BTreeSet<Timestamp> {
        let zone = TimeZoneDatabase::bundled().get(self.zone).expect("a zone of the database");
        let moments = (0..minutes).map(|minute| first + SignedDuration::from_mins(minute));
        moments.filter(|moment| self.opens(&zone, *moment)).collect()
    }
}

fn listed() -> impl Strategy<Value = Listed> {
    let some = |range: std::ops::RangeInclusive<i8>, most| proptest::collection::btree_set(range, 1..most);
    let few = |range: std::ops::RangeInclusive<i8>| {
        prop_oneof![Just(BTreeSet::new()), proptest::collection::btree_set(range, 1..4)]
    };
    let near = prop_oneof![some(0..=4, 4), some(0..=23, 4)];
    let open = prop_oneof![1..=90_i64, 60..=2000_i64];
    (
        any::<bool>(),
        some(0..=59, 3),
        near,
        few(1..=31),
        few(0..=6),
        open,
        proptest::sample::select(&ZONES[..]),
    )
        .prop_map(|(denies, minutes, hours, days, weekdays, minutes_open, zone)| Listed {
            denies,
            minutes,
            hours,
            days,
            weekdays,
            minutes_open,
            zone,
        })
}

/// The first minute from `now` on at which updates may begin; nothing within the horizon.
fn first_chance(windows: &[Listed], now: Timestamp) -> Option<Timestamp> {
    let longest = windows.iter().map(|window| window.minutes_open).max().unwrap_or_default();
    let first = now - SignedDuration::from_mins(longest);
    let openings: Vec<(&Listed, BTreeSet<Timestamp>)> =
        windows.iter().map(|window| (window, window.openings(first, longest + HORIZON_MINUTES))).collect();
    let is_open = |(window, openings): &(&Listed, BTreeSet<Timestamp>), moment: Timestamp| {
        let since = moment - SignedDuration::from_mins(window.minutes_open);
        openings.iter().any(|opening| *opening > since && *opening <= moment)
    };
    let moments = (0..HORIZON_MINUTES).map(|minute| now + SignedDuration::from_mins(minute));
    moments.into_iter().find(|moment| {
        let is_denied = openings.iter().any(|one| one.0.denies && is_open(one, *moment));
        let mut allowing = openings.iter().filter(|one| !one.0.denies).peekable();
        !is_denied && (allowing.peek().is_none() || allowing.any(|one| is_open(one, *moment)))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 250, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn windows_are_as_one_who_looks_at_every_minute_sees_them(
        windows in proptest::collection::vec(listed(), 0..4),
        moment in proptest::sample::select(&MOMENTS[..]),
        minutes in -2000..2000_i64,
    ) {
        let now = at(moment) + SignedDuration::from_mins(minutes);
        let texts: Vec<String> = windows.iter().map(Listed::text).collect();
        let entry = calendar(&texts.iter().map(String::as_str).collect::<Vec<_>>()).entry(now);
        let wanted = first_chance(&windows, now);
        let horizon = now + SignedDuration::from_mins(HORIZON_MINUTES);
        let found = match entry {
            Entry::Open => Some(now),
            Entry::Closed { opens, .. } => opens.map(|(at, _)| at).filter(|at| *at < horizon),
        };
        prop_assert_eq!(found, wanted, "{:?} at {}", texts, now);
    }
}
