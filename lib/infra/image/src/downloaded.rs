//! Images that are here as their registries sent them: checked, and not unpacked yet.

use std::{collections::BTreeMap, io, ops::Range, path::PathBuf};

use crate::{
    archive::{FileSink, Unpacker},
    blob::LayerReader,
    disk::DiskBudget,
    error::PullError,
    files::{FileError, Files},
    layers::LayerError,
    limits::{Limits, ZSTD_WINDOW_LOG_MAX},
    rooms::ZSTD_ROOM,
    select::Select,
    spool::{Content, Extent, FileReader, Spool},
    tree::Resolved,
};

const COPY_BUFFER_BYTES: usize = 64 << 10;

/// An image whose layers are on this machine. It can be read without its registry, and more than once.
#[derive(Debug)]
pub struct DownloadedImage {
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) select: Select,
    pub(crate) limits: Limits,
    /// From the lowest.
    pub(crate) layers: Vec<Extent>,
    pub(crate) content: Content,
    pub(crate) spool_dir: PathBuf,
    pub(crate) disk: DiskBudget,
}

impl DownloadedImage {
    /// Unpacks the wanted files into a sink. Returns the place of each file's bytes among those that the sink was given.
    /// Blocks.
    ///
    /// # Errors
    /// The image exceeds a limit or is damaged, or the sink takes no more.
    pub fn read(&self, sink: &mut dyn FileSink) -> Result<BTreeMap<String, Range<u64>>, PullError> {
        let places = |extent: Extent| extent.offset..extent.offset + extent.length;
        Ok(self.unpack(sink)?.files.into_iter().map(|(path, extent)| (path, places(extent))).collect())
    }

    /// Unpacks the wanted files into a spool. Blocks.
    ///
    /// # Errors
    /// The image exceeds a limit or is damaged, or the disk failed.
    pub fn files(&self) -> Result<Files, PullError> {
        let mut spool = Spool::new(self.spool_dir.clone(), &self.disk);
        let resolved = self.unpack(&mut spool)?;
        let content = spool.finish().map_err(|cause| FileError::reading("spool", &cause))?;
        Ok(Files::new(resolved, content))
    }

    /// The largest window that decompressing a layer may need, in bytes; none for gzip.
    pub fn window_bytes(&self) -> usize {
        let is_zstd = |extent: &Extent| {
            let mut first = [0];
            // Of a frame, or a skippable one.
            let read = self.content.read_at(&mut first, extent.offset);
            read.is_ok_and(|read| matches!(first[..read], [0x28 | 0x50..=0x5f]))
        };
        if self.layers.iter().any(is_zstd) { 1 << ZSTD_WINDOW_LOG_MAX } else { 0 }
    }

    /// The room that unpacking takes.
    pub(crate) fn room(&self) -> usize {
        if self.window_bytes() == 0 { 1 } else { ZSTD_ROOM }
    }

    fn unpack(&self, sink: &mut dyn FileSink) -> Result<Resolved, PullError> {
        let mut unpacker = Unpacker::new(&self.select, self.limits, sink);
        let mut uncompressed = 0;
        for (index, layer) in self.layers.iter().enumerate() {
            let applied = self.apply(index, *layer, &mut unpacker, uncompressed);
            uncompressed += applied.map_err(|cause| PullError::Layer { index, cause })?;
        }
        unpacker.into_tree().resolve(&self.limits).map_err(PullError::Content)
    }

    /// Applies a layer; its uncompressed bytes.
    fn apply(
        &self,
        index: usize,
        layer: Extent,
        unpacker: &mut Unpacker<'_>,
        before: u64,
    ) -> Result<u64, LayerError> {
        let blob = FileReader::new(self.content.clone(), layer);
        let mut archive = tar::Archive::new(LayerReader::new(blob, self.limits, before)?);
        let applied = unpacker.apply(index, &mut archive);
        let mut reader = archive.into_inner();
        // What follows the archive's end is padding, but a part of the layer.
        let applied = applied.and_then(|()| Ok(io::copy(&mut reader, &mut io::sink())?));
        match applied {
            Ok(_) => Ok(reader.produced()),
            // What ended the layer's bytes is the cause of whatever the archive's reader said then.
            Err(error) => Err(reader.into_failure().map_or_else(|| error.into(), LayerError::Blob)),
        }
    }
}

impl FileSink for Spool {
    fn file(&mut self, _: &str, place: Range<u64>, content: &mut dyn io::Read) -> io::Result<()> {
        let length = usize::try_from(place.end - place.start).unwrap_or(COPY_BUFFER_BYTES);
        let mut buffer = vec![0; length.min(COPY_BUFFER_BYTES)];
        if buffer.is_empty() {
            return Ok(());
        }
        loop {
            match content.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(read) => self.append(&buffer[..read])?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}
