//! The documents of one file of a catalog, one after another, each as its canonical line.
//!
//! As operator-registry reads files: white space and `{` at the head mean concatenated JSON, anything else means
//! YAML. Where JSON breaks after at most one document, the rest is read as YAML. Empty YAML documents are
//! skipped. Nothing is demanded of a document but that it is an object whose `schema`, `package` and
//! `name` are strings.

use std::{io::Read, ops::Range};

use olm_go::json::{Canonicalizer, JsonError, Member};
use olm_yaml::RepairBudget;

use crate::{Envelope, FbcError, WindowReader};

/// So many bytes at the head of a file decide whether it is JSON or YAML.
const PEEK_BYTES: usize = 4096;

/// A document of a catalog, borrowed from the reader that found it.
#[derive(Debug)]
pub struct Meta<'a> {
    /// Schema, package and name.
    pub envelope: Envelope<'a>,
    /// The document as canonical JSON, without line feed.
    pub line: &'a [u8],
    pub(crate) members: &'a [Member],
    pub(crate) properties: &'a [Range<usize>],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Unknown,
    Json { documents: u32 },
    Yaml,
}

/// Reads the documents of one file.
#[derive(Debug)]
pub struct MetaReader<R> {
    window: WindowReader<R>,
    canonicalizer: Canonicalizer,
    form: Form,
    /// Lines before the window, for the errors of YAML.
    lines: u64,
    refuses_empty_documents: bool,
    separators: Separators,
    repairs: RepairBudget,
    /// What follows JSON up to the first separator is no document when it is empty.
    after_json: bool,
}

/// The separators met since the last document. As in operator-registry, one ends the document before it and is
/// gone; of others, every second ends an empty document, which the first of the two begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Separators {
    /// None so far, and no document waits for its end.
    None,
    /// None so far; the next ends the document before it.
    EndExpected,
    /// One that begins a document.
    Begun,
}

impl<R: Read> MetaReader<R> {
    /// Reads the file behind `reader`.
    pub fn new(reader: R) -> Self {
        Self::over(WindowReader::new(reader))
    }

    /// Reads the file behind a window.
    pub fn over(window: WindowReader<R>) -> Self {
        Self {
            window,
            canonicalizer: Canonicalizer::new(b"\"properties\""),
            form: Form::Unknown,
            lines: 0,
            refuses_empty_documents: false,
            separators: Separators::None,
            repairs: RepairBudget::default(),
            after_json: false,
        }
    }

    /// The same as part of a catalog whose files share what may be read again.
    #[must_use]
    pub fn repairing_within(mut self, repairs: &RepairBudget) -> Self {
        self.repairs = repairs.clone();
        self
    }

    /// The same, but a YAML document without content is an error, as where documents must have a schema.
    #[must_use]
    pub fn refusing_empty_documents(mut self) -> Self {
        self.refuses_empty_documents = true;
        self
    }

