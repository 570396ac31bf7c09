//! Where in a catalog's lines the documents of a schema, package or name are.
//!
//! Documents are numbered in the order of the lines; each table maps a value to ascending numbers, so a query
//! is an intersection of sorted lists and its answer is in file order. A document without a schema is in
//! no answer to a query, as in operator-registry. Built while lines are written, stored as a small binary file
//! with version and checksum, and held in memory whole.

mod codec;

use std::{collections::BTreeMap, ops::Range};

use crate::{
    Envelope, FbcError,
    limits::{DOCUMENTS_MAX, INDEX_BYTES_MAX, INDEX_DOCUMENT_BYTES, INDEX_PLACE_BYTES, INDEX_VALUE_BYTES},
};

type Table = BTreeMap<Box<str>, Vec<u32>>;

/// What to look for; `None` and empty text mean any.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Query<'a> {
    /// Exact schema.
    pub schema: Option<&'a str>,
    /// Exact value of the field `package`, so `olm.package` documents are not found by it.
    pub package: Option<&'a str>,
    /// Exact name.
    pub name: Option<&'a str>,
}

impl Query<'_> {
    /// Whether nothing is asked for, which means the whole catalog.
    pub fn is_empty(&self) -> bool {
        [self.schema, self.package, self.name].into_iter().flatten().all(str::is_empty)
    }
}

/// The index of one catalog.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Index {
    /// Ends of the lines, line feeds included; a line starts where the one before it ends.
    line_ends: Vec<u64>,
    by_schema: Table,
    /// Of each line, whether its document has a schema. Follows from the table; asked for every line found.
    has_schema: Vec<bool>,
    by_package: Table,
    by_name: Table,
    /// Ends of the records, in their own file.
    record_ends: Vec<u64>,
    records: Table,
    memory: Memory,
}

/// The memory that an index is reckoned to take, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Memory(usize);

impl Memory {
    fn add(&mut self, bytes: usize) -> Result<(), FbcError> {
        self.0 = self.0.saturating_add(bytes);
        if self.0 > INDEX_BYTES_MAX {
            return Err(FbcError::IndexTooLarge(INDEX_BYTES_MAX >> 20));
        }
        Ok(())
    }

    fn add_value(&mut self, value: &str) -> Result<(), FbcError> {
        self.add(INDEX_VALUE_BYTES.saturating_add(value.len()))
    }
}

impl Index {
    /// Adds the next line of the catalog: its fields, and its length in bytes with the line feed.
    ///
    /// # Errors
    /// The catalog has more documents, or more different values, than we take.
    pub fn push_line(&mut self, envelope: &Envelope<'_>, length: usize) -> Result<(), FbcError> {
        let number = push_end(&mut self.line_ends, length, &mut self.memory)?;
        self.has_schema.push(!envelope.schema.is_empty());
        for (table, value) in [
            (&mut self.by_schema, &envelope.schema),
            (&mut self.by_package, &envelope.package),
            (&mut self.by_name, &envelope.name),
        ] {
            push_number(table, value, number, &mut self.memory)?;
        }
        Ok(())
    }

    /// Adds the next record: the package it is about, and its length in bytes with the line feed.
    ///
    /// # Errors
    /// The catalog has more documents, or more different packages, than we take.
    pub fn push_record(&mut self, package: &str, length: usize) -> Result<(), FbcError> {
        let number = push_end(&mut self.record_ends, length, &mut self.memory)?;
        push_number(&mut self.records, package, number, &mut self.memory)
    }

    /// How many documents the catalog has.
    pub fn documents(&self) -> usize {
        self.line_ends.len()
    }

    /// The memory that the index is reckoned to take, in bytes.
    pub fn memory(&self) -> usize {
        self.memory.0
    }

    /// Length of the lines in bytes.
    pub fn bytes(&self) -> u64 {
        self.line_ends.last().copied().unwrap_or_default()
    }

    /// Length of the records in bytes.
    pub fn record_bytes(&self) -> u64 {
        self.record_ends.last().copied().unwrap_or_default()
    }

    /// Names of the packages that have records, sorted.
    pub fn packages(&self) -> impl Iterator<Item = &str> {
        self.records.keys().map(AsRef::as_ref)
    }

