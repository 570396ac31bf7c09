//! The lines of a generation, compressed once, so that no request pays for it.
//!
//! A segment is a run of lines (one schema, one package) as raw deflate that ends with a full flush: segments are
//! independent and can be concatenated in any selection. An answer is one gzip member: a header, segments, an
//! empty last block, and a checksum combined from those of the segments, because common clients stop at the
//! end of the first member. An answer with single lines of a run has no compressed form.

mod file;
pub(crate) mod worker;
mod write;

use std::{fs::File, io, ops::Range, os::unix::fs::FileExt};

use zlib_rs::crc32::crc32_combine_op;

use crate::store::FileSum;

pub(crate) use file::load;
pub(crate) use write::write;

/// The file of the segments in a generation's folder.
pub(crate) const SEGMENTS_FILE: &str = "segments";

/// Deflate, no name, no time, system unknown.
const MEMBER_HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
/// An empty block with the mark of the last one.
const LAST_BLOCK: [u8; 2] = [3, 0];

/// The compressed form of a generation's lines.
#[derive(Debug)]
pub(crate) struct Segments {
    file: File,
    table: Vec<Segment>,
}

/// One segment: where it ends, in the lines and in the file, and its checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Segment {
    raw_end: u64,
    end: u64,
    crc32: u32,
    /// The operator that appends a segment of this length to a checksum.
    shift: u32,
}

/// Length and checksum of all lines, as the segments hold them.
fn sum_of(table: &[Segment]) -> FileSum {
    table.iter().fold(FileSum::default(), |sum, segment| FileSum {
        bytes: segment.raw_end,
        crc32: crc32_combine_op(sum.crc32, segment.crc32, segment.shift),
    })
}

/// A gzip member: `head`, these ranges of the file of segments, `tail`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GzipMember {
    pub(crate) ranges: Vec<Range<u64>>,
    pub(crate) tail: [u8; 10],
}

impl GzipMember {
    /// The header, before the segments.
    pub(crate) const HEAD: &[u8] = &MEMBER_HEAD;

    /// Length in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        let segments: u64 = self.ranges.iter().map(|range| range.end - range.start).sum();
        segments + (MEMBER_HEAD.len() + self.tail.len()) as u64
    }
}

impl Segments {
    /// The member that holds these lines (ascending ranges); `None` where they are not whole runs.
    pub(crate) fn member(&self, lines: &[Range<u64>]) -> Option<GzipMember> {
        let mut ranges: Vec<Range<u64>> = Vec::with_capacity(lines.len());
        let (mut crc32, mut bytes) = (0, 0_u64);
        for wanted in lines {
            let first = self.table.partition_point(|segment| segment.raw_end <= wanted.start);
            let before = first.checked_sub(1).and_then(|before| self.table.get(before));
            if before.map_or(0, |segment| segment.raw_end) != wanted.start {
                return None;
            }
            let last = self.table.partition_point(|segment| segment.raw_end < wanted.end);
            if self.table.get(last)?.raw_end != wanted.end {
                return None;
            }
            for segment in &self.table[first..=last] {
                crc32 = crc32_combine_op(crc32, segment.crc32, segment.shift);
            }
            bytes += wanted.end - wanted.start;
            let range = before.map_or(0, |segment| segment.end)..self.table[last].end;
            match ranges.last_mut() {
                Some(previous) if previous.end == range.start => previous.end = range.end,
                _ => ranges.push(range),
            }
        }
        let mut tail = [0; 10];
        tail[..2].copy_from_slice(&LAST_BLOCK);
        tail[2..6].copy_from_slice(&crc32.to_le_bytes());
        // The format has the length modulo 2^32.
        tail[6..].copy_from_slice(&bytes.to_le_bytes()[..4]);
        Some(GzipMember { ranges, tail })
    }

    /// Fills `buffer` with the segments' bytes from `offset` on. Blocks.
    pub(crate) fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }
}

#[cfg(test)]
mod tests;
