//! The file of segments: the segments, a table of their lengths and checksums, and a foot that names both and
//! the lines they were made of.

use std::{
    fs::File,
    io::{self, ErrorKind},
    os::unix::fs::FileExt,
    path::Path,
};

use flate2::Crc;
use zlib_rs::crc32::crc32_combine_gen;

use super::{SEGMENTS_FILE, Segment, Segments, sum_of};
use crate::{
    limits::SEGMENTS_MAX,
    store::{FileSum, crc32_of},
};

const MAGIC: &[u8; 8] = b"olmsegms";
/// Raised when the form changes; older files are then made anew.
const VERSION: u32 = 1;
/// Length of a row: lengths of lines and segment, checksum.
const ROW_BYTES: usize = 12;
/// Magic word, version, rows, sum of the lines, sum of the segments, checksum of table and foot.
const FOOT_BYTES: usize = 8 + 4 + 4 + 12 + 12 + 4;

/// The table and the foot of a file, which follow the segments.
pub(super) fn encode(table: &[Segment], lines: FileSum, data: FileSum) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(table.len() * ROW_BYTES + FOOT_BYTES);
    let (mut raw, mut at) = (0, 0);
    for segment in table {
        // Catalogs are smaller than 4 GB, so the lower half of a length is all of it.
        bytes.extend_from_slice(&(segment.raw_end - raw).to_le_bytes()[..4]);
        bytes.extend_from_slice(&(segment.end - at).to_le_bytes()[..4]);
        bytes.extend_from_slice(&segment.crc32.to_le_bytes());
        (raw, at) = (segment.raw_end, segment.end);
    }
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&u32::try_from(table.len()).unwrap_or(u32::MAX).to_le_bytes());
    for sum in [lines, data] {
        bytes.extend_from_slice(&sum.bytes.to_le_bytes());
        bytes.extend_from_slice(&sum.crc32.to_le_bytes());
    }
    let mut crc = Crc::new();
    crc.update(&bytes);
    bytes.extend_from_slice(&crc.sum().to_le_bytes());
    bytes
}

/// Opens the segments in a generation's folder; `None` if there are none yet. Blocks.
pub(crate) fn load(folder: &Path, lines: FileSum) -> Result<Option<Segments>, String> {
    let file = match File::open(folder.join(SEGMENTS_FILE)) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let read = |error: io::Error| error.to_string();
    let size = file.metadata().map_err(read)?.len();
    let foot_at = size.checked_sub(FOOT_BYTES as u64).ok_or("too short")?;
    let mut foot = [0; FOOT_BYTES];
    file.read_exact_at(&mut foot, foot_at).map_err(read)?;
    let mut rest = foot.strip_prefix(MAGIC).ok_or("not a file of segments")?;
    if number(&mut rest) != VERSION {
        return Err("written by another version".into());
    }
    let rows = number(&mut rest) as usize;
    let (of, data) = (sum(&mut rest), sum(&mut rest));
    if rows > SEGMENTS_MAX || data.bytes.checked_add((rows * ROW_BYTES) as u64) != Some(foot_at) {
        return Err("length differs".into());
    }
    let mut table = vec![0; rows * ROW_BYTES];
    file.read_exact_at(&mut table, data.bytes).map_err(read)?;
    let mut crc = Crc::new();
    crc.update(&table);
    crc.update(&foot[..FOOT_BYTES - 4]);
    if crc.sum() != number(&mut rest) || crc32_of(&file, data.bytes).map_err(read)? != data.crc32 {
        return Err("checksum differs".into());
    }
    let segments = Segments { file, table: decode(&table) };
    if of != lines
        || sum_of(&segments.table) != lines
        || segments.table.last().map_or(0, |segment| segment.end) != data.bytes
    {
        return Err("made of other lines".into());
    }
    Ok(Some(segments))
}

fn decode(table: &[u8]) -> Vec<Segment> {
    let (mut raw_end, mut end) = (0, 0);
    let rows = table.chunks_exact(ROW_BYTES).map(|mut row| {
        let raw = u64::from(number(&mut row));
        raw_end += raw;
        end += u64::from(number(&mut row));
        Segment { raw_end, end, crc32: number(&mut row), shift: crc32_combine_gen(raw) }
    });
    rows.collect()
}

/// Takes a number off bytes of which the caller knows the length.
fn number(rest: &mut &[u8]) -> u32 {
    let Some((head, tail)) = rest.split_first_chunk() else { return 0 };
    *rest = tail;
    u32::from_le_bytes(*head)
}

fn sum(rest: &mut &[u8]) -> FileSum {
    let (low, high) = (number(rest), number(rest));
    FileSum { bytes: u64::from(high) << 32 | u64::from(low), crc32: number(rest) }
}
