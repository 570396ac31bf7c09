//! The form of an index on disk: a magic word, a version, tables of little-endian numbers, a checksum.

use super::{Index, Memory, Table};
use crate::{
    FbcError,
    limits::{DOCUMENTS_MAX, INDEX_DOCUMENT_BYTES, INDEX_PLACE_BYTES},
};

const MAGIC: &[u8; 8] = b"olmindex";
/// Raised whenever the form, or that of the lines and records, changes: older stores are then ingested anew.
const VERSION: u32 = 1;

pub(super) fn encode(index: &Index) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    for ends in [&index.line_ends, &index.record_ends] {
        number(&mut bytes, ends.len());
        let mut start = 0;
        for &end in ends {
            bytes.extend_from_slice(&(end - start).to_le_bytes()[..4]);
            start = end;
        }
    }
    for table in [&index.by_schema, &index.by_package, &index.by_name, &index.records] {
        number(&mut bytes, table.len());
        for (value, numbers) in table {
            number(&mut bytes, value.len());
            bytes.extend_from_slice(value.as_bytes());
            number(&mut bytes, numbers.len());
            for number in numbers {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
        }
    }
    let sum = checksum(&bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes
}

/// Counts are below [`DOCUMENTS_MAX`] and lengths below the limit of a name, so nothing is cut off.
fn number(bytes: &mut Vec<u8>, number: usize) {
    bytes.extend_from_slice(&u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes());
}

pub(super) fn decode(bytes: &[u8]) -> Result<Index, FbcError> {
    let (body, sum) = bytes.split_last_chunk::<8>().ok_or(FbcError::Index("too short"))?;
    if checksum(body) != u64::from_le_bytes(*sum) {
        return Err(FbcError::Index("checksum differs"));
    }
    let mut rest = body.strip_prefix(MAGIC).ok_or(FbcError::Index("not an index"))?;
    if take_number(&mut rest)? != VERSION {
        return Err(FbcError::Index("another version"));
    }
    let (line_ends, record_ends) = (take_ends(&mut rest)?, take_ends(&mut rest)?);
    let lines = line_ends.len();
    let records_count = record_ends.len();
    // Of an index that was written when larger ones were accepted, the catalog is read again.
    let mut memory = Memory::default();
    memory.add((lines + records_count) * INDEX_DOCUMENT_BYTES)?;
    let by_schema = take_table(&mut rest, lines, &mut memory)?;
    let by_package = take_table(&mut rest, lines, &mut memory)?;
    let by_name = take_table(&mut rest, lines, &mut memory)?;
    let records = take_table(&mut rest, records_count, &mut memory)?;
    if !rest.is_empty() {
        return Err(FbcError::Index("too long"));
    }
    let mut has_schema = vec![false; lines];
    for number in by_schema.values().flatten() {
        if let Some(has_schema) = has_schema.get_mut(*number as usize) {
            *has_schema = true;
        }
    }
    Ok(Index { line_ends, by_schema, has_schema, by_package, by_name, record_ends, records, memory })
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Result<&'a [u8], FbcError> {
    let (head, tail) = rest.split_at_checked(length).ok_or(FbcError::Index("too short"))?;
    *rest = tail;
    Ok(head)
}

fn take_number(rest: &mut &[u8]) -> Result<u32, FbcError> {
    let (head, tail) = rest.split_first_chunk::<4>().ok_or(FbcError::Index("too short"))?;
    *rest = tail;
    Ok(u32::from_le_bytes(*head))
}

/// Reads a count, of which each element takes at least `element_bytes` more.
fn take_count(rest: &mut &[u8], element_bytes: usize) -> Result<usize, FbcError> {
    let count = take_number(rest)? as usize;
    if count > DOCUMENTS_MAX || count.saturating_mul(element_bytes) > rest.len() {
        return Err(FbcError::Index("count out of range"));
    }
    Ok(count)
}

fn take_ends(rest: &mut &[u8]) -> Result<Vec<u64>, FbcError> {
    let count = take_count(rest, 4)?;
    let mut end = 0;
    (0..count)
        .map(|_| {
            // As many 32-bit lengths as there can be documents do not overflow 64 bits.
            end += u64::from(take_number(rest)?);
            Ok(end)
        })
        .collect()
}

fn take_table(rest: &mut &[u8], documents: usize, memory: &mut Memory) -> Result<Table, FbcError> {
    let count = take_count(rest, 8)?;
    let mut table = Table::new();
    for _ in 0..count {
        let length = take_number(rest)? as usize;
        let value =
            std::str::from_utf8(take(rest, length)?).map_err(|_| FbcError::Index("value is not UTF-8"))?;
        let numbers = take_count(rest, 4)?;
        memory.add_value(value)?;
        memory.add(numbers * INDEX_PLACE_BYTES)?;
        let numbers = (0..numbers).map(|_| take_number(rest)).collect::<Result<Vec<_>, _>>()?;
        if numbers.last().is_some_and(|&last| last as usize >= documents) || !numbers.is_sorted() {
            return Err(FbcError::Index("document out of range"));
        }
        table.insert(value.into(), numbers);
    }
    Ok(table)
}

/// FNV-1a, over words of eight bytes for speed: it guards against torn writes, not against malice.
fn checksum(bytes: &[u8]) -> u64 {
    let mut sum = 0xcbf2_9ce4_8422_2325_u64 ^ bytes.len() as u64;
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        sum = (sum ^ u64::from_le_bytes(word)).wrapping_mul(0x0000_0100_0000_01b3);
        sum ^= sum >> 29;
    }
    sum
}
