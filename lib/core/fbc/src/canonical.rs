//! Rewrites one JSON object as the canonical line that catalogs are served as, in one pass over its bytes.
//!
//! Canonical is what the original's decode to a generic map and encode give: keys sorted bytewise at every
//! level and unique (the last of equal ones wins), no white space, numbers as 64-bit floats print, strings
//! escaped no more than needed, U+2028 and U+2029 escaped, invalid UTF-8 replaced.
//!
//! Values are written as they are met. Only an object whose keys came out of order is put together a second
//! time, from the pieces already written; no tree is built. Nothing here knows about catalogs, except that
//! the elements of a top-level list called `properties` are remembered for [`crate::Meta`].

mod number;
mod text;

use std::{cmp::Ordering, ops::Range};

use crate::limits::DOCUMENT_DEPTH_MAX;

/// Why a document could not be rewritten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The bytes end within the document.
    Incomplete,
    /// The bytes are no JSON object.
    Invalid {
        /// Position in the given bytes.
        offset: usize,
        /// What is wrong.
        problem: &'static str,
    },
}

/// A member of an object, as positions in the line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Member {
    start: usize,
    key_end: usize,
    end: usize,
}

impl Member {
    /// The key, quotes included.
    pub(crate) fn key(self) -> Range<usize> {
        self.start..self.key_end
    }

    /// The value.
    pub(crate) fn value(self) -> Range<usize> {
        self.key_end + 1..self.end
    }
}

/// Buffers that are used again for each document.
#[derive(Debug, Default)]
pub(crate) struct Canonicalizer {
    line: Vec<u8>,
    scratch: Vec<u8>,
    open: Vec<Member>,
    top: Vec<Member>,
    properties: Vec<Range<usize>>,
}

impl Canonicalizer {
    /// Reads one object from the head of `input`; answers how many bytes it took.
    pub(crate) fn document(&mut self, input: &[u8]) -> Result<usize, Stop> {
        self.line.clear();
        self.open.clear();
        self.top.clear();
        self.properties.clear();
        let mut cursor = Cursor { input, at: 0 };
        match cursor.token()? {
            b'{' => self.object(&mut cursor, 1)?,
            _ => return Err(cursor.invalid("document is not an object")),
        }
        Ok(cursor.at)
    }

    /// The line of the last document, without line feed.
    pub(crate) fn line(&self) -> &[u8] {
        &self.line
    }

    /// Its top-level members, in the order of the line.
    pub(crate) fn top(&self) -> &[Member] {
        &self.top
    }

    /// Elements of the top-level list `properties`, relative to the start of its value.
    pub(crate) fn properties(&self) -> &[Range<usize>] {
        &self.properties
    }

