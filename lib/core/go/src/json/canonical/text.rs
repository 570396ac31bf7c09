//! Strings: copied in stretches, rewritten only where the escaping is not the canonical one.

use std::borrow::Cow;

use super::{Cursor, JsonError};
use crate::json::{Html, write_char};

const LOW: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// How many bytes at the head of `bytes` are plain: ASCII, no control character, quote or backslash.
fn plain(bytes: &[u8]) -> usize {
    let mut at = 0;
    // Eight bytes at a time: a bit is set where a byte is special. A borrow may set further bits, but only
    // above a true one, and only the lowest counts.
    for chunk in bytes.chunks_exact(8) {
        let Ok(array) = <[u8; 8]>::try_from(chunk) else { break };
        let word = u64::from_le_bytes(array);
        let quote = word ^ (LOW * u64::from(b'"'));
        let backslash = word ^ (LOW * u64::from(b'\\'));
        let special = (word.wrapping_sub(LOW * 0x20) & !word)
            | (quote.wrapping_sub(LOW) & !quote)
            | (backslash.wrapping_sub(LOW) & !backslash)
            | word;
        let special = special & HIGH;
        if special != 0 {
            return at + special.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let rest = &bytes[at..];
    at + rest
        .iter()
        .position(|&byte| !(0x20..0x80).contains(&byte) || byte == b'"' || byte == b'\\')
        .unwrap_or(rest.len())
}

/// Copies the string at the cursor, quotes included, in its canonical form.
pub(super) fn string(cursor: &mut Cursor<'_>, line: &mut Vec<u8>) -> Result<(), JsonError> {
    let input = cursor.input;
    let mut at = cursor.at + 1;
    // The bytes between here and `at` are canonical and not copied yet; the opening quote is part of it.
    let mut pending = cursor.at;
    loop {
        at += plain(&input[at..]);
        let byte = *input.get(at).ok_or(JsonError::Incomplete)?;
        match byte {
            b'"' => {
                at += 1;
                line.extend_from_slice(&input[pending..at]);
                cursor.at = at;
                return Ok(());
            }
            b'\\' => match *input.get(at + 1).ok_or(JsonError::Incomplete)? {
                b'"' | b'\\' | b'n' | b't' | b'r' | b'b' | b'f' => at += 2,
                b'/' => {
                    line.extend_from_slice(&input[pending..at]);
                    // The slash itself is the next plain byte.
                    at += 1;
                    pending = at;
                    at += 1;
                }
                b'u' => {
                    line.extend_from_slice(&input[pending..at]);
                    at += unicode_escape(input, at, line)?;
                    pending = at;
                }
                _ => return Err(JsonError::Invalid { offset: at, problem: "unknown escape in a string" }),
            },
            0..0x20 => {
                return Err(JsonError::Invalid { offset: at, problem: "control character in a string" });
            }
            _ => {
                let stretch = input[at..].iter().position(u8::is_ascii).ok_or(JsonError::Incomplete)?;
                let bytes = &input[at..at + stretch];
                match std::str::from_utf8(bytes) {
                    Ok(text) if !text.contains(['\u{2028}', '\u{2029}']) => at += stretch,
                    _ => {
                        line.extend_from_slice(&input[pending..at]);
                        repaired(bytes, line);
                        at += stretch;
                        pending = at;
                    }
                }
            }
        }
    }
}

/// Writes bytes beyond ASCII: separators escaped, each byte that is no UTF-8 replaced.
fn repaired(bytes: &[u8], line: &mut Vec<u8>) {
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            write_char(line, character, Html::Kept);
        }
        for _ in chunk.invalid() {
            write_char(line, char::REPLACEMENT_CHARACTER, Html::Kept);
        }
    }
}

/// Rewrites the `\u` escape at `at` (with its second half, if it is a surrogate pair); answers its length.
fn unicode_escape(input: &[u8], at: usize, line: &mut Vec<u8>) -> Result<usize, JsonError> {
    let first = hex(input, at)?;
    if let Some(character) = char::from_u32(first) {
        write_char(line, character, Html::Kept);
        return Ok(6);
    }
    // A surrogate: without its other half it means the replacement character.
    match input.get(at + 6..at + 8) {
        None => return Err(JsonError::Incomplete),
        Some(b"\\u") => {
            let second = hex(input, at + 6)?;
            if (0xd800..0xdc00).contains(&first) && (0xdc00..0xe000).contains(&second) {
                let code = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                write_char(line, char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), Html::Kept);
                return Ok(12);
            }
        }
        Some(_) => {}
    }
    write_char(line, char::REPLACEMENT_CHARACTER, Html::Kept);
    Ok(6)
}

fn hex(input: &[u8], at: usize) -> Result<u32, JsonError> {
    let digits = input.get(at + 2..at + 6).ok_or(JsonError::Incomplete)?;
    digits.iter().try_fold(0, |number, &digit| {
        let value = char::from(digit).to_digit(16);
        value
            .map(|value| number * 16 + value)
            .ok_or(JsonError::Invalid { offset: at, problem: "malformed escape in a string" })
    })
}

/// A canonical string without its quotes.
pub(super) fn inner(quoted: &[u8]) -> &[u8] {
    quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default()
}

/// The text that a canonical string (quotes included) encodes.
pub fn decode(quoted: &[u8]) -> Cow<'_, str> {
    let inner = inner(quoted);
    if inner.contains(&b'\\') {
        // Canonical strings are valid JSON, so the fallback is never taken.
        Cow::Owned(serde_json::from_slice(quoted).unwrap_or_default())
    } else {
        String::from_utf8_lossy(inner)
    }
}
