//! When the registry is asked whether a tag names a newer image.

use std::time::Duration;

use jiff::Timestamp;
use olm_api_classic::{CatalogSource, RegistryPoll};
use olm_go::duration;

use super::texts;

/// The interval instead of one that cannot be read.
pub const DEFAULT: Duration = Duration::from_mins(15);
/// The shortest interval: every check is a request to a registry.
pub const SHORTEST: Duration = Duration::from_secs(10);
/// The longest; a longer one is as good as none.
const LONGEST: Duration = Duration::from_hours(24 * 365);

/// How a source is polled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Polling {
    /// The time between two checks.
    pub interval: Duration,
    /// The message about an interval that cannot be read.
    pub error: Option<String>,
}

/// How the source is polled, if it is. By digest nothing can become newer.
pub fn polling(source: &CatalogSource) -> Option<Polling> {
    let strategy = source.spec.update_strategy.as_ref()?;
    let RegistryPoll { interval } = strategy.registry_poll.as_ref()?;
    let text = interval.as_deref().unwrap_or_default();
    if text.is_empty() {
        return Some(Polling { interval: DEFAULT, error: None });
    }
    Some(match duration::parse(text) {
        Ok(nanoseconds) => {
            let interval = u64::try_from(nanoseconds).map_or(SHORTEST, Duration::from_nanos);
            Polling { interval: interval.clamp(SHORTEST, LONGEST), error: None }
        }
        Err(error) => Polling { interval: DEFAULT, error: Some(texts::invalid_interval(&error.to_string())) },
    })
}

/// How long until the next check: it is due an interval after the last one, or after the creation of the source.
pub fn next_check(source: &CatalogSource, polling: &Polling, now: Timestamp) -> Duration {
    let polled = source.status.as_ref().and_then(|status| status.latest_image_registry_poll.as_ref());
    let Some(last) = polled.or(source.metadata.creation_timestamp.as_ref()) else { return Duration::ZERO };
    // A clock that was set back must not stop the polling.
    let elapsed = Duration::try_from(now.duration_since(last.0)).unwrap_or(polling.interval);
    polling.interval.saturating_sub(elapsed)
}

/// The wait with a tenth more or less, by a random number from 0 to 1.
pub fn jittered(wait: Duration, random: f64) -> Duration {
    wait.mul_f64(0.2f64.mul_add(random.clamp(0.0, 1.0), 0.9))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use olm_api_classic::{CatalogSourceSpec, CatalogSourceStatus, UpdateStrategy};

    use super::*;

    fn polled_every(interval: Option<&str>) -> CatalogSource {
        let registry_poll = Some(RegistryPoll { interval: interval.map(str::to_owned) });
        let update_strategy = Some(UpdateStrategy { registry_poll });
        CatalogSource::new("c", CatalogSourceSpec { update_strategy, ..CatalogSourceSpec::default() })
    }

    #[test]
    fn an_interval_that_cannot_be_read_is_reported_and_replaced() {
        assert_eq!(polling(&CatalogSource::default()), None);
        for (text, seconds) in
            [("45m", 2700), ("1h30m", 5400), ("1ms", 10), ("-5m", 10), ("0", 10), ("2000000h", 31_536_000)]
        {
            let found = polling(&polled_every(Some(text))).unwrap();
            assert_eq!((found.interval.as_secs(), found.error), (seconds, None), "{text}");
        }
        assert_eq!(polling(&polled_every(None)).unwrap().interval, DEFAULT);
        let wrong = polling(&polled_every(Some("45mError.code"))).unwrap();
        assert_eq!(wrong.interval, DEFAULT);
        assert_eq!(
            wrong.error.unwrap(),
            "error parsing spec.updateStrategy.registryPoll.interval. Using the default value of 15m0s instead. \
             Error: time: unknown unit \"mError\" in duration \"45mError.code\""
        );
    }

    #[test]
    fn a_check_is_due_an_interval_after_the_last_one_or_after_the_creation() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut source = polled_every(Some("1m"));
        let polling = polling(&source).unwrap();
        assert_eq!(next_check(&source, &polling, at(0)), Duration::ZERO);
        source.metadata.creation_timestamp = Some(Time(at(1000)));
        assert_eq!(next_check(&source, &polling, at(1020)).as_secs(), 40);
        let latest_image_registry_poll = Some(Time(at(2000)));
        source.status =
            Some(CatalogSourceStatus { latest_image_registry_poll, ..CatalogSourceStatus::default() });
        assert_eq!(next_check(&source, &polling, at(2059)).as_secs(), 1);
        assert_eq!(next_check(&source, &polling, at(2060)), Duration::ZERO);
        assert_eq!(next_check(&source, &polling, at(10)), Duration::ZERO, "the clock was set back");
        let wait = Duration::from_secs(100);
        assert_eq!((jittered(wait, 0.0).as_secs(), jittered(wait, 1.0).as_secs()), (90, 110));
    }
}
