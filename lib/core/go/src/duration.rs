//! Durations as Go's `time.ParseDuration` reads them.

use thiserror::Error;

use crate::Quoted;

/// Why a text is no duration, in Go's words.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DurationError {
    /// It is none, or too long a one.
    #[error("time: invalid duration {}", Quoted(.0))]
    Invalid(String),
    /// A number has no unit.
    #[error("time: missing unit in duration {}", Quoted(.0))]
    MissingUnit(String),
    /// There is no such unit.
    #[error("time: unknown unit {} in duration {}", Quoted(.unit), Quoted(.text))]
    UnknownUnit {
        /// The unit.
        unit: String,
        /// The whole text.
        text: String,
    },
}

/// The nanoseconds of a text such as `1h30m` or `-1.5s`.
///
/// # Errors
/// The text is no duration, or one that 64 bits do not hold.
pub fn parse(text: &str) -> Result<i64, DurationError> {
    let invalid = || DurationError::Invalid(text.to_owned());
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let (whole, after) = digits(rest);
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => digits(after),
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(invalid());
        }
        let end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        if unit.is_empty() {
            return Err(DurationError::MissingUnit(text.to_owned()));
        }
        let scale = scale(unit)
            .ok_or_else(|| DurationError::UnknownUnit { unit: unit.to_owned(), text: text.to_owned() })?;
        total += nanoseconds(whole, fraction, scale).ok_or_else(invalid)?;
        if total > i128::from(i64::MAX) + i128::from(negative) {
            return Err(invalid());
        }
        rest = after;
    }
    i64::try_from(if negative { -total } else { total }).map_err(|_| invalid())
}

/// The digits at the beginning, and the rest.
fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

fn scale(unit: &str) -> Option<i128> {
    Some(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

/// A number of units in nanoseconds. Further digits of a fraction than the eighteenth change nothing.
fn nanoseconds(whole: &str, fraction: &str, scale: i128) -> Option<i128> {
    let whole: i128 =
        if whole.is_empty() { 0 } else { whole.parse().ok().filter(|whole| *whole <= 1 << 63)? };
    let fraction = &fraction[..fraction.len().min(18)];
    let digits = u32::try_from(fraction.len()).ok()?;
    let part: i128 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
    Some(whole * scale + part * scale / 10_i128.pow(digits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, nanoseconds) in [
            ("0", 0),
            ("5s", 5_000_000_000),
            ("+5s", 5_000_000_000),
            ("-5s", -5_000_000_000),
            ("1.5h", 5_400_000_000_000),
            (".5s", 500_000_000),
            ("1.s", 1_000_000_000),
            ("3h2m1s", 10_921_000_000_000),
            ("10ns11us12ms", 12_011_010),
            ("0.1000000000000000000000001s", 100_000_000),
            ("9223372036854775807ns", i64::MAX),
            ("-9223372036854775808ns", i64::MIN),
        ] {
            assert_eq!(parse(text), Ok(nanoseconds), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_named_in_gos_words() {
        for (text, error) in [
            ("", "time: invalid duration \"\""),
            ("-", "time: invalid duration \"-\""),
            ("s", "time: invalid duration \"s\""),
            (".s", "time: invalid duration \".s\""),
            ("3", "time: missing unit in duration \"3\""),
            ("1h3", "time: missing unit in duration \"1h3\""),
            ("5d", "time: unknown unit \"d\" in duration \"5d\""),
            ("1 h", "time: unknown unit \" h\" in duration \"1 h\""),
            ("9223372036854775808ns", "time: invalid duration \"9223372036854775808ns\""),
            ("3000000h", "time: invalid duration \"3000000h\""),
            ("99999999999999999999h", "time: invalid duration \"99999999999999999999h\""),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), error);
        }
    }
}
