//! Compresses a generation's lines, piece after piece, in constant memory.

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    ops::Range,
    path::Path,
};

use flate2::{Compress, Compression, Crc, FlushCompress};

use super::{Piece, Pieces, checksum, codec, sum_of};
use crate::{
    limits::PIECES_MAX,
    store::{FileSum, Generation, StoreError, io_error},
};

/// On 132 MB of real catalog: level 4 takes 0.8 s and leaves 18.6 MB, 6 takes 0.9 s and leaves 18.0 MB, 1
/// takes 0.3 s and leaves 27 MB.
const LEVEL: u32 = 4;
/// Lines and compressed bytes in hand, each.
const BUFFER_BYTES: usize = 64 << 10;

/// What became of making pieces.
pub(in crate::store) enum Made {
    /// They are in the file.
    Pieces(Pieces),
    /// The catalog has none: its lines change schema or package too often.
    Unsuitable,
    /// It was no longer worth it.
    Stopped,
}

/// Writes the pieces of a generation into a new file. `stop` is asked at every buffer. Blocks for as long
/// as the processor needs.
pub(in crate::store) fn make(
    generation: &Generation,
    path: &Path,
    stop: &dyn Fn() -> bool,
) -> Result<Made, StoreError> {
    let runs = generation.runs();
    if runs.len() > PIECES_MAX {
        return Ok(Made::Unsuitable);
    }
    let failed = || io_error("writing", path);
    let file = File::create_new(path).map_err(io_error("creating", path))?;
    let mut press = Press::new(file);
    let mut table = Vec::with_capacity(runs.len());
    for run in &runs {
        let Some(piece) = press.piece(generation, run, stop).map_err(failed())? else {
            return Ok(Made::Stopped);
        };
        table.push(piece);
    }
    let lines = sum_of(&table);
    if lines != generation.lines_sum() {
        return Err(failed()(io::Error::new(io::ErrorKind::InvalidData, "the lines are damaged")));
    }
    let data = FileSum { bytes: press.written, crc32: press.written_crc.sum() };
    let mut writer = press.writer;
    writer.write_all(&codec::encode(&table, lines, data)).and_then(|()| writer.flush()).map_err(failed())?;
    Ok(Made::Pieces(Pieces { file: File::open(path).map_err(io_error("opening", path))?, table }))
}

/// The compressor and the file it writes to.
struct Press {
    compress: Compress,
    writer: BufWriter<File>,
    written: u64,
    written_crc: Crc,
    raw: Vec<u8>,
    compressed: Vec<u8>,
}

impl Press {
    fn new(file: File) -> Self {
        Self {
            compress: Compress::new(Compression::new(LEVEL), false),
            writer: BufWriter::with_capacity(BUFFER_BYTES, file),
            written: 0,
            written_crc: Crc::new(),
            raw: Vec::with_capacity(BUFFER_BYTES),
            compressed: vec![0; BUFFER_BYTES],
        }
    }

    /// The piece of a run; `None` when it is no longer wanted.
    fn piece(
        &mut self,
        generation: &Generation,
        run: &Range<u64>,
        stop: &dyn Fn() -> bool,
    ) -> io::Result<Option<Piece>> {
        let mut crc = Crc::new();
        let mut at = run.start;
        while at < run.end {
            if stop() {
                return Ok(None);
            }
            let bytes = (run.end - at).min(BUFFER_BYTES as u64);
            self.raw.resize(usize::try_from(bytes).map_err(io::Error::other)?, 0);
            generation.read_lines(&mut self.raw, at)?;
            crc.update(&self.raw);
            at += bytes;
            self.push(if at == run.end { FlushCompress::Full } else { FlushCompress::None })?;
        }
        let shift = checksum::shift(run.end - run.start);
        Ok(Some(Piece { raw_end: run.end, end: self.written, crc32: crc.sum(), shift }))
    }

    /// Compresses what was read, and writes what comes of it.
    fn push(&mut self, flush: FlushCompress) -> io::Result<()> {
        let mut taken = 0;
        loop {
            let (before_in, before_out) = (self.compress.total_in(), self.compress.total_out());
            self.compress.compress(&self.raw[taken..], &mut self.compressed, flush)?;
            let moved = |after: u64, before| usize::try_from(after - before).map_err(io::Error::other);
            taken += moved(self.compress.total_in(), before_in)?;
            let made = &self.compressed[..moved(self.compress.total_out(), before_out)?];
            self.writer.write_all(made)?;
            self.written_crc.update(made);
            self.written += made.len() as u64;
            // Room that was left over says that nothing is held back.
            if taken == self.raw.len() && made.len() < self.compressed.len() {
                return Ok(());
            }
        }
    }
}
