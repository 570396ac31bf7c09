//! A layer's bytes, uncompressed and measured against the limits. Blocking.

use std::io::{self, BufRead as _, BufReader, Read};

use flate2::bufread::MultiGzDecoder;
use thiserror::Error;

use crate::{
    digest::Digest,
    limits::{Limits, RATIO_GRACE_BYTES, ZSTD_WINDOW_LOG_MAX},
    read_ahead::ReadAhead,
    registry::RegistryError,
    spool::FileReader,
};

/// Compressed bytes read from the spool at once.
const READ_BYTES: usize = 64 << 10;
/// A layer that has more bytes, compressed, is decompressed ahead. Those of bundles are not worth a thread.
const HERE_BYTES_MAX: u64 = 1 << 20;

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
    /// The spool cannot be read: a matter of this machine, not of the image.
    #[error("reading the spool file: {0}")]
    Spool(#[source] io::Error),
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
            Self::Digest { .. } | Self::Content(_) | Self::Spool(_) => false,
        }
    }
}

fn unsupported(compression: &str) -> BlobError {
    BlobError::Content(format!("{compression} compressed layers are not supported: use gzip, zstd or none"))
}

type Raw = BufReader<FileReader>;

enum Decoder {
    Plain(Raw),
    Gzip(Box<MultiGzDecoder<Raw>>),
    Zstd(zstd::stream::read::Decoder<'static, Raw>),
}

/// Decompresses a layer, whatever its compression, which its first bytes show.
struct Decompression {
    decoder: Decoder,
    limits: Limits,
    /// Bytes of the layer as it came.
    compressed: u64,
    /// Uncompressed bytes of the layers before.
    before: u64,
    produced: u64,
}

impl Decompression {
    fn new(blob: FileReader, limits: Limits, before: u64) -> Result<Self, BlobError> {
        let compressed = blob.remaining();
        let mut raw = BufReader::with_capacity(READ_BYTES, blob);
        let decoder = match raw.fill_buf().map_err(BlobError::Spool)? {
            [0x1f, 0x8b, ..] => Decoder::Gzip(Box::new(MultiGzDecoder::new(raw))),
            // A frame, or a skippable frame before one.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => {
                let decoder = zstd::stream::read::Decoder::with_buffer(raw).and_then(|mut decoder| {
                    decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
                    Ok(decoder)
                });
                Decoder::Zstd(decoder.map_err(decoding_failed)?)
            }
            [b'B', b'Z', b'h', ..] => return Err(unsupported("bzip2")),
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => return Err(unsupported("xz")),
            _ => Decoder::Plain(raw),
        };
        Ok(Self { decoder, limits, compressed, before, produced: 0 })
    }

    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, BlobError> {
        let read = loop {
            let read = match &mut self.decoder {
                Decoder::Plain(reader) => reader.read(buffer),
                Decoder::Gzip(reader) => reader.read(buffer),
                Decoder::Zstd(reader) => reader.read(buffer),
            };
            match read {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read.map_err(decoding_failed)?,
            }
        };
        self.produced += read as u64;
        self.check_limits()?;
        Ok(read)
    }

    fn check_limits(&self) -> Result<(), BlobError> {
        if self.before.saturating_add(self.produced) > self.limits.uncompressed_bytes_max {
            let most = self.limits.uncompressed_bytes_max;
            return Err(BlobError::Content(format!("the layers have more than {most} bytes uncompressed")));
        }
        let allowed = self.compressed.saturating_mul(self.limits.compression_ratio_max);
        if self.produced > RATIO_GRACE_BYTES.max(allowed) {
            let most = self.limits.compression_ratio_max;
            let text = format!("the layer is more than {most} times larger uncompressed than compressed");
            return Err(BlobError::Content(text));
        }
        Ok(())
    }
}

fn decoding_failed(error: io::Error) -> BlobError {
    // Decoders make up their own errors, and pass on those of the system.
    if error.raw_os_error().is_some() {
        return BlobError::Spool(error);
    }
    BlobError::Content(format!("decompressing the layer: {error}"))
}

enum Source {
    Here(Decompression),
    Ahead(ReadAhead),
}

/// The uncompressed bytes of a layer. Remembers why they cannot be read: decoders of archives have errors of their own.
pub(crate) struct LayerReader {
    source: Source,
    produced: u64,
    failure: Option<BlobError>,
}

impl LayerReader {
    /// Reads the layer `blob`, before which there were so many uncompressed bytes in those below.
    pub(crate) fn new(blob: FileReader, limits: Limits, before: u64) -> Result<Self, BlobError> {
        let is_large = blob.remaining() > HERE_BYTES_MAX;
        let mut decompression = Decompression::new(blob, limits, before)?;
        let source = if is_large {
            let ahead = ReadAhead::new(move |buffer| decompression.read(buffer));
            Source::Ahead(ahead.map_err(BlobError::Spool)?)
        } else {
            Source::Here(decompression)
        };
        Ok(Self { source, produced: 0, failure: None })
    }

    /// Uncompressed bytes so far.
    pub(crate) fn produced(&self) -> u64 {
        self.produced
    }

    /// Why reading failed.
    pub(crate) fn into_failure(self) -> Option<BlobError> {
        self.failure
    }
}

impl Read for LayerReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = match &mut self.source {
            Source::Here(decompression) => decompression.read(buffer),
            Source::Ahead(ahead) => ahead.read(buffer),
        };
        match read {
            Ok(read) => {
                self.produced += read as u64;
                Ok(read)
            }
            Err(failure) => {
                let shown = io::Error::other(failure.to_string());
                self.failure = Some(failure);
                Err(shown)
            }
        }
    }
}
