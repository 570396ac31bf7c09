//! Kubernetes resource quantities in their canonical spelling.
//!
//! Source: k8s.io/apimachinery `pkg/api/resource` (`ParseQuantity` and `CanonicalizeBytes`): short numbers keep
//! their spelling, others are computed in nano-units, rounded up.

const PATTERN: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const SUFFIX: &str = "unable to parse quantity's suffix";

/// Longest quantity read: Kubernetes' own are below 30 characters, and big numbers cost quadratic time.
const QUANTITY_CHARS_MAX: usize = 128;

/// What larger binary quantities are cut to.
const BINARY_MAX: u128 = (1 << 63) - 1;

/// Suffixes of powers of 1000, from the smallest unit.
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
/// The power of ten of the first of them.
const DECIMAL_LEAST: i32 = -9;
/// Suffixes of powers of 1024.
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    Decimal,
    Binary,
    Exponent,
}

struct Parts<'a> {
    negative: bool,
    whole: &'a str,
    fraction: &'a str,
    family: Family,
    exponent: i32,
}

/// The canonical spelling of `text`.
///
/// # Errors
/// Upstream's sentence when it is no quantity.
pub(crate) fn canonical(text: &str) -> Result<String, &'static str> {
    let text = text.trim();
    if text.len() > QUANTITY_CHARS_MAX {
        return Err(PATTERN);
    }
    if text == "0" {
        return Ok("0".to_owned());
    }
    let parts = parse(text)?;
    if keeps_spelling(&parts) {
        return Ok(text.to_owned());
    }
    Ok(computed(&parts))
}

/// The amount in whole units, rounded up and with the largest suffix of a power of 1024 that is exact. `None` for what is no
/// quantity or below zero.
pub fn binary_quantity(text: &str) -> Option<String> {
    let parts = (text.len() <= QUANTITY_CHARS_MAX).then(|| parse(text.trim()).ok())??;
    let digits = nanos(&parts);
    if digits.is_empty() {
        return Some("0".to_owned());
    }
    let (whole, rest) = digits.split_at(digits.len().saturating_sub(9));
    let whole: String = whole.iter().map(|digit| char::from(b'0' + digit)).collect();
    let whole = if whole.is_empty() { 0 } else { whole.parse().unwrap_or(BINARY_MAX) };
    let is_rounded = rest.iter().any(|digit| *digit != 0);
    (!parts.negative).then(|| binary(whole.saturating_add(u128::from(is_rounded)).min(BINARY_MAX)))
}

fn parse(text: &str) -> Result<Parts<'_>, &'static str> {
    let (negative, unsigned) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        Some(_) => (false, text),
        None => return Err(PATTERN),
    };
    let number_end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(number_end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.contains('.') {
        return Err(PATTERN);
    }
    let (family, exponent) = family(suffix)?;
    // Without digits it is 0 to Kubernetes, but only where a short number could be kept as it is.
    if !number.contains(|c: char| c.is_ascii_digit()) && matches!(family, Family::Binary) && exponent >= 50 {
        return Err(PATTERN);
    }
    Ok(Parts { negative, whole: whole.trim_start_matches('0'), fraction, family, exponent })
}

fn family(suffix: &str) -> Result<(Family, i32), &'static str> {
    for (power, decimal) in (DECIMAL_LEAST..).step_by(3).zip(DECIMAL) {
        if suffix == decimal {
            return Ok((Family::Decimal, power));
        }
    }
    for (power, binary) in (0..).step_by(10).zip(BINARY) {
        if suffix == binary {
            return Ok((Family::Binary, power));
        }
    }
    match suffix.strip_prefix(['e', 'E']).map(str::parse::<i32>) {
        // Beyond this every quantity is 0 or out of range.
        Some(Ok(exponent)) if (-64..=64).contains(&exponent) => Ok((Family::Exponent, exponent)),
        _ => Err(if has_form(suffix) { SUFFIX } else { PATTERN }),
    }
}

