//! Points in time as Kubernetes writes them: whole seconds of UTC.
//!
//! Imitated: k8s.io/apimachinery `pkg/apis/meta/v1` (`Time`), which reads RFC 3339 with Go's `time.Parse`.

use std::str::FromStr;

use jiff::{
    SignedDuration,
    civil::{DateTime, date},
};

const REFUSED: &str = "cannot parse as a time: want for instance 2006-01-02T15:04:05Z";
/// Go's zero value of a time.
const ZERO: DateTime = date(1, 1, 1).at(0, 0, 0, 0);

/// The canonical spelling; `None` for the zero time, which is written as null.
///
/// # Errors
/// It is no time of RFC 3339.
pub(crate) fn canonical(text: &str) -> Result<Option<String>, &'static str> {
    let time = parse(text).filter(|time| time.year() >= 0).ok_or(REFUSED)?;
    Ok((time != ZERO).then(|| time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()))
}

/// A time in UTC, without its fraction. Hours may have one digit and fractions follow a dot or a comma, as Go reads
/// them.
fn parse(text: &str) -> Option<DateTime> {
    let (date, time) = text.split_once('T')?;
    let mut parts = date.splitn(3, '-');
    let (year, month, day) =
        (digits(parts.next()?, 4)?, digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
    let (clock, offset) = if let Some(clock) = time.strip_suffix('Z') {
        (clock, 0)
    } else {
        let at = time.rfind(['+', '-'])?;
        let (hours, minutes) = time.get(at + 1..)?.split_once(':')?;
        let hours = digits::<i64>(hours, 2).filter(|hours| *hours <= 24)?;
        let minutes = digits::<i64>(minutes, 2).filter(|minutes| *minutes < 60)?;
        let offset = (hours * 60 + minutes) * 60;
        (time.get(..at)?, if time.as_bytes().get(at) == Some(&b'-') { -offset } else { offset })
    };
    let (clock, fraction) = match clock.find(['.', ',']) {
        Some(at) => (clock.get(..at)?, clock.get(at + 1..)?),
        None => (clock, "0"),
    };
    if fraction.is_empty() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let mut parts = clock.splitn(3, ':');
    let hour = parts.next()?;
    let hour = digits(hour, hour.len().clamp(1, 2))?;
    let (minute, second) = (digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
    let local = DateTime::new(year, month, day, hour, minute, second, 0).ok()?;
    local.checked_sub(SignedDuration::from_secs(offset)).ok()
}

fn digits<T: FromStr>(text: &str, count: usize) -> Option<T> {
    (text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::canonical;

    #[test]
    fn times_are_written_in_whole_seconds_of_utc() {
        for (text, wanted) in [
            ("2021-11-25T10:20:30Z", Some("2021-11-25T10:20:30Z")),
            ("2021-11-25T10:20:30.999Z", Some("2021-11-25T10:20:30Z")),
            ("2021-11-25T1:20:30,5Z", Some("2021-11-25T01:20:30Z")),
            ("2021-03-01T00:30:00+01:00", Some("2021-02-28T23:30:00Z")),
            ("2020-02-29T23:59:59-00:01", Some("2020-03-01T00:00:59Z")),
            ("1969-12-31T23:59:59Z", Some("1969-12-31T23:59:59Z")),
            ("0001-01-01T00:00:00Z", None),
            ("0001-01-01T00:00:01Z", Some("0001-01-01T00:00:01Z")),
            ("0000-01-01T00:00:00Z", Some("0000-01-01T00:00:00Z")),
            ("9999-12-31T23:59:59-00:00", Some("9999-12-31T23:59:59Z")),
        ] {
            assert_eq!(canonical(text).unwrap().as_deref(), wanted, "{text}");
        }
    }

    #[test]
    fn times_that_go_rejects_are_rejected() {
        for text in [
            "",
            "2021-11-25",
            "2021-11-25 10:20:30Z",
            "2021-11-25t10:20:30Z",
            "2021-13-01T00:00:00Z",
            "2021-02-29T00:00:00Z",
            "2021-02-28T24:00:00Z",
            "2021-02-28T00:00:60Z",
            "2021-02-28T00:00:00",
            "2021-02-28T00:00:00.Z",
            "2021-02-28T00:00:00+0100",
            "21-02-28T00:00:00Z",
            "+021-02-28T00:00:00Z",
            "9999-12-31T23:59:59-00:01",
            "0000-01-01T00:00:00+00:01",
        ] {
            assert!(canonical(text).is_err(), "{text}");
        }
    }
}
