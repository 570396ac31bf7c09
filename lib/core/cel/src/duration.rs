//! Durations in Go's form.

use crate::limits::DURATION_BYTES_MAX;

/// The nanoseconds of a duration as Go writes it. A longer text than [`DURATION_BYTES_MAX`] is none.
pub fn duration(text: &str) -> Option<i128> {
    const UNITS: [(&str, i128); 8] = [
        ("ns", 1),
        ("us", 1_000),
        ("µs", 1_000),
        ("μs", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("m", 60_000_000_000),
        ("h", 3_600_000_000_000),
    ];
    if text.len() > DURATION_BYTES_MAX {
        return None;
    }
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (whole, after) = rest.split_at(end);
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => after.split_at(after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len())),
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, behind) = after.split_at(end);
        let (_, scale) = UNITS.iter().find(|(name, _)| *name == unit)?;
        let whole: i128 = if whole.is_empty() { 0 } else { i128::from(whole.parse::<u64>().ok()?) };
        // Digits beyond what nanoseconds of an hour can hold change nothing.
        let digits = &fraction[..fraction.len().min(15)];
        let fraction: i128 = if digits.is_empty() { 0 } else { digits.parse().ok()? };
        let tens = 10_i128.checked_pow(u32::try_from(digits.len()).ok()?)?;
        total = total.checked_add(whole.checked_mul(*scale)?)?.checked_add(fraction * scale / tens)?;
        rest = behind;
    }
    let total = if negative { -total } else { total };
    i64::try_from(total).is_ok().then_some(total)
}

#[cfg(test)]
mod tests {
    use super::duration;

    #[test]
    fn durations_have_gos_form() {
        assert_eq!(duration("1h1m1.5s"), Some(3_661_500_000_000));
        assert_eq!(duration("-1ms"), Some(-1_000_000));
        for text in ["1", "1d", "h", "", "1hh", ".s", "99999999h", &"1s".repeat(100)] {
            assert_eq!(duration(text), None, "{text}");
        }
    }
}