    /// The next document; `None` at the end of the file.
    ///
    /// # Errors
    /// The file is neither JSON nor YAML objects, a limit is exceeded, or reading fails.
    pub fn next_meta(&mut self) -> Result<Option<Meta<'_>>, FbcError> {
        if self.form == Form::Unknown {
            self.form = self.detect()?;
        }
        let mut offset = self.window.position();
        let found = match self.form {
            Form::Json { documents } => match self.next_json(documents)? {
                JsonStep::Document => true,
                JsonStep::End => false,
                JsonStep::NotJson => {
                    self.form = Form::Yaml;
                    self.after_json = documents > 0;
                    offset = self.window.position();
                    self.next_yaml()?
                }
            },
            Form::Yaml | Form::Unknown => self.next_yaml()?,
        };
        if !found {
            return Ok(None);
        }
        let (line, members) = (self.canonicalizer.line(), self.canonicalizer.top());
        let envelope = Envelope::of(line, members, offset)?;
        Ok(Some(Meta { envelope, line, members, properties: self.canonicalizer.elements() }))
    }

    fn detect(&mut self) -> Result<Form, FbcError> {
        loop {
            let head = self.window.bytes();
            let head = &head[..head.len().min(PEEK_BYTES)];
            let whole = head.len() == PEEK_BYTES;
            match head.iter().find(|byte| !byte.is_ascii_whitespace() && **byte != 0x0b) {
                Some(b'{') => return Ok(Form::Json { documents: 0 }),
                Some(_) => return Ok(Form::Yaml),
                None => {}
            }
            if whole || !self.window.fill()? {
                return Ok(Form::Yaml);
            }
        }
    }

    fn next_json(&mut self, documents: u32) -> Result<JsonStep, FbcError> {
        loop {
            match self.canonicalizer.document(self.window.bytes()) {
                Ok(used) => {
                    self.lines += line_feeds(&self.window.bytes()[..used]);
                    self.window.consume(used);
                    self.form = Form::Json { documents: documents.saturating_add(1) };
                    return Ok(JsonStep::Document);
                }
                Err(JsonError::Incomplete) => {
                    if self.window.fill()? {
                        continue;
                    }
                    let rest = self.window.bytes();
                    let Some(start) = rest.iter().position(|byte| !byte.is_ascii_whitespace()) else {
                        return Ok(JsonStep::End);
                    };
                    return Err(FbcError::Truncated(self.lines + 1 + line_feeds(&rest[..start])));
                }
                Err(JsonError::Invalid { .. }) if documents <= 1 => return Ok(JsonStep::NotJson),
                Err(JsonError::Invalid { offset, problem }) => {
                    return Err(FbcError::Json { offset: self.window.position() + offset as u64, problem });
                }
            }
        }
    }

    /// Reads YAML documents up to the first that is not empty.
    fn next_yaml(&mut self) -> Result<bool, FbcError> {
        while let Some(length) = self.yaml_chunk()? {
            let offset = self.window.position();
            let chunk = &self.window.bytes()[..length];
            let lines = line_feeds(chunk);
            let text = std::str::from_utf8(chunk).map_err(|error| FbcError::Yaml {
                line: self.lines + 1 + line_feeds(&chunk[..error.valid_up_to()]),
                problem: "invalid UTF-8".into(),
            })?;
            let value = crate::yaml::document(text, self.lines, &self.repairs)?;
            self.window.consume(length);
            self.lines += lines;
            match value {
                serde_json::Value::Null => {
                    if !std::mem::take(&mut self.after_json) {
                        self.empty_document()?;
                    }
                }
                serde_json::Value::Object(_) => {
                    let json = serde_json::to_vec(&value)
                        .map_err(|_| FbcError::Json { offset, problem: "value cannot be written" })?;
                    return match self.canonicalizer.document(&json) {
                        Ok(_) => Ok(true),
                        Err(JsonError::Incomplete) => Err(FbcError::Truncated(self.lines + 1)),
                        Err(JsonError::Invalid { problem, .. }) => Err(FbcError::Json { offset, problem }),
                    };
                }
                _ => return Err(FbcError::NotAnObject(offset)),
            }
        }
        Ok(false)
    }

    /// Brings one document of a YAML stream into the window, past the separator before it; answers its
    /// length.
    fn yaml_chunk(&mut self) -> Result<Option<usize>, FbcError> {
        let mut searched = 0;
        loop {
            let bytes = self.window.bytes();
            let separator = find_separator(bytes, searched);
            searched = bytes.len().saturating_sub(SEPARATOR.len());
            match separator {
                Some(0) => {
                    if self.skip_separator()? {
                        self.separator()?;
                        searched = 0;
                    } else if !self.window.fill()? {
                        self.check_separator(self.window.bytes())?;
                        self.window.consume(self.window.bytes().len());
                        self.separator()?;
                    }
                }
                Some(length) => {
                    self.separators = Separators::EndExpected;
                    return Ok(Some(length));
                }
                None => {
                    if !self.window.fill()? {
                        let rest = self.window.bytes().len();
                        if rest == 0 && self.separators == Separators::Begun {
                            self.separators = Separators::None;
                            self.empty_document()?;
                        }
                        self.separators = Separators::None;
                        return Ok((rest > 0).then_some(rest));
                    }
                }
            }
        }
    }

    /// Counts a separator that was consumed.
    fn separator(&mut self) -> Result<(), FbcError> {
        match self.separators {
            Separators::EndExpected => self.separators = Separators::None,
            Separators::None => self.separators = Separators::Begun,
            Separators::Begun => {
                self.separators = Separators::None;
                self.empty_document()?;
            }
        }
        Ok(())
    }

    fn empty_document(&self) -> Result<(), FbcError> {
        if self.refuses_empty_documents { Err(FbcError::EmptyDocument) } else { Ok(()) }
    }

    /// Consumes the line of a separator if it is there as a whole.
    fn skip_separator(&mut self) -> Result<bool, FbcError> {
        let Some(end) = self.window.bytes().iter().position(|&byte| byte == b'\n') else { return Ok(false) };
        self.check_separator(&self.window.bytes()[..end])?;
        self.window.consume(end + 1);
        self.lines += 1;
        Ok(true)
    }

    fn check_separator(&self, line: &[u8]) -> Result<(), FbcError> {
        match line[SEPARATOR.len()..].trim_ascii() {
            [] | [b'#', ..] => Ok(()),
            _ => Err(FbcError::Separator(self.lines + 1)),
        }
    }
}

enum JsonStep {
    Document,
    NotJson,
    End,
}

const SEPARATOR: &[u8] = b"---";

/// Where the first line that begins with a separator starts; the first byte of `bytes` begins a line.
fn find_separator(bytes: &[u8], from: usize) -> Option<usize> {
    if from == 0 && bytes.starts_with(SEPARATOR) {
        return Some(0);
    }
    let mut at = from;
    while let Some(line_feed) = bytes.get(at..)?.iter().position(|&byte| byte == b'\n') {
        at += line_feed + 1;
        if bytes[at..].starts_with(SEPARATOR) {
            return Some(at);
        }
    }
    None
}

fn line_feeds(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}

#[cfg(test)]
mod tests;
