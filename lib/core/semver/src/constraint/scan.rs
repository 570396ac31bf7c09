//! Reads operators, operands and blanks of a constraint from bytes. Longest match is the only match here: what
//! may follow an operand can never be part of one.

use crate::version::is_identifier_byte;

/// A text with the offset of the next byte to read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scanner<'a> {
    text: &'a str,
    position: usize,
}

/// The parts of an operand as written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Operand<'a> {
    /// All of it.
    pub(super) whole: &'a str,
    /// Major, minor and patch without dots; of numerals, wildcards and bars. Missing ones are empty.
    pub(super) parts: [&'a str; 3],
    /// The pre-release without its hyphen.
    pub(super) prerelease: Option<&'a str>,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a str, position: usize) -> Self {
        Self { text, position }
    }

    pub(super) fn position(&self) -> usize {
        self.position
    }

    pub(super) fn at_end(&self) -> bool {
        self.position >= self.text.len()
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.position).copied()
    }

    /// Moves over bytes of a class; returns them.
    fn run(&mut self, class: impl Fn(u8) -> bool) -> &'a str {
        let start = self.position;
        while self.peek().is_some_and(&class) {
            self.position += 1;
        }
        // Only ASCII was passed, unless nothing was.
        self.text.get(start..self.position).unwrap_or_default()
    }

    /// Moves over blanks; returns whether there were any.
    pub(super) fn blanks(&mut self) -> bool {
        !self.run(|b| matches!(b, b' ' | b'\t' | b'\n' | b'\r' | b'\x0c')).is_empty()
    }

    /// Moves over one byte, if it is the next.
    pub(super) fn byte(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.position += usize::from(found);
        found
    }

    /// Moves over the bytes operators are made of; returns them.
    pub(super) fn operator(&mut self) -> &'a str {
        self.run(|b| matches!(b, b'=' | b'!' | b'<' | b'>' | b'~' | b'^'))
    }

    fn part(&mut self) -> &'a str {
        self.run(|b| b.is_ascii_digit() || matches!(b, b'x' | b'X' | b'*' | b'|'))
    }

    /// Moves over `lead` and what `rest` reads after it; over nothing when that is empty.
    fn after(&mut self, lead: u8, rest: impl Fn(&mut Self) -> &'a str) -> Option<&'a str> {
        let start = self.position;
        let found = if self.byte(lead) { rest(self) } else { "" };
        if found.is_empty() {
            self.position = start;
            return None;
        }
        Some(found)
    }

    /// Dot-separated identifiers.
    fn identifiers(&mut self) -> &'a str {
        let start = self.position;
        if !self.run(is_identifier_byte).is_empty() {
            while self.after(b'.', |s| s.run(is_identifier_byte)).is_some() {}
        }
        self.text.get(start..self.position).unwrap_or_default()
    }

    /// Moves over an operand, if there is one.
    pub(super) fn operand(&mut self) -> Option<Operand<'a>> {
        let start = self.position;
        self.byte(b'v');
        let major = self.part();
        if major.is_empty() {
            self.position = start;
            return None;
        }
        let minor = self.after(b'.', Self::part).unwrap_or_default();
        // The original's expression takes a second dotted part only after a first one.
        let patch = if minor.is_empty() { "" } else { self.after(b'.', Self::part).unwrap_or_default() };
        let prerelease = self.after(b'-', Self::identifiers);
        self.after(b'+', Self::identifiers);
        Some(Operand {
            whole: self.text.get(start..self.position).unwrap_or_default(),
            parts: [major, minor, patch],
            prerelease,
        })
    }
}
