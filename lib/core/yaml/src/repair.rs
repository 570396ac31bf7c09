//! Quoted scalars whose continuation lines are indented too little.
//!
//! go-yaml takes continuation lines of quoted scalars at any indentation, and published operators rely on it;
//! the parser wants them deeper than the enclosing block. As their leading blanks mean nothing, such lines
//! are indented and the text is read again.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use crate::{
    YamlError,
    limits::{PADDING_BYTES_MAX, REPAIRED_BYTES_MAX},
};

/// The bytes that may still be read again of one input, such as all files of a bundle, because quoted scalars were indented too
/// little. Clones are the same.
#[derive(Debug, Clone)]
pub struct RepairBudget(Arc<AtomicUsize>);

impl Default for RepairBudget {
    fn default() -> Self {
        Self::new(REPAIRED_BYTES_MAX)
    }
}

impl RepairBudget {
    /// A budget of so many bytes.
    pub fn new(bytes: usize) -> Self {
        Self(Arc::new(AtomicUsize::new(bytes)))
    }

    /// Takes `bytes` from the budget; `None` when it has not as many, and then it is empty.
    fn spend(&self, bytes: usize) -> Option<()> {
        let left = self.0.load(Ordering::Relaxed).checked_sub(bytes);
        self.0.store(left.unwrap_or_default(), Ordering::Relaxed);
        left.map(drop)
    }
}

/// The repairs of a text so far.
#[derive(Default)]
pub(crate) struct Repairs {
    /// The lines that were indented, counted from 1.
    lines: BTreeSet<usize>,
    padding: usize,
    /// Blanks put in so far.
    padded: usize,
}

impl Repairs {
    /// Indents the scalar that continues on `line` (counted from 1) and begins behind byte `behind`; `None`
    /// when that line was indented before, so that indentation can't be its fault, or the work is too much.
    pub(crate) fn indent(
        &mut self,
        text: &str,
        (line, behind): (usize, usize),
        budget: &RepairBudget,
    ) -> Option<String> {
        budget.spend(text.len())?;
        if self.lines.contains(&line) {
            return None;
        }
        if self.padding == 0 {
            self.padding = deepest_indentation(text) + 1;
        }
        let start = line_start(text, line)?;
        let end = end_of_quoted(text, behind, start).unwrap_or(start + 1).min(text.len());
        let mut out = String::with_capacity(text.len() + 1024);
        out.push_str(text.get(..start)?);
        for (index, part) in text.get(start..end)?.split_inclusive('\n').enumerate() {
            if self.lines.insert(line + index) {
                self.padded = self.padded.saturating_add(self.padding);
                if self.padded > PADDING_BYTES_MAX.saturating_add(text.len()) {
                    return None;
                }
                out.extend(std::iter::repeat_n(' ', self.padding));
            }
            out.push_str(part);
        }
        out.push_str(text.get(end..)?);
        Some(out)
    }

    /// The error with its place in the text as it was.
    pub(crate) fn unpadded(&self, mut error: YamlError) -> YamlError {
        if let YamlError::Syntax { line, column, .. } | YamlError::Value { line, column, .. } = &mut error
            && self.lines.contains(line)
        {
            *column = column.saturating_sub(self.padding).max(1);
        }
        error
    }
}

/// The widest run of characters that a line can have before a key.
fn deepest_indentation(text: &str) -> usize {
    let indentation = |line: &str| line.bytes().take_while(|byte| b" -?".contains(byte)).count();
    text.lines().map(indentation).max().unwrap_or(0)
}

fn line_start(text: &str, line: usize) -> Option<usize> {
    let before: usize = text.split_inclusive('\n').take(line.checked_sub(1)?).map(str::len).sum();
    (before < text.len()).then_some(before)
}

/// The end of the quoted scalar that begins behind `behind` and spans `inside`.
fn end_of_quoted(text: &str, behind: usize, inside: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = behind;
    while at < inside {
        match bytes.get(at)? {
            b'#' => at += text.get(at..)?.find('\n')?,
            quote @ (b'\'' | b'"') => {
                let end = closing(bytes, at + 1, *quote)?;
                if end > inside {
                    return Some(end);
                }
                at = end;
            }
            _ => at += 1,
        }
    }
    None
}

/// The place behind the closing quote.
fn closing(bytes: &[u8], mut at: usize, quote: u8) -> Option<usize> {
    loop {
        match *bytes.get(at)? {
            b'\\' if quote == b'"' => at += 2,
            byte if byte != quote => at += 1,
            b'\'' if bytes.get(at + 1) == Some(&b'\'') => at += 2,
            _ => return Some(at + 1),
        }
    }
}
