//! A layer's bytes on their way from the network to the tar loop: digest and size checked, decompressed, and
//! measured against the limits. Blocking; fed through a bounded channel.

use std::{
    cell::{Cell, RefCell},
    io::{self, BufRead, Cursor, Read},
    rc::Rc,
};

use bytes::{Buf, Bytes};
use flate2::bufread::MultiGzDecoder;
use thiserror::Error;
use tokio::sync::mpsc;

use crate::{
    digest::{Digest, Hasher},
    limits::{Limits, RATIO_GRACE_BYTES, ZSTD_WINDOW_LOG_MAX},
    registry::RegistryError,
};

/// What goes wrong with a blob's bytes, apart from the archive in them.
#[derive(Debug, Error)]
pub enum BlobError {
    /// The registry failed while the blob was read.
    #[error(transparent)]
    Transport(#[from] RegistryError),
    /// Not the bytes that were asked for.
    #[error("digest mismatch: expected {expected}, got {actual}")]
    Digest {
        /// As the manifest says.
        expected: Digest,
        /// As computed.
        actual: Digest,
    },
    /// More or fewer bytes than the manifest says.
    #[error("reading blob {digest}: size mismatch: the manifest says {expected} bytes, got {actual}")]
    Size {
        /// The blob.
        digest: Digest,
        /// As the manifest says.
        expected: u64,
        /// As read; for a longer blob, when reading stopped.
        actual: u64,
    },
    /// What is wrong with the compressed stream, in a sentence.
    #[error("{0}")]
    Content(String),
}

impl BlobError {
    /// Whether the image is at fault rather than the way it came.
    pub(crate) fn is_content(&self) -> bool {
        matches!(self, Self::Content(_))
    }

    /// Whether reading the blob again may help.
    pub(crate) fn is_retryable(&self) -> bool {
        match self {
            Self::Transport(cause) => cause.is_retryable(),
            // Fewer bytes than announced are a broken connection somewhere on the way.
            Self::Size { expected, actual, .. } => actual < expected,
            Self::Digest { .. } | Self::Content(_) => false,
        }
    }
}

/// A piece of a blob, or why there is none.
pub(crate) type Piece = Result<Bytes, RegistryError>;

/// Reads pieces from a channel; its end is only reported when size and digest are right.
pub(crate) struct BlobReader {
    pieces: mpsc::Receiver<Piece>,
    current: Bytes,
    hasher: Option<Hasher>,
    expected: Digest,
    size: u64,
    state: Rc<BlobState>,
}

/// What is known about a blob while a decoder owns its reader.
#[derive(Default)]
pub(crate) struct BlobState {
    read: Cell<u64>,
    verified: Cell<bool>,
    /// The error that ended reading; decoders may wrap or replace what they are given.
    failure: RefCell<Option<BlobError>>,
}

impl BlobState {
    pub(crate) fn is_verified(&self) -> bool {
        self.verified.get()
    }

    pub(crate) fn take_failure(&self) -> Option<BlobError> {
        self.failure.take()
    }

    /// A decoder's error, unless it only passes on what ended the blob's bytes.
    fn decoding_failed(&self, error: io::Error) -> io::Error {
        if error.kind() == io::ErrorKind::Interrupted || self.failure.borrow().is_some() {
            return error;
        }
        self.fail(BlobError::Content(format!("decompressing the layer: {error}")))
    }

    pub(crate) fn fail(&self, error: BlobError) -> io::Error {
        let shown = io::Error::other(error.to_string());
        self.failure.replace(Some(error));
        shown
    }
}

impl BlobReader {
    pub(crate) fn new(pieces: mpsc::Receiver<Piece>, expected: Digest, size: u64) -> Self {
        Self {
            pieces,
            current: Bytes::new(),
            hasher: Some(Hasher::new(expected.algorithm())),
            expected,
            size,
            state: Rc::default(),
        }
    }

    pub(crate) fn state(&self) -> Rc<BlobState> {
        Rc::clone(&self.state)
    }

    fn next_piece(&mut self) -> io::Result<()> {
        while self.current.is_empty() && !self.state.is_verified() {
            match self.pieces.blocking_recv() {
                Some(Ok(bytes)) => {
                    let read = self.state.read.get() + bytes.len() as u64;
                    self.state.read.set(read);
                    if read > self.size {
                        return Err(self.size_error());
                    }
                    if let Some(hasher) = &mut self.hasher {
                        hasher.update(&bytes);
                    }
                    self.current = bytes;
                }
                Some(Err(cause)) => return Err(self.state.fail(cause.into())),
                None => self.verify()?,
            }
        }
        Ok(())
    }

    fn size_error(&self) -> io::Error {
        let (digest, actual) = (self.expected.clone(), self.state.read.get());
        self.state.fail(BlobError::Size { digest, expected: self.size, actual })
    }

