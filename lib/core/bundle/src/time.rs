//! Points in time as Kubernetes writes them: whole seconds of UTC.
//!
//! Imitated: k8s.io/apimachinery `pkg/apis/meta/v1` (`Time`), which reads RFC 3339 with Go's `time.Parse`.

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
/// them; jiff alone would take shorter years and a second 60, too.
fn parse(text: &str) -> Option<DateTime> {
    let (local, offset) = match text.strip_suffix('Z') {
        Some(local) => (local, 0),
        None => {
            text.split_at_checked(text.len().checked_sub("+00:00".len())?).and_then(|(local, zone)| {
                let sign = if zone.starts_with('-') { -1 } else { 1 };
                let (hours, minutes) =
                    (zone.get(1..3)?.parse::<i64>().ok()?, zone.get(4..)?.parse::<i64>().ok()?);
                let fits =
                    ["+00:00", "-00:00"].contains(&shape(zone).as_str()) && hours <= 24 && minutes < 60;
                fits.then_some((local, sign * (hours * 60 + minutes) * 60))
            })?
        }
    };
    let (local, fraction) = local.split_once(['.', ',']).unwrap_or((local, "0"));
    let is_go = ["0000-00-00T00:00:00", "0000-00-00T0:00:00"].contains(&shape(local).as_str());
    let is_number = !fraction.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit());
    if !is_go || !is_number || local.ends_with(":60") {
        return None;
    }
    let local = DateTime::strptime("%Y-%m-%dT%H:%M:%S", local).ok()?;
    local.checked_sub(SignedDuration::from_secs(offset)).ok()
}

/// A text with 0 for each digit.
fn shape(text: &str) -> String {
    text.chars().map(|character| if character.is_ascii_digit() { '0' } else { character }).collect()
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
