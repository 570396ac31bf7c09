//! Scalars of each style, over as many lines as they take.

use std::borrow::Cow;

use super::lines::Lines;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Quoted {
    Single,
    Double,
}

/// Blanks around words inside quotes.
const BLANKS: [char; 2] = [' ', '\t'];

/// Moves the cursor to the continuation of a quoted scalar, and counts the empty lines before it. Inside quotes indentation means nothing, and may be made of tabs.
fn continues(lines: &mut Lines<'_>) -> Option<usize> {
    let mut empty = 0;
    loop {
        let rest = lines.rest();
        let own = rest.len() - rest.trim_start_matches(BLANKS).len();
        match rest.as_bytes().get(own)? {
            b'\n' => {
                empty += 1;
                lines.skip(own + 1);
            }
            _ if own == 0 && (rest.starts_with("---") || rest.starts_with("...")) => return None,
            _ => {
                lines.skip(own);
                return Some(empty);
            }
        }
    }
}

fn fold(text: &mut String, empty_lines: usize) {
    if empty_lines == 0 {
        text.push(' ');
    } else {
        text.extend(std::iter::repeat_n('\n', empty_lines));
    }
}

/// A scalar without quotes; the cursor ends up at the beginning of the line behind it.
pub(super) fn unquoted<'t>(lines: &mut Lines<'t>, indent: usize) -> Option<Cow<'t, str>> {
    let bytes = lines.rest().as_bytes();
    match bytes.first()? {
        b'-' | b'?' | b':' if matches!(bytes.get(1), None | Some(b' ' | b'\n')) => return None,
        b',' | b'[' | b']' | b'{' | b'}' | b'#' | b'&' | b'*' | b'!' | b'|' | b'>' | b'\'' | b'"' | b'%'
        | b'@' | b'`' => return None,
        _ => {}
    }
    let (first, mut ended) = words(lines)?;
    let mut text = Cow::Borrowed(first);
    loop {
        lines.end_line();
        if lines.is_at_end() {
            return Some(text);
        }
        // A line that is indented further and no comment continues the scalar.
        let mut breaks = 0;
        let own = loop {
            let rest = lines.rest();
            let own = rest.bytes().take_while(|byte| *byte == b' ').count();
            match rest.as_bytes().get(own) {
                None => return Some(text),
                Some(b'\n') => {
                    breaks += 1;
                    lines.skip(own + 1);
                }
                Some(b'\t') => return None,
                Some(b'#') => {
                    ended = true;
                    lines.end_line();
                }
                Some(_) => break own,
            }
        };
        if own <= indent {
            return Some(text);
        }
        if ended {
            return None;
        }
        lines.skip(own);
        let (more, comment) = words(lines)?;
        ended = comment;
        let text = text.to_mut();
        fold(text, breaks);
        text.push_str(more);
    }
}

/// The part of an unquoted scalar on the cursor's line, and whether a comment ends it.
fn words<'t>(lines: &Lines<'t>) -> Option<(&'t str, bool)> {
    let line = lines.line();
    let bytes = line.as_bytes();
    let mut end = line.len();
    let mut comment = false;
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'\t' => return None,
            b':' if matches!(bytes.get(at + 1), None | Some(b' ')) => return None,
            b'#' if at > 0 && bytes.get(at - 1) == Some(&b' ') => {
                (end, comment) = (at, true);
                break;
            }
            _ => {}
        }
    }
    Some((line.get(..end)?.trim_end_matches(' '), comment))
}

/// How a line of a quoted scalar ends.
enum LineEnd {
    /// With the quote, at this byte.
    Quote(usize),
    /// The next line is joined by a blank or by the empty lines that follow.
    Folds,
    /// The next line is joined by nothing.
    Escaped,
}

/// A scalar in quotes; the cursor ends up at the beginning of the line behind it.
pub(super) fn quoted(lines: &mut Lines<'_>, style: Quoted) -> Option<String> {
    lines.skip(1);
    let mut text = String::new();
    loop {
        let end = piece(lines.line(), style, &mut text)?;
        if let LineEnd::Quote(at) = end {
            lines.skip(at + 1);
            lines.skip_blanks();
            lines.is_line_end().then_some(())?;
            lines.end_line();
            return Some(text);
        }
        lines.end_line();
        let empty = continues(lines)?;
        match end {
            LineEnd::Escaped => text.extend(std::iter::repeat_n('\n', empty)),
            LineEnd::Folds | LineEnd::Quote(_) => fold(&mut text, empty),
        }
    }
}