    /// Byte ranges of the lines that a query finds, ascending; neighbours are joined.
    pub fn find(&self, query: &Query<'_>) -> Vec<Range<u64>> {
        if query.is_empty() {
            return Some(0..self.bytes()).filter(|all| !all.is_empty()).into_iter().collect();
        }
        let mut lists = Vec::with_capacity(3);
        for (table, value) in
            [(&self.by_schema, query.schema), (&self.by_package, query.package), (&self.by_name, query.name)]
        {
            match value.filter(|value| !value.is_empty()) {
                None => {}
                Some(value) => match table.get(value) {
                    Some(numbers) => lists.push(numbers.as_slice()),
                    None => return Vec::new(),
                },
            }
        }
        lists.sort_by_key(|list| list.len());
        let Some((shortest, others)) = lists.split_first() else { return Vec::new() };
        let schema_asked = query.schema.is_some_and(|schema| !schema.is_empty());
        let found = shortest.iter().copied().filter(|number| {
            others.iter().all(|list| list.binary_search(number).is_ok())
                && (schema_asked || self.has_schema.get(*number as usize) == Some(&true))
        });
        joined(found, &self.line_ends)
    }

    /// The schemas of the catalog's documents, sorted.
    pub fn schemas(&self) -> impl Iterator<Item = &str> {
        self.by_schema.keys().map(AsRef::as_ref)
    }

    /// Byte ranges of the lines of a schema, ascending, each line for itself.
    pub fn lines(&self, schema: &str) -> impl ExactSizeIterator<Item = Range<u64>> {
        let numbers = self.by_schema.get(schema).map(Vec::as_slice).unwrap_or_default();
        numbers.iter().map(|number| between(&self.line_ends, *number as usize))
    }

    /// Byte ranges of neighbouring lines with one schema and one package; together they are all lines. Every
    /// query by schema, package or both finds whole runs.
    pub fn runs(&self) -> Vec<Range<u64>> {
        let values = |table: &Table| {
            let mut values = vec![0_u32; self.documents()];
            for (value, numbers) in (1..).zip(table.values()) {
                for number in numbers {
                    values[*number as usize] = value;
                }
            }
            values
        };
        let kinds = values(&self.by_schema).into_iter().zip(values(&self.by_package));
        let mut runs: Vec<Range<u64>> = Vec::new();
        let mut before = None;
        for (number, kind) in kinds.enumerate() {
            let line = between(&self.line_ends, number);
            match runs.last_mut() {
                Some(run) if before == Some(kind) => run.end = line.end,
                _ => runs.push(line),
            }
            before = Some(kind);
        }
        runs
    }

    /// Byte ranges of a package's records, ascending; neighbours are joined.
    pub fn records(&self, package: &str) -> Vec<Range<u64>> {
        let numbers = self.records.get(package).map(Vec::as_slice).unwrap_or_default();
        joined(numbers.iter().copied(), &self.record_ends)
    }

    /// The index as the bytes of a file.
    pub fn to_bytes(&self) -> Vec<u8> {
        codec::encode(self)
    }

    /// Reads what [`Self::to_bytes`] wrote.
    ///
    /// # Errors
    /// The bytes are damaged or of another version.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, FbcError> {
        codec::decode(bytes)
    }
}

fn push_end(ends: &mut Vec<u64>, length: usize, memory: &mut Memory) -> Result<u32, FbcError> {
    memory.add(INDEX_DOCUMENT_BYTES)?;
    if ends.len() >= DOCUMENTS_MAX {
        return Err(FbcError::TooManyDocuments(DOCUMENTS_MAX));
    }
    let number = u32::try_from(ends.len()).map_err(|_| FbcError::TooManyDocuments(DOCUMENTS_MAX))?;
    ends.push(ends.last().copied().unwrap_or_default() + length as u64);
    Ok(number)
}

fn push_number(table: &mut Table, value: &str, number: u32, memory: &mut Memory) -> Result<(), FbcError> {
    if value.is_empty() {
        return Ok(());
    }
    memory.add(INDEX_PLACE_BYTES)?;
    if let Some(numbers) = table.get_mut(value) {
        numbers.push(number);
    } else {
        memory.add_value(value)?;
        table.insert(value.into(), vec![number]);
    }
    Ok(())
}

/// The range of a line or record by the ends of all; empty for one that is not there.
fn between(ends: &[u64], number: usize) -> Range<u64> {
    let start = number.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or_default();
    start..ends.get(number).copied().unwrap_or(start)
}

fn joined(numbers: impl Iterator<Item = u32>, ends: &[u64]) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for number in numbers {
        let range = between(ends, number as usize);
        match ranges.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => ranges.push(range),
        }
    }
    ranges
}

#[cfg(test)]
mod tests;
