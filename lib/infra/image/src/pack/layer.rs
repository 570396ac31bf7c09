//! One layer, entry by entry. Entries are written as given, valid or not, so that tests can make any archive.

use std::io::{self, Read, Write};

use bytes::Bytes;
use flate2::write::GzEncoder;
use tar::{Builder, EntryType, Header};

use crate::digest::{Algorithm, Digest, Hasher};

/// How a layer is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// Gzip, which everything reads.
    #[default]
    Gzip,
    /// Zstandard.
    Zstd,
    /// A plain archive.
    None,
}

impl Compression {
    fn media_type(self) -> &'static str {
        match self {
            Self::Gzip => "application/vnd.oci.image.layer.v1.tar+gzip",
            Self::Zstd => "application/vnd.oci.image.layer.v1.tar+zstd",
            Self::None => "application/vnd.oci.image.layer.v1.tar",
        }
    }
}

/// A finished layer.
#[derive(Debug, Clone)]
pub struct PackedLayer {
    pub(super) media_type: &'static str,
    pub(super) digest: Digest,
    /// Digest of the uncompressed archive.
    pub(super) diff_id: Digest,
    pub(super) bytes: Bytes,
}

impl PackedLayer {
    /// A layer of bytes that are compressed already, or are no archive at all.
    pub fn from_bytes(bytes: impl Into<Bytes>, compression: Compression) -> Self {
        let bytes = bytes.into();
        let digest = Digest::of(&bytes);
        Self { media_type: compression.media_type(), diff_id: digest.clone(), digest, bytes }
    }

    /// Digest of the bytes as stored.
    pub fn digest(&self) -> &Digest {
        &self.digest
    }

    /// The bytes as stored.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }
}

enum Encoder {
    Gzip(GzEncoder<Vec<u8>>),
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
    None(Vec<u8>),
}

/// Hashes the archive while it is compressed.
struct Sink {
    encoder: Encoder,
    hasher: Hasher,
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = match &mut self.encoder {
            Encoder::Gzip(encoder) => encoder.write(bytes)?,
            Encoder::Zstd(encoder) => encoder.write(bytes)?,
            Encoder::None(buffer) => buffer.write(bytes)?,
        };
        self.hasher.update(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

const FILE_MODE: u32 = 0o644;
const FOLDER_MODE: u32 = 0o755;

/// Makes a layer. Times and owners are zero, modes 0644 and 0755 unless something else is asked for.
pub struct LayerBuilder {
    compression: Compression,
    /// The first error of starting the encoder, given out at [`LayerBuilder::build`].
    archive: io::Result<Builder<Sink>>,
}

impl LayerBuilder {
    /// A layer without entries.
    pub fn new(compression: Compression) -> Self {
        let encoder = match compression {
            Compression::Gzip => {
                Ok(Encoder::Gzip(GzEncoder::new(Vec::new(), flate2::Compression::default())))
            }
            Compression::Zstd => zstd::stream::write::Encoder::new(Vec::new(), 0).map(Encoder::Zstd),
            Compression::None => Ok(Encoder::None(Vec::new())),
        };
        let hasher = Hasher::new(Algorithm::Sha256);
        Self { compression, archive: encoder.map(|encoder| Builder::new(Sink { encoder, hasher })) }
    }

    /// A directory.
    ///
    /// # Errors
    /// The entry cannot be written.
    pub fn directory(self, path: &str) -> io::Result<Self> {
        self.directory_with_mode(path, FOLDER_MODE)
    }

    /// A directory with these permissions, for instance 0o1777 for one that all may write to.
    ///
    /// # Errors
    /// The entry cannot be written.
    pub fn directory_with_mode(self, path: &str, mode: u32) -> io::Result<Self> {
        let path = format!("{}/", path.trim_end_matches('/'));
        self.entry(EntryType::Directory, &path, mode, 0, io::empty())
    }

    /// A file.
    ///
    /// # Errors
    /// The entry cannot be written.
    pub fn file(self, path: &str, content: impl AsRef<[u8]>) -> io::Result<Self> {
        let content = content.as_ref();
        self.stream(path, content.len() as u64, content)
    }

    /// A file of `length` bytes, read from `content`, which must have that many.
    ///
    /// # Errors
    /// The entry cannot be written.
    pub fn stream(self, path: &str, length: u64, content: impl Read) -> io::Result<Self> {
        self.entry(EntryType::Regular, path, FILE_MODE, length, content)
    }

    /// A file that can be run.
    ///
    /// # Errors
    /// The entry cannot be written.
    pub fn program(self, path: &str, content: impl AsRef<[u8]>) -> io::Result<Self> {
        let content = content.as_ref();
        self.entry(EntryType::Regular, path, FOLDER_MODE, content.len() as u64, content)
    }

    /// Any header with any data, written as it is (the checksum too); the data are padded to full blocks.
    ///
    /// # Errors
    /// The entry cannot be written.
    pub fn raw(mut self, header: &Header, data: &[u8]) -> io::Result<Self> {
        let padding = (512 - data.len() % 512) % 512;
        let archive = self.archive()?.get_mut();
        archive.write_all(header.as_bytes())?;
        archive.write_all(data)?;
        archive.write_all(&vec![0; padding])?;
        Ok(self)
    }

    fn entry(
        mut self,
        kind: EntryType,
        path: &str,
        mode: u32,
        length: u64,
        content: impl Read,
    ) -> io::Result<Self> {
        if path.len() > 100 {
            self.archive()?.append_pax_extensions([("path", path.as_bytes())])?;
        }
        let mut header = Header::new_ustar();
        header.set_entry_type(kind);
        header.set_size(length);
        header.set_mode(mode);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        set_name(&mut header.as_old_mut().name, path);
        header.set_cksum();
        let mut content = content.take(length);
        self.archive()?.append(&header, &mut content)?;
        if content.limit() > 0 {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the file became shorter while it was read",
            ));
        }
        Ok(self)
    }

    fn archive(&mut self) -> io::Result<&mut Builder<Sink>> {
        self.archive.as_mut().map_err(|error| io::Error::new(error.kind(), error.to_string()))
    }

    /// The finished layer.
    ///
    /// # Errors
    /// The archive cannot be finished.
    pub fn build(self) -> io::Result<PackedLayer> {
        let Sink { encoder, hasher } = self.archive?.into_inner()?;
        let bytes: Bytes = match encoder {
            Encoder::Gzip(encoder) => encoder.finish()?,
            Encoder::Zstd(encoder) => encoder.finish()?,
            Encoder::None(buffer) => buffer,
        }
        .into();
        Ok(PackedLayer {
            media_type: self.compression.media_type(),
            digest: Digest::of(&bytes),
            diff_id: hasher.finish(),
            bytes,
        })
    }
}

/// Writes a name as it is, without the checks that archives for people deserve; long ones are cut, their whole
/// text is in an extension header.
fn set_name(field: &mut [u8; 100], name: &str) {
    field.fill(0);
    let count = name.len().min(100);
    field[..count].copy_from_slice(&name.as_bytes()[..count]);
}
