//! Numbers as 64-bit floats print.

use serde_json::Number;

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
    if is_exact_integer(number) {
        line.extend_from_slice(number);
    } else {
        let text = std::str::from_utf8(number).unwrap_or_default();
        // Rust reads more than JSON allows, as `1.` and `+1`.
        let is_json = text.parse::<Number>().is_ok();
        let float = text.parse().ok().filter(|float: &f64| is_json && float.is_finite());
        let float = float.ok_or_else(|| cursor.invalid("malformed number, or one out of range"))?;
        line.extend_from_slice(float::json(float).as_bytes());
    }
    cursor.at += length;
    Ok(())
}

fn is_exact_integer(number: &[u8]) -> bool {
    let digits = number.strip_prefix(b"-").unwrap_or(number);
    digits.iter().all(u8::is_ascii_digit)
        && (1..=EXACT_DIGITS).contains(&digits.len())
        && (digits.len() == 1 || digits.first() != Some(&b'0'))
}