    fn value(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Result<(), Stop> {
        match cursor.token()? {
            b'"' => text::string(cursor, &mut self.line),
            b'{' => self.object(cursor, depth + 1),
            b'[' => self.list(cursor, depth + 1, None),
            b't' => self.literal(cursor, b"true"),
            b'f' => self.literal(cursor, b"false"),
            b'n' => self.literal(cursor, b"null"),
            b'-' | b'0'..=b'9' => number::number(cursor, &mut self.line),
            _ => Err(cursor.invalid("a value is expected")),
        }
    }

    fn literal(&mut self, cursor: &mut Cursor<'_>, word: &'static [u8]) -> Result<(), Stop> {
        let rest = &cursor.input[cursor.at..];
        if rest.starts_with(word) {
            self.line.extend_from_slice(word);
            cursor.at += word.len();
            Ok(())
        } else if word.starts_with(rest) {
            Err(Stop::Incomplete)
        } else {
            Err(cursor.invalid("a value is expected"))
        }
    }

    fn list(&mut self, cursor: &mut Cursor<'_>, depth: usize, capture: Option<usize>) -> Result<(), Stop> {
        cursor.enter(depth)?;
        self.line.push(b'[');
        if cursor.token()? == b']' {
            cursor.at += 1;
            self.line.push(b']');
            return Ok(());
        }
        loop {
            let start = self.line.len();
            self.value(cursor, depth)?;
            if let Some(base) = capture {
                self.properties.push(start - base..self.line.len() - base);
            }
            let token = cursor.token()?;
            cursor.at += 1;
            self.line.push(token);
            match token {
                b',' => {}
                b']' => return Ok(()),
                _ => return Err(cursor.invalid_before("a comma or the end of the list is expected")),
            }
        }
    }

    fn object(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Result<(), Stop> {
        cursor.enter(depth)?;
        self.line.push(b'{');
        let body = self.line.len();
        let first = self.open.len();
        let mut sorted = true;
        let mut token = cursor.token()?;
        while token != b'}' {
            let member = self.member(cursor, depth)?;
            if let Some(&previous) = self.open[first..].last() {
                sorted &= order(&self.line[previous.key()], &self.line[member.key()]) == Ordering::Less;
            }
            self.open.push(member);
            token = cursor.token()?;
            match token {
                b',' => {
                    cursor.at += 1;
                    self.line.push(b',');
                    if cursor.token()? == b'}' {
                        return Err(cursor.invalid("a key is expected after a comma"));
                    }
                }
                b'}' => {}
                _ => return Err(cursor.invalid("a comma or the end of the object is expected")),
            }
        }
        cursor.at += 1;
        if !sorted {
            self.sort(body, first);
        }
        self.line.push(b'}');
        if depth == 1 {
            self.top.extend_from_slice(&self.open[first..]);
        }
        self.open.truncate(first);
        Ok(())
    }

    fn member(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Result<Member, Stop> {
        if cursor.token()? != b'"' {
            return Err(cursor.invalid("a key is expected"));
        }
        let start = self.line.len();
        text::string(cursor, &mut self.line)?;
        let key_end = self.line.len();
        if cursor.token()? != b':' {
            return Err(cursor.invalid("a colon is expected"));
        }
        cursor.at += 1;
        self.line.push(b':');
        let captured = depth == 1 && &self.line[start..key_end] == b"\"properties\"";
        if captured {
            // Of several lists of that name the last one counts.
            self.properties.clear();
        }
        if captured && cursor.token()? == b'[' {
            self.list(cursor, depth + 1, Some(key_end + 1))?;
        } else {
            self.value(cursor, depth)?;
        }
        Ok(Member { start, key_end, end: self.line.len() })
    }

    /// Puts the members from `first` on in order; the line holds them from `body` to its end.
    fn sort(&mut self, body: usize, first: usize) {
        let mut members = self.open.split_off(first);
        members.sort_by(|a, b| order(&self.line[a.key()], &self.line[b.key()]));
        self.scratch.clear();
        for (at, member) in members.iter().enumerate() {
            let last_of_its_key = members
                .get(at + 1)
                .is_none_or(|next| order(&self.line[member.key()], &self.line[next.key()]) == Ordering::Less);
            if !last_of_its_key {
                continue;
            }
            if self.open.len() > first {
                self.scratch.push(b',');
            }
            let start = body + self.scratch.len();
            self.scratch.extend_from_slice(&self.line[member.start..member.end]);
            self.open.push(Member {
                start,
                key_end: start + (member.key_end - member.start),
                end: start + (member.end - member.start),
            });
        }
        self.line.truncate(body);
        self.line.extend_from_slice(&self.scratch);
    }
}

/// Order of two keys (quoted and escaped) by the bytes they stand for.
fn order(a: &[u8], b: &[u8]) -> Ordering {
    let (inner_a, inner_b) = (text::inner(a), text::inner(b));
    if inner_a.contains(&b'\\') || inner_b.contains(&b'\\') {
        text::decode(a).as_bytes().cmp(text::decode(b).as_bytes())
    } else {
        inner_a.cmp(inner_b)
    }
}

pub use number::print as print_float;
pub(crate) use text::decode;

/// A position in the bytes of a document.
struct Cursor<'a> {
    input: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    /// The next byte that is not white space, left where it is.
    fn token(&mut self) -> Result<u8, Stop> {
        while let Some(&byte) = self.input.get(self.at) {
            if !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                return Ok(byte);
            }
            self.at += 1;
        }
        Err(Stop::Incomplete)
    }

    /// Steps over an opening bracket.
    fn enter(&mut self, depth: usize) -> Result<(), Stop> {
        if depth > DOCUMENT_DEPTH_MAX {
            return Err(self.invalid("document is nested too deeply"));
        }
        self.at += 1;
        Ok(())
    }

    fn invalid(&self, problem: &'static str) -> Stop {
        Stop::Invalid { offset: self.at, problem }
    }

    fn invalid_before(&self, problem: &'static str) -> Stop {
        Stop::Invalid { offset: self.at - 1, problem }
    }
}

#[cfg(test)]
mod tests;