/// Appends the part of a quoted scalar on a line.
fn piece(line: &str, style: Quoted, text: &mut String) -> Option<LineEnd> {
    let mut chars = line.char_indices();
    // Escaped characters are not trimmed at the line's end.
    let mut kept = text.len();
    while let Some((at, c)) = chars.next() {
        match (style, c) {
            (Quoted::Single, '\'') => {
                if !chars.as_str().starts_with('\'') {
                    return Some(LineEnd::Quote(at));
                }
                chars.next();
                text.push('\'');
            }
            (Quoted::Double, '"') => return Some(LineEnd::Quote(at)),
            (Quoted::Double, '\\') => {
                let Some((_, escape)) = chars.next() else { return Some(LineEnd::Escaped) };
                text.push(match escape {
                    'n' => '\n',
                    't' => '\t',
                    '"' | '\\' | ' ' => escape,
                    'x' => code(&mut chars, 2)?,
                    'u' => code(&mut chars, 4)?,
                    'U' => code(&mut chars, 8)?,
                    // Others are for the full parser.
                    _ => return None,
                });
                kept = text.len();
            }
            (_, c) => text.push(c),
        }
    }
    let trimmed = text.trim_end_matches(BLANKS).len();
    text.truncate(trimmed.max(kept));
    Some(LineEnd::Folds)
}

/// The character of so many hexadecimal digits.
fn code(chars: &mut std::str::CharIndices<'_>, digits: usize) -> Option<char> {
    let hex = chars.as_str().get(..digits).filter(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    let c = char::from_u32(u32::from_str_radix(hex, 16).ok()?)?;
    for _ in 0..digits {
        chars.next();
    }
    Some(c)
}

/// A literal or folded scalar; the cursor ends up at the beginning of the line behind it.
pub(super) fn block(lines: &mut Lines<'_>, indent: usize, folded: bool) -> Option<String> {
    lines.skip(1);
    let chomping = match lines.rest().as_bytes().first() {
        Some(sign @ (b'-' | b'+')) => {
            lines.skip(1);
            *sign
        }
        _ => b' ',
    };
    // Digits give the indentation: for the full parser, as is everything else but a comment.
    if !matches!(lines.rest().as_bytes().first(), Some(b' ' | b'\n')) {
        return None;
    }
    lines.skip_blanks();
    lines.is_line_end().then_some(())?;
    lines.end_line();
    if lines.is_at_end() || !lines.rest().ends_with('\n') {
        return None;
    }
    let own = content_indent(lines.rest(), indent)?;
    let mut text = String::new();
    // Line ends whose meaning depends on the next line: that of the last content, and those of empty lines.
    let (mut pending, mut empty, mut after_blank) = (false, 0, false);
    while !lines.is_at_end() {
        let line = lines.line();
        let blanks = line.bytes().take(own).take_while(|byte| *byte == b' ').count();
        if blanks == line.len() {
            empty += 1;
            lines.skip(line.len() + 1);
            continue;
        }
        if blanks < own {
            break;
        }
        let content = line.get(own..)?;
        let begins_blank = content.starts_with([' ', '\t']);
        if pending {
            if folded && !after_blank && !begins_blank {
                if empty == 0 {
                    text.push(' ');
                }
            } else {
                text.push('\n');
            }
        }
        text.extend(std::iter::repeat_n('\n', empty));
        text.push_str(content);
        (pending, empty, after_blank) = (true, 0, begins_blank);
        lines.skip(line.len() + 1);
    }
    if pending && chomping != b'-' {
        text.push('\n');
    }
    if chomping == b'+' {
        text.extend(std::iter::repeat_n('\n', empty));
    }
    Some(text)
}

/// The indentation of a block scalar's content, that of its first line which is not empty.
fn content_indent(rest: &str, indent: usize) -> Option<usize> {
    let mut longest_empty = 0;
    for line in rest.split('\n') {
        let blanks = line.bytes().take_while(|byte| *byte == b' ').count();
        if blanks == line.len() {
            longest_empty = longest_empty.max(blanks);
            continue;
        }
        // Content that begins with a tab, is not indented, or comes after longer empty lines is unusual.
        let usual = line.as_bytes().get(blanks) != Some(&b'\t') && blanks > indent && longest_empty <= blanks;
        return usual.then_some(blanks);
    }
    None
}