/// Whether a suffix has the form of one, known or not.
fn has_form(suffix: &str) -> bool {
    let digits = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    digits.strip_prefix(['-', '+']).unwrap_or(digits).bytes().all(|byte| byte.is_ascii_digit())
}

fn keeps_spelling(parts: &Parts<'_>) -> bool {
    let (whole, fraction) = (parts.whole.len(), parts.fraction.len());
    let Ok(fraction_digits) = i32::try_from(fraction) else { return false };
    match parts.family {
        Family::Decimal | Family::Exponent => {
            let scale = parts.exponent - fraction_digits;
            let ends_in_thousand = if fraction >= 3 {
                parts.fraction.ends_with("000")
            } else {
                let zeros = |text: &str| text.bytes().rev().take_while(|byte| *byte == b'0').count();
                let of_fraction = zeros(parts.fraction);
                of_fraction == fraction && of_fraction + zeros(parts.whole) >= 3
            };
            let starts_with_zero = whole == 0;
            whole + fraction <= 18 && scale >= -9 && scale % 3 == 0 && !ends_in_thousand && !starts_with_zero
        }
        Family::Binary => {
            let factor = 1_i64.checked_shl(parts.exponent.unsigned_abs());
            let fits = |n: i64| n % 8 != 0 && factor.is_some_and(|factor| n.checked_mul(factor).is_some());
            let precision =
                15 - i64::try_from(whole).unwrap_or(i64::MAX) - i64::from(parts.exponent * 3 / 10) - 1;
            fraction == 0 && precision >= 0 && whole > 0 && parts.whole.parse::<i64>().is_ok_and(fits)
        }
    }
}

/// The value in nano-units, rounded away from zero, as decimal digits without leading zeros.
fn nanos(parts: &Parts<'_>) -> Vec<u8> {
    let mut digits: Vec<u8> =
        parts.whole.bytes().chain(parts.fraction.bytes()).map(|byte| byte - b'0').collect();
    let mut scale = 9 - i32::try_from(parts.fraction.len()).unwrap_or(i32::MAX);
    if parts.family == Family::Binary {
        for _ in 0..parts.exponent {
            double(&mut digits);
        }
    } else {
        scale += parts.exponent;
    }
    if scale >= 0 {
        digits.extend(std::iter::repeat_n(0, usize::try_from(scale).unwrap_or(0)));
    } else {
        let kept = digits.len().saturating_sub(usize::try_from(-scale).unwrap_or(usize::MAX));
        let lost = digits.split_off(kept);
        if lost.iter().any(|digit| *digit != 0) {
            increment(&mut digits);
        }
    }
    let zeros = digits.iter().take_while(|digit| **digit == 0).count();
    digits.drain(..zeros);
    digits
}

fn double(digits: &mut Vec<u8>) {
    let mut carry = 0;
    for digit in digits.iter_mut().rev() {
        let value = *digit * 2 + carry;
        *digit = value % 10;
        carry = value / 10;
    }
    if carry > 0 {
        digits.insert(0, carry);
    }
}

fn increment(digits: &mut Vec<u8>) {
    for digit in digits.iter_mut().rev() {
        if *digit < 9 {
            *digit += 1;
            return;
        }
        *digit = 0;
    }
    digits.insert(0, 1);
}

fn computed(parts: &Parts<'_>) -> String {
    let mut digits = nanos(parts);
    if digits.is_empty() {
        return "0".to_owned();
    }
    let sign = if parts.negative { "-" } else { "" };
    let units = digits.len().saturating_sub(9);
    let units: String = digits.iter().take(units).map(|digit| char::from(b'0' + digit)).collect();
    let units = if units.is_empty() { 0 } else { units.parse::<u128>().unwrap_or(u128::MAX) };
    if parts.family == Family::Binary && units >= BINARY_MAX {
        return format!("{sign}{BINARY_MAX}");
    }
    let whole_units = digits.len() > 9 && digits.iter().rev().take(9).all(|digit| *digit == 0);
    if parts.family == Family::Binary && whole_units && units >= 1024 {
        return format!("{sign}{}", binary(units));
    }
    let mut exponent = -9;
    while digits.last() == Some(&0) {
        digits.pop();
        exponent += 1;
    }
    while exponent % 3 != 0 {
        digits.push(0);
        exponent -= 1;
    }
    let number: String = digits.iter().map(|digit| char::from(b'0' + digit)).collect();
    let step = usize::try_from((exponent - DECIMAL_LEAST) / 3).unwrap_or_default();
    let suffix = match (parts.family, DECIMAL.get(step)) {
        (Family::Exponent, _) if exponent == 0 => String::new(),
        (Family::Decimal | Family::Binary, Some(suffix)) => (*suffix).to_owned(),
        _ => format!("e{exponent}"),
    };
    format!("{sign}{number}{suffix}")
}

