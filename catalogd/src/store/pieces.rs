//! A generation's lines, compressed once, so that no request pays for it.
//!
//! A piece is a run of lines (one schema, one package) as raw deflate that ends with a full flush: pieces know
//! nothing of each other and can be put together freely. An answer is one gzip member: a header, pieces, an
//! empty last block, and a checksum combined from those of the pieces, because common clients stop at the
//! end of the first member. An answer that takes single lines out of a run has no compressed form.

mod checksum;
mod codec;
mod make;

use std::{fs::File, io, ops::Range, os::unix::fs::FileExt};

use super::FileSum;

pub(super) use codec::load;
pub(super) use make::{Made, make};

/// The file of the pieces in a generation's folder.
pub(super) const PIECES_FILE: &str = "pieces";

/// Deflate, no name, no time, system unknown.
const MEMBER_HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
/// A block with nothing in it that says it is the last.
const LAST_BLOCK: [u8; 2] = [3, 0];

/// The compressed form of a generation's lines.
#[derive(Debug)]
pub(crate) struct Pieces {
    file: File,
    table: Vec<Piece>,
}

/// One piece: where it ends, in the lines and in the file, and its checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Piece {
    raw_end: u64,
    end: u64,
    crc32: u32,
    /// The operator that makes room for this piece's bytes in a checksum.
    shift: u32,
}

/// Length and checksum of all lines, as the pieces hold them.
fn sum_of(table: &[Piece]) -> FileSum {
    table.iter().fold(FileSum::default(), |sum, piece| FileSum {
        bytes: piece.raw_end,
        crc32: checksum::appended(sum.crc32, piece.crc32, piece.shift),
    })
}

/// A gzip member: `head`, these ranges of the file of pieces, `tail`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) ranges: Vec<Range<u64>>,
    pub(crate) tail: [u8; 10],
}

impl Member {
    /// What stands before the pieces.
    pub(crate) const HEAD: &[u8] = &MEMBER_HEAD;

    /// Length in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        let pieces: u64 = self.ranges.iter().map(|range| range.end - range.start).sum();
        pieces + (MEMBER_HEAD.len() + self.tail.len()) as u64
    }
}

impl Pieces {
    /// The member that holds these lines (ascending ranges); `None` where they are not whole runs.
    pub(crate) fn member(&self, lines: &[Range<u64>]) -> Option<Member> {
        let mut ranges: Vec<Range<u64>> = Vec::with_capacity(lines.len());
        let (mut crc32, mut bytes) = (0, 0_u64);
        for wanted in lines {
            let first = self.table.partition_point(|piece| piece.raw_end <= wanted.start);
            let before = first.checked_sub(1).and_then(|before| self.table.get(before));
            if before.map_or(0, |piece| piece.raw_end) != wanted.start {
                return None;
            }
            let last = self.table.partition_point(|piece| piece.raw_end < wanted.end);
            if self.table.get(last)?.raw_end != wanted.end {
                return None;
            }
            for piece in &self.table[first..=last] {
                crc32 = checksum::appended(crc32, piece.crc32, piece.shift);
            }
            bytes += wanted.end - wanted.start;
            let range = before.map_or(0, |piece| piece.end)..self.table[last].end;
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
        Some(Member { ranges, tail })
    }

    /// Fills `buffer` with the pieces' bytes from `offset` on. Blocks.
    pub(crate) fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }
}

#[cfg(test)]
mod tests;
