//! A sliding window over a reader: bytes stay until they are consumed, so a document can be looked at whole.
//!
//! Memory is the window plus the largest document. Nothing is opened here; the caller brings a `Read`.

use std::io::Read;

use crate::{
    FbcError,
    limits::{DOCUMENT_BYTES_MAX, WINDOW_BYTES},
};

/// Reads `R` in large chunks and keeps what is not consumed yet.
#[derive(Debug)]
pub struct WindowReader<R> {
    reader: R,
    buffer: Vec<u8>,
    start: usize,
    position: u64,
    document_bytes_max: usize,
}

impl<R: Read> WindowReader<R> {
    /// A window over `reader`, empty at first.
    pub fn new(reader: R) -> Self {
        Self { reader, buffer: Vec::new(), start: 0, position: 0, document_bytes_max: DOCUMENT_BYTES_MAX }
    }

    /// The same with another limit for what may stay unconsumed, in bytes.
    #[must_use]
    pub fn with_document_bytes_max(mut self, bytes: usize) -> Self {
        self.document_bytes_max = bytes;
        self
    }

    /// What was read and not consumed yet.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..]
    }

    /// Position of the first of [`Self::bytes`] in the reader.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Lets go of the first `count` bytes (at most all there are).
    pub fn consume(&mut self, count: usize) {
        let count = count.min(self.buffer.len() - self.start);
        self.start += count;
        self.position += count as u64;
    }

    /// Reads more; `false` at the end of the reader.
    ///
    /// # Errors
    /// The reader fails, or more than the limit is held and not consumed.
    pub fn fill(&mut self) -> Result<bool, FbcError> {
        self.buffer.drain(..self.start);
        self.start = 0;
        let held = self.buffer.len();
        if held > self.document_bytes_max {
            return Err(FbcError::DocumentTooLarge(self.position, self.document_bytes_max));
        }
        if held < WINDOW_BYTES && self.buffer.capacity() > 4 * WINDOW_BYTES {
            // One large document is no reason to keep its room.
            self.buffer.shrink_to(2 * WINDOW_BYTES);
        }
        // Twice what is held, so that a large document is looked at a few times only.
        let wanted = WINDOW_BYTES.max(held);
        self.buffer.reserve(wanted);
        let read = self.reader.by_ref().take(wanted as u64).read_to_end(&mut self.buffer)?;
        Ok(read > 0)
    }
}
