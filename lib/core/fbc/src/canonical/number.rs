//! Numbers: what a 64-bit float prints, shortest form, exponent from 1e21 and below 1e-6.

use std::io::Write as _;

use super::{Cursor, Stop};

/// Integers of so many digits survive a 64-bit float and print as themselves.
const EXACT_DIGITS: usize = 15;

/// Copies the number at the cursor in its canonical form.
pub(super) fn number(cursor: &mut Cursor<'_>, line: &mut Vec<u8>) -> Result<(), Stop> {
    let rest = &cursor.input[cursor.at..];
    let length = rest
        .iter()
        .position(|byte| !matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E'))
        .ok_or(Stop::Incomplete)?;
    let number = &rest[..length];
    let integer = integer_digits(number).ok_or_else(|| cursor.invalid("malformed number"))?;
    if integer == Integer::Small {
        line.extend_from_slice(number);
    } else {
        let parsed = std::str::from_utf8(number).ok().and_then(|text| text.parse::<f64>().ok());
        let float =
            parsed.filter(|float| float.is_finite()).ok_or_else(|| cursor.invalid("number out of range"))?;
        print(float, line);
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

/// Prints a float; also for what is not read from a document.
pub fn print(float: f64, line: &mut Vec<u8>) {
    let size = float.abs();
    // Writing to a Vec cannot fail.
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        let text = format!("{float:e}");
        let signed = if text.contains("e-") { text } else { text.replace('e', "e+") };
        line.extend_from_slice(signed.as_bytes());
    } else {
        let _ = write!(line, "{float}");
    }
}