    fn verify(&mut self) -> io::Result<()> {
        if self.state.read.get() != self.size {
            return Err(self.size_error());
        }
        if let Some(hasher) = self.hasher.take() {
            let actual = hasher.finish();
            if actual != self.expected {
                let expected = self.expected.clone();
                return Err(self.state.fail(BlobError::Digest { expected, actual }));
            }
        }
        self.state.verified.set(true);
        Ok(())
    }
}

impl Read for BlobReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let available = self.fill_buf()?;
        let count = available.len().min(buffer.len());
        buffer[..count].copy_from_slice(&available[..count]);
        self.consume(count);
        Ok(count)
    }
}

impl BufRead for BlobReader {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.next_piece()?;
        Ok(&self.current)
    }

    fn consume(&mut self, count: usize) {
        Buf::advance(&mut self.current, count);
    }
}

fn unsupported(compression: &str) -> BlobError {
    BlobError::Content(format!("{compression} compressed layers are not supported: use gzip, zstd or none"))
}

type Raw = io::Chain<Cursor<Vec<u8>>, BlobReader>;

enum Decoder {
    Plain(Raw),
    Gzip(Box<MultiGzDecoder<Raw>>),
    Zstd(zstd::stream::read::Decoder<'static, Raw>),
}

/// The uncompressed bytes of a layer, whatever its compression, which its first bytes show.
pub(crate) struct LayerReader {
    decoder: Decoder,
    state: Rc<BlobState>,
    limits: Limits,
    /// Uncompressed bytes of the layers before.
    before: u64,
    produced: u64,
}

impl LayerReader {
    pub(crate) fn new(mut blob: BlobReader, limits: Limits, before: u64) -> io::Result<Self> {
        let state = blob.state();
        let mut magic = Vec::new();
        (&mut blob).take(6).read_to_end(&mut magic)?;
        let raw = |magic: Vec<u8>, blob| Read::chain(Cursor::new(magic), blob);
        let decoder = match magic.as_slice() {
            [0x1f, 0x8b, ..] => Decoder::Gzip(Box::new(MultiGzDecoder::new(raw(magic, blob)))),
            // A frame, or a skippable frame before one.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => {
                let mut decoder = zstd::stream::read::Decoder::with_buffer(raw(magic, blob))?;
                decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
                Decoder::Zstd(decoder)
            }
            [b'B', b'Z', b'h', ..] => return Err(state.fail(unsupported("bzip2"))),
            [0xfd, b'7', b'z', b'X', b'Z', 0] => return Err(state.fail(unsupported("xz"))),
            _ => Decoder::Plain(raw(magic, blob)),
        };
        Ok(Self { decoder, state, limits, before, produced: 0 })
    }

    /// Reads the rest of the blob after something was wrong with its content: if the bytes are not those of the
    /// digest, that is what is wrong, and the image is not at fault.
    pub(crate) fn doubt(self) {
        let failure = self.state.take_failure();
        if failure.as_ref().is_some_and(|failure| !failure.is_content()) {
            self.state.failure.replace(failure);
            return;
        }
        let raw = match self.decoder {
            Decoder::Plain(raw) => raw,
            Decoder::Gzip(decoder) => decoder.into_inner(),
            Decoder::Zstd(decoder) => decoder.finish(),
        };
        let (_, mut blob) = raw.into_inner();
        while !self.state.is_verified() {
            blob.current.clear();
            if blob.next_piece().is_err() {
                // The state says why.
                return;
            }
        }
        self.state.failure.replace(failure);
    }

    /// Uncompressed bytes so far.
    pub(crate) fn produced(&self) -> u64 {
        self.produced
    }

    fn check(&self) -> io::Result<()> {
        if self.before.saturating_add(self.produced) > self.limits.uncompressed_bytes_max {
            let most = self.limits.uncompressed_bytes_max;
            let text = format!("the layers have more than {most} bytes uncompressed");
            return Err(self.state.fail(BlobError::Content(text)));
        }
        let allowed = self.state.read.get().saturating_mul(self.limits.compression_ratio_max);
        if self.produced > RATIO_GRACE_BYTES.max(allowed) {
            let most = self.limits.compression_ratio_max;
            let text = format!("the layer is more than {most} times larger uncompressed than compressed");
            return Err(self.state.fail(BlobError::Content(text)));
        }
        Ok(())
    }
}

impl Read for LayerReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = match &mut self.decoder {
            Decoder::Plain(reader) => reader.read(buffer),
            Decoder::Gzip(reader) => reader.read(buffer),
            Decoder::Zstd(reader) => reader.read(buffer),
        };
        let count = count.map_err(|error| self.state.decoding_failed(error))?;
        self.produced += count as u64;
        self.check()?;
        Ok(count)
    }
}
