//! Whether a catalog's source has to be checked now.

use std::time::Duration;

use jiff::Timestamp;

use crate::{Resolution, limits::POLL_INTERVAL_MAX};

/// When to check a source.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Check {
    /// Now: the registry resolves the reference.
    Now,
    /// After this time (never, if there is none), or when something changes.
    Later(Option<Duration>),
}

/// The time between two checks of a tag, from the minutes of a spec; `None` when a tag is resolved once.
pub(super) fn poll_interval(minutes: Option<i64>) -> Option<Duration> {
    let minutes = u64::try_from(minutes?).ok()?;
    Some(Duration::from_secs(minutes.saturating_mul(60)).min(POLL_INTERVAL_MAX))
}

/// `held` is the digest reference of the content that is here, `known` the last resolution of the source.
pub(super) fn decide(
    source: &str,
    interval: Option<Duration>,
    held: Option<&str>,
    known: Option<&Resolution>,
    now: Timestamp,
) -> Check {
    let Some(held) = held else { return Check::Now };
    if source == held {
        return Check::Later(None);
    }
    let Some(known) = known.filter(|known| known.source == source && known.reference == held) else {
        return Check::Now;
    };
    let Some(interval) = interval else { return Check::Later(None) };
    // A clock that was set back must not stop the polling.
    let elapsed = Duration::try_from(now.duration_since(known.polled_at)).unwrap_or(interval);
    match interval.checked_sub(elapsed) {
        Some(left) if !left.is_zero() => Check::Later(Some(left)),
        _ => Check::Now,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_a_year_at_most() {
        assert_eq!(poll_interval(None), None);
        assert_eq!(poll_interval(Some(-1)), None);
        assert_eq!(poll_interval(Some(10)), Some(Duration::from_mins(10)));
        let longest = poll_interval(Some(i64::MAX)).unwrap();
        assert_eq!(longest, POLL_INTERVAL_MAX);
        // What is added to spread the checks does not overflow, nor does the instant of the next one.
        let next = super::super::jittered(longest, Some(longest), 1.0);
        assert!(std::time::Instant::now().checked_add(next).is_some());
    }

    #[test]
    fn a_source_is_checked_only_when_it_can_have_changed() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let known = |source: &str, reference: &str| Resolution {
            source: source.into(),
            reference: reference.into(),
            polled_at: at(1_000),
        };
        let tag = known("r/a:v1", "r/a@sha256:1");
        let minute = Some(Duration::from_mins(1));
        for (what, source, interval, held, known, now, expected) in [
            ("nothing held", "r/a:v1", None, None, None, 1_000, Check::Now),
            ("held by digest", "r/a@sha256:1", None, Some("r/a@sha256:1"), None, 9_000, Check::Later(None)),
            ("another digest", "r/a@sha256:2", None, Some("r/a@sha256:1"), Some(&tag), 1_000, Check::Now),
            ("no polling", "r/a:v1", None, Some("r/a@sha256:1"), Some(&tag), 9_000, Check::Later(None)),
            ("another tag", "r/a:v2", None, Some("r/a@sha256:1"), Some(&tag), 1_000, Check::Now),
            ("content of another replica", "r/a:v1", None, Some("r/a@sha256:1"), None, 1_000, Check::Now),
            ("content not the tag's", "r/a:v1", None, Some("r/a@sha256:9"), Some(&tag), 1_000, Check::Now),
            (
                "before the interval is over",
                "r/a:v1",
                minute,
                Some("r/a@sha256:1"),
                Some(&tag),
                1_020,
                Check::Later(Some(Duration::from_secs(40))),
            ),
            ("interval over", "r/a:v1", minute, Some("r/a@sha256:1"), Some(&tag), 1_060, Check::Now),
            ("clock set back", "r/a:v1", minute, Some("r/a@sha256:1"), Some(&tag), 10, Check::Now),
        ] {
            assert_eq!(decide(source, interval, held, known, at(now)), expected, "{what}");
        }
    }
}
