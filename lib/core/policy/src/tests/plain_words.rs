//! Windows in plain words.

use super::{at, calendar};
use crate::Entry;

const SUNDAYS: &str = "Allow 0 2 * * 0 4h Europe/Berlin";
const NIGHTS: &str = "Allow 0 22 * * * 8h Europe/Berlin";
const FREEZE: &str = "Deny 0 0 20 12 * 168h Europe/Berlin";

/// What is the case, the windows, the moment, and when updates may begin; empty if they may at once.
type Case = (&'static str, &'static [&'static str], &'static str, &'static str);

const CASES: [Case; 31] = [
    ("without windows updates may begin at any time", &[], "2026-11-24T15:00Z", ""),
    ("on Tuesday the next Sunday is waited for", &[SUNDAYS], "2026-11-24T15:00Z", "2026-11-29T01:00Z"),
    ("on Sunday at two it opens", &[SUNDAYS], "2026-11-29T01:00Z", ""),
    ("a second before it is closed", &[SUNDAYS], "2026-11-29T00:59:59Z", "2026-11-29T01:00Z"),
    ("until six it is open", &[SUNDAYS], "2026-11-29T04:59:59Z", ""),
    ("at six it closes for a week", &[SUNDAYS], "2026-11-29T05:00Z", "2026-12-06T01:00Z"),
    ("in summer two o'clock is an hour earlier", &[SUNDAYS], "2026-07-01T00:00Z", "2026-07-05T00:00Z"),
    ("a night lasts into the next day", &[NIGHTS], "2026-11-25T02:00Z", ""),
    ("a night ends at six", &[NIGHTS], "2026-11-25T05:00Z", "2026-11-25T21:00Z"),
    ("of two windows the first to open counts", &[SUNDAYS, NIGHTS], "2026-11-24T15:00Z", "2026-11-24T21:00Z"),
    ("a freeze alone lets everything else through", &[FREEZE], "2026-12-19T22:59:59Z", ""),
    ("a freeze begins at midnight", &[FREEZE], "2026-12-19T23:00Z", "2026-12-26T23:00Z"),
    ("a freeze wins over a window that is open", &[NIGHTS, FREEZE], "2026-12-21T00:00Z", "2026-12-26T23:00Z"),
    (
        "after the freeze the next window is waited for",
        &[SUNDAYS, FREEZE],
        "2026-12-20T12:00Z",
        "2026-12-27T01:00Z",
    ),
    (
        "two freezes follow each other",
        &["Deny 0 0 1 1 * 24h UTC", "Deny 0 0 2 1 * 24h UTC"],
        "2026-01-01T05:00Z",
        "2026-01-03T00:00Z",
    ),
    (
        "two freezes overlap",
        &["Deny 0 0 1 1 * 24h UTC", "Deny 0 12 1 1 * 24h UTC"],
        "2026-01-01T05:00Z",
        "2026-01-02T12:00Z",
    ),
    (
        "a freeze ends inside of a window",
        &["Allow 0 0 * * * 12h UTC", "Deny 0 0 1 1 * 6h UTC"],
        "2026-01-01T01:00Z",
        "2026-01-01T06:00Z",
    ),
    (
        "a freeze covers the whole window of the day",
        &["Allow 0 2 * * * 2h UTC", "Deny 0 0 1 1 * 12h UTC"],
        "2026-01-01T01:00Z",
        "2026-01-02T02:00Z",
    ),
    (
        "half past two does not exist when clocks go forward: three o'clock counts",
        &["Allow 30 2 * * * 1h Europe/Berlin"],
        "2026-03-29T00:00Z",
        "2026-03-29T01:00Z",
    ),
    (
        "the window that opened late lasts as long as any",
        &["Allow 30 2 * * * 1h Europe/Berlin"],
        "2026-03-29T02:00Z",
        "2026-03-30T00:30Z",
    ),
    (
        "half past two comes twice when clocks go back: the first counts",
        &["Allow 30 2 * * * 1h Europe/Berlin"],
        "2026-10-25T00:00Z",
        "2026-10-25T00:30Z",
    ),
    (
        "at the second half past two it does not open again",
        &["Allow 30 2 * * * 1h Europe/Berlin"],
        "2026-10-25T01:30Z",
        "2026-10-26T01:30Z",
    ),
    ("a window over the change of clocks lasts four hours of time", &[SUNDAYS], "2026-10-25T03:59:59Z", ""),
    ("then it is over, at five by the clock", &[SUNDAYS], "2026-10-25T04:00Z", "2026-11-01T01:00Z"),
    (
        "clocks on Lord Howe change by half an hour",
        &["Allow 15 2 * * * 30m Australia/Lord_Howe"],
        "2026-10-03T15:00Z",
        "2026-10-03T15:30Z",
    ),
    (
        "where midnight does not exist one o'clock counts",
        &["Allow 0 0 * * * 1h America/Sao_Paulo"],
        "2018-11-04T02:59Z",
        "2018-11-04T03:00Z",
    ),
    (
        "a day that Samoa left out counts as the moment after it",
        &["Allow 0 12 30 12 * 1h Pacific/Apia"],
        "2011-12-29T00:00Z",
        "2011-12-30T10:00Z",
    ),
    (
        "leap day comes every four years",
        &["Allow 0 0 29 2 * 24h UTC"],
        "2026-03-01T00:00Z",
        "2028-02-29T00:00Z",
    ),
    ("and not in 2100", &["Allow 0 0 29 2 * 24h UTC"], "2096-03-01T00:00Z", "2104-02-29T00:00Z"),
    (
        "the thirteenth or a Friday, as cron has it",
        &["Allow 0 0 13 * 5 1h UTC"],
        "2026-12-12T00:00Z",
        "2026-12-13T00:00Z",
    ),
    (
        "offices of two zones",
        &["Allow 0 9 * * 1-5 8h Asia/Kathmandu", "Deny 0 9 * * 1-5 8h Europe/Berlin"],
        "2026-11-24T08:30Z",
        "2026-11-25T03:15Z",
    ),
];

#[test]
fn windows_in_plain_words() {
    for (words, windows, now, wanted) in CASES {
        match (calendar(windows).entry(at(now)), wanted) {
            (Entry::Open, "") => {}
            (Entry::Closed { opens: Some((opens, _)), look_again }, wanted) if !wanted.is_empty() => {
                assert_eq!((opens, look_again), (at(wanted), at(wanted)), "{words}");
            }
            (found, _) => panic!("{words}: {found:?}"),
        }
    }
}

#[test]
fn what_never_opens_is_looked_at_again_the_next_day() {
    for windows in [&["Deny * * * * * 1h UTC"][..], &["Allow 0 2 * * * 1h UTC", "Deny 0 0 * * * 24h UTC"]] {
        let now = at("2026-11-24T15:00:00Z");
        let wanted = Entry::Closed { opens: None, look_again: at("2026-11-25T15:00:00Z") };
        assert_eq!(calendar(windows).entry(now), wanted, "{windows:?}");
    }
    assert!(matches!(
        calendar(&["Deny * * * * * 1h UTC"]).entry(jiff::Timestamp::MAX),
        Entry::Closed { .. } | Entry::Open
    ));
    assert!(matches!(
        calendar(&[SUNDAYS, FREEZE]).entry(jiff::Timestamp::MIN),
        Entry::Closed { .. } | Entry::Open
    ));
}
