//! Numbers as 64-bit floats print.

use super::{Cursor, JsonError};
use crate::float;

/// Integers of so many digits survive a 64-bit float and print as themselves.
const EXACT_DIGITS: usize = 15;

/// Copies the number at the cursor in its canonical form.
pub(super) fn number(cursor: &mut Cursor<'_>, line: &mut Vec<u8>) -> Result<(), JsonError> {
    let rest = &cursor.input[cursor.at..];
    let length = rest
        .iter()
        .position(|byte| !matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E'))
        .ok_or(JsonError::Incomplete)?;
    let number = &rest[..length];
    let integer = integer_digits(number).ok_or_else(|| cursor.invalid("malformed number"))?;
    if integer == Integer::Small {
        line.extend_from_slice(number);
    } else {
        let parsed = std::str::from_utf8(number).ok().and_then(|text| text.parse::<f64>().ok());
        let float =
            parsed.filter(|float| float.is_finite()).ok_or_else(|| cursor.invalid("number out of range"))?;
        line.extend_from_slice(float::json(float).as_bytes());
    }
    cursor.at += length;
    Ok(())
}

#[derive(PartialEq)]
enum Integer {
    Small,
    Other,
}

/// Checks the grammar of JSON; `None` when the text breaks it.
fn integer_digits(number: &[u8]) -> Option<Integer> {
    let unsigned = number.strip_prefix(b"-").unwrap_or(number);
    let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let whole = digits(unsigned);
    if whole == 0 || (whole > 1 && unsigned[0] == b'0') {
        return None;
    }
    let mut rest = &unsigned[whole..];
    if rest.is_empty() {
        return Some(if whole <= EXACT_DIGITS { Integer::Small } else { Integer::Other });
    }
    if let Some(fraction) = rest.strip_prefix(b".") {
        let count = digits(fraction);
        if count == 0 {
            return None;
        }
        rest = &fraction[count..];
    }
    if let [b'e' | b'E', exponent @ ..] = rest {
        let exponent =
            exponent.strip_prefix(b"+").or_else(|| exponent.strip_prefix(b"-")).unwrap_or(exponent);
        let count = digits(exponent);
        if count == 0 {
            return None;
        }
        rest = &exponent[count..];
    }
    rest.is_empty().then_some(Integer::Other)
}