fn binary(mut units: u128) -> String {
    let mut step = 0;
    while units.is_multiple_of(1024) && step + 1 < BINARY.len() {
        units /= 1024;
        step += 1;
    }
    format!("{units}{}", BINARY[step])
}

#[cfg(test)]
mod tests {
    use super::{PATTERN, SUFFIX, binary_quantity, canonical};

    #[test]
    fn quantities_get_their_canonical_spelling() {
        for (text, wanted) in [
            ("1000m", "1"),
            ("1024Mi", "1Gi"),
            ("1.5e3", "1500"),
            ("0.5", "500m"),
            ("1.5Gi", "1536Mi"),
            ("1e3", "1e3"),
            ("1E3", "1E3"),
            ("12e6", "12e6"),
            ("1500m", "1500m"),
            ("1500Mi", "1500Mi"),
            ("1000Ki", "1000Ki"),
            ("1025Mi", "1025Mi"),
            ("1.234", "1.234"),
            ("12.345k", "12.345k"),
            ("1000", "1k"),
            ("1000000000", "1G"),
            ("0.5Gi", "512Mi"),
            ("1.2345", "1234500u"),
            ("1000k", "1M"),
            ("1073741824", "1073741824"),
            ("0.0001", "100u"),
            ("001", "001"),
            ("010m", "010m"),
            ("+1", "+1"),
            ("1.7Ki", "1740800m"),
            ("0m", "0"),
            ("0Gi", "0"),
            ("100000000000n", "100"),
            ("99999999999999999999", "99999999999999999999"),
            ("1.0", "1"),
            ("256Mi", "256Mi"),
            ("8Gi", "8Gi"),
            ("64Mi", "64Mi"),
            ("10Mi", "10Mi"),
            ("-500m", "-500m"),
            (" 1 ", "1"),
        ] {
            assert_eq!(canonical(text).as_deref(), Ok(wanted), "{text}");
        }
    }

    #[test]
    fn an_amount_has_the_largest_exact_suffix() {
        for (text, wanted) in [
            ("1G", "1000000000"),
            ("2G", "1953125Ki"),
            ("100Mi", "100Mi"),
            ("104857600", "100Mi"),
            ("1.5Gi", "1536Mi"),
            ("1e3", "1000"),
            ("500m", "1"),
            ("1024500m", "1025"),
            ("0", "0"),
            ("1e64", "9223372036854775807"),
            ("99999999999999999999999999999999999999999999", "9223372036854775807"),
        ] {
            assert_eq!(binary_quantity(text).as_deref(), Some(wanted), "{text}");
        }
        let long = "1".repeat(1000);
        for text in ["", "x", "1GB", "-1G", &long] {
            assert_eq!(binary_quantity(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_no_quantity_is_refused() {
        for text in ["", "x", "1.2.3", "Ei", "1mi", "1e", "1e99999", "1e-2147483648", "1e2147483648"] {
            assert!(canonical(text).is_err(), "{text}");
        }
        for (text, error) in
            [("one", PATTERN), ("1x", PATTERN), ("1e+", SUFFIX), ("1mi", SUFFIX), ("1e3k", PATTERN)]
        {
            assert_eq!(canonical(text), Err(error), "{text}");
        }
    }
}
