//! Untrusted text (from catalogs, bundles, registries, files, the API server's responses), made safe to show.
//!
//! Terminals carry out control characters, bidirectional controls change the order in which text is read, and a line
//! break in a name looks like a further line of the program's own. [`visible`] is for a whole text on its way out: to a
//! condition, an Event, a log or a terminal; the program's own line breaks stay. [`one_line`] is for an untrusted part of
//! such a text, where it comes in. [`visible_json`] is for text that is JSON already.
//!
//! What is not visible is written out as an escape instead of being dropped, so that no text can be mistaken for another.

mod similar;

use std::{borrow::Cow, error::Error, fmt::Write as _};

pub use similar::{did_you_mean, similar};

/// An error with its causes, each once; the text of an error may leave them out, or have them already.
pub fn causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let shown = cause.to_string();
        if !text.contains(&shown) {
            text.push_str(": ");
            text.push_str(&shown);
        }
        source = cause.source();
    }
    text
}

/// Whether a character is visible. Not visible are control characters, every format character (category Cf:
/// bidirectional controls, zero-width characters and joiners, tags), the line and paragraph separators, and what is
/// assigned to nothing or to private use. Blanks are visible, whatever their width.
///
/// Joiners have a use in some scripts and in emoji. They are written out all the same: two names that differ in one of
/// them look alike.
pub fn is_visible(character: char) -> bool {
    if character.is_ascii() {
        return !character.is_ascii_control();
    }
    if character.is_whitespace() {
        return !is_break(character);
    }
    // Behind another character escape_debug escapes exactly what is not printable.
    let mut buffer = ['a'; 2];
    buffer[1] = character;
    let pair: String = buffer.iter().collect();
    pair.escape_debug().nth(1) == Some(character)
}

/// The text with everything that is not visible written out; line breaks stay (`\r\n` becomes `\n`).
///
/// Applying it twice changes nothing more.
pub fn visible(text: &str) -> Cow<'_, str> {
    if text.chars().all(|character| character == '\n' || is_visible(character)) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len());
    for character in text.replace("\r\n", "\n").chars() {
        if character == '\n' || is_visible(character) {
            safe.push(character);
        } else {
            escape(&mut safe, character);
        }
    }
    Cow::Owned(safe)
}

/// The text on one line: each line break, with the blanks around it, becomes one blank, each tab too; line breaks at the
/// ends are dropped. Everything else that is not visible is written out.
pub fn one_line(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_visible) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len());
    let mut is_behind_break = false;
    for character in text.chars() {
        if is_break(character) {
            safe.truncate(safe.trim_end().len());
            is_behind_break = true;
            continue;
        }
        if is_behind_break && character.is_whitespace() {
            continue;
        }
        if is_behind_break && !safe.is_empty() {
            safe.push(' ');
        }
        is_behind_break = false;
        match character {
            '\t' => safe.push(' '),
            _ if is_visible(character) => safe.push(character),
            _ => escape(&mut safe, character),
        }
    }
    Cow::Owned(safe)
}

/// JSON with everything that is not visible as its escapes: the same values, safe on a terminal. The line breaks between
/// its tokens stay.
pub fn visible_json(json: &str) -> Cow<'_, str> {
    if json.chars().all(|character| matches!(character, '\n' | '\t') || is_visible(character)) {
        return Cow::Borrowed(json);
    }
    let mut safe = String::with_capacity(json.len());
    for character in json.chars() {
        if matches!(character, '\n' | '\r' | '\t') || is_visible(character) {
            safe.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            // Writing to a String cannot fail.
            let _ = write!(safe, "\\u{unit:04x}");
        }
    }
    Cow::Owned(safe)
}

/// A number with its noun, such as `1 package` or `2 packages`.
pub fn counted(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// The first `characters` of a text, with `...` for the rest.
pub fn cut(text: &str, characters: usize) -> Cow<'_, str> {
    match text.char_indices().nth(characters) {
        Some((end, _)) => Cow::Owned(format!("{}...", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

fn is_break(character: char) -> bool {
    matches!(
        character,
        '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}'
    )
}

fn escape(safe: &mut String, character: char) {
    // Writing to a String cannot fail.
    let _ = write!(safe, "{}", character.escape_default());
}

#[cfg(test)]
mod tests;
