//! Rewrites one JSON object as one canonical line, in one pass over its bytes.
//!
//! Canonical is the text that Go gives when a document is decoded to a map and encoded again without HTML escapes:
//! keys sorted bytewise at every level and unique (the last of equal ones wins), no white space, numbers as 64-bit
//! floats print, strings escaped no more than needed, U+2028 and U+2029 escaped, invalid UTF-8 replaced.
//!
//! Values are written as they are met. Only an object whose keys came out of order is put together a second
//! time, from the segments already written; no tree is built. The elements of one top-level list, named by the caller,
//! are remembered.

mod number;
mod text;

use std::{cmp::Ordering, ops::Range};

use super::DEPTH_MAX;

/// A document that cannot be rewritten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonError {
    /// The bytes end within the document.
    Incomplete,
    /// The bytes are no JSON object.
    Invalid {
        /// Position in the given bytes.
        offset: usize,
        /// The problem.
        problem: &'static str,
    },
}

/// A member of an object, as positions in the line.
#[derive(Debug, Clone, Copy)]
pub struct Member {
    start: usize,
    key_end: usize,
    end: usize,
}

impl Member {
    /// The key, quotes included.
    pub fn key(self) -> Range<usize> {
        self.start..self.key_end
    }

    /// The value.
    pub fn value(self) -> Range<usize> {
        self.key_end + 1..self.end
    }
}

/// Buffers that are used again for each document.
#[derive(Debug)]
pub struct Canonicalizer {
    /// The top-level list whose elements are remembered, as a quoted key.
    list_key: &'static [u8],
    line: Vec<u8>,
    scratch: Vec<u8>,
    open: Vec<Member>,
    top: Vec<Member>,
    elements: Vec<Range<usize>>,
}

impl Canonicalizer {
    /// Remembers the elements of the top-level list with this key, which is given in quotes.
    pub fn new(list_key: &'static [u8]) -> Self {
        let (line, scratch, open, top, elements) = Default::default();
        Self { list_key, line, scratch, open, top, elements }
    }

    /// Reads one object from the head of `input` and returns its length.
    ///
    /// # Errors
    /// The bytes are no JSON object, or end within it.
    pub fn document(&mut self, input: &[u8]) -> Result<usize, JsonError> {
        self.line.clear();
        self.open.clear();
        self.top.clear();
        self.elements.clear();
        let mut cursor = Cursor { input, at: 0 };
        match cursor.token()? {
            b'{' => self.object(&mut cursor, 1)?,
            _ => return Err(cursor.invalid("document is not an object")),
        }
        Ok(cursor.at)
    }

    /// The line of the last document, without line feed.
    pub fn line(&self) -> &[u8] {
        &self.line
    }

    /// Its top-level members, in the order of the line.
    pub fn top(&self) -> &[Member] {
        &self.top
    }

    /// Elements of the remembered list, relative to the start of its value.
    pub fn elements(&self) -> &[Range<usize>] {
        &self.elements
    }

    fn value(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Result<(), JsonError> {
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

    fn literal(&mut self, cursor: &mut Cursor<'_>, word: &'static [u8]) -> Result<(), JsonError> {
        let rest = &cursor.input[cursor.at..];
        if rest.starts_with(word) {
            self.line.extend_from_slice(word);
            cursor.at += word.len();
            Ok(())
        } else if word.starts_with(rest) {
            Err(JsonError::Incomplete)
        } else {
            Err(cursor.invalid("a value is expected"))
        }
    }

    fn list(
        &mut self,
        cursor: &mut Cursor<'_>,
        depth: usize,
        capture: Option<usize>,
    ) -> Result<(), JsonError> {
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
                self.elements.push(start - base..self.line.len() - base);
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

    fn object(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Result<(), JsonError> {
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

    fn member(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Result<Member, JsonError> {
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
        let captured = depth == 1 && &self.line[start..key_end] == self.list_key;
        if captured {
            // Of several lists of that name the last one counts.
            self.elements.clear();
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
        // The document itself, of which all is copied, is not copied back.
        let is_document = body == 1;
        let kept = if is_document { 0 } else { body };
        self.scratch.clear();
        self.scratch.extend_from_slice(&self.line[kept..body]);
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
            let start = kept + self.scratch.len();
            self.scratch.extend_from_slice(&self.line[member.start..member.end]);
            self.open.push(Member {
                start,
                key_end: start + (member.key_end - member.start),
                end: start + (member.end - member.start),
            });
        }
        if is_document {
            std::mem::swap(&mut self.line, &mut self.scratch);
        } else {
            self.line.truncate(body);
            self.line.extend_from_slice(&self.scratch);
        }
    }
}

/// Order of two keys (quoted and escaped) by the bytes they encode.
fn order(a: &[u8], b: &[u8]) -> Ordering {
    let (inner_a, inner_b) = (text::inner(a), text::inner(b));
    if inner_a.contains(&b'\\') || inner_b.contains(&b'\\') {
        text::decode(a).as_bytes().cmp(text::decode(b).as_bytes())
    } else {
        inner_a.cmp(inner_b)
    }
}

pub use text::decode;

/// A position in the bytes of a document.
struct Cursor<'a> {
    input: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    /// The next byte that is not white space, left where it is.
    fn token(&mut self) -> Result<u8, JsonError> {
        while let Some(&byte) = self.input.get(self.at) {
            if !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                return Ok(byte);
            }
            self.at += 1;
        }
        Err(JsonError::Incomplete)
    }

    /// Steps over an opening bracket.
    fn enter(&mut self, depth: usize) -> Result<(), JsonError> {
        if depth > DEPTH_MAX {
            return Err(self.invalid("document is nested too deeply"));
        }
        self.at += 1;
        Ok(())
    }

    fn invalid(&self, problem: &'static str) -> JsonError {
        JsonError::Invalid { offset: self.at, problem }
    }

    fn invalid_before(&self, problem: &'static str) -> JsonError {
        JsonError::Invalid { offset: self.at - 1, problem }
    }
}

#[cfg(test)]
mod tests;
