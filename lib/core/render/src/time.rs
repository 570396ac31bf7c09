//! Points in time as Kubernetes writes them: whole seconds of UTC.
//!
//! Source: k8s.io/apimachinery `pkg/apis/meta/v1` (`Time`), which reads RFC 3339 with Go's `time.Parse`.

const REFUSED: &str = "cannot parse as a time: want for instance 2006-01-02T15:04:05Z";
const SECONDS_OF_A_DAY: i64 = 86_400;

/// The canonical spelling; `None` for the zero time, which is written as null.
///
/// # Errors
/// It is no time of RFC 3339.
pub(crate) fn canonical(text: &str) -> Result<Option<String>, &'static str> {
    let seconds = parse(text).ok_or(REFUSED)?;
    let (day, second) = (seconds.div_euclid(SECONDS_OF_A_DAY), seconds.rem_euclid(SECONDS_OF_A_DAY));
    let (year, month, date) = civil(day);
    if !(0..=9999).contains(&year) {
        return Err(REFUSED);
    }
    if (year, month, date, second) == (1, 1, 1, 0) {
        return Ok(None);
    }
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    Ok(Some(format!("{year:04}-{month:02}-{date:02}T{hour:02}:{minute:02}:{second:02}Z")))
}

/// Seconds since 1970. Hours may have one digit and fractions follow a dot or a comma, as Go reads them.
fn parse(text: &str) -> Option<i64> {
    let (date, time) = text.split_once('T')?;
    let mut parts = date.splitn(3, '-');
    let year = digits(parts.next()?, 4)?;
    let month = digits(parts.next()?, 2).filter(|month| (1..=12).contains(month))?;
    let day = digits(parts.next()?, 2).filter(|day| (1..=days_of(year, month)).contains(day))?;
    let (clock, offset) = if let Some(clock) = time.strip_suffix('Z') {
        (clock, 0)
    } else {
        let at = time.rfind(['+', '-'])?;
        let (hours, minutes) = time.get(at + 1..)?.split_once(':')?;
        let hours = digits(hours, 2).filter(|hours| *hours <= 24)?;
        let minutes = digits(minutes, 2).filter(|minutes| *minutes < 60)?;
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
    let hour = digits(hour, hour.len().clamp(1, 2)).filter(|hour| *hour < 24)?;
    let minute = digits(parts.next()?, 2).filter(|minute| *minute < 60)?;
    let second = digits(parts.next()?, 2).filter(|second| *second < 60)?;
    Some(days(year, month, day) * SECONDS_OF_A_DAY + (hour * 60 + minute) * 60 + second - offset)
}

fn digits(text: &str, count: usize) -> Option<i64> {
    (text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

fn days_of(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01 in the Gregorian calendar; years begin in March, so that leap days come last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The date of a day since 1970-01-01.
fn civil(day: i64) -> (i64, i64, i64) {
    let shifted = day + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let date = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, date)
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
        ] {
            assert_eq!(canonical(text).unwrap().as_deref(), wanted, "{text}");
        }
    }

    #[test]
    fn what_go_refuses_is_refused() {
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
        ] {
            assert!(canonical(text).is_err(), "{text}");
        }
    }
}
