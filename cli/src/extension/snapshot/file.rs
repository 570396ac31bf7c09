//! The file of a snapshot: lines of JSON in gzip members.
//!
//! A member is written and synced as a whole and ends with the record of how far the snapshot has come. Of a process that
//! was killed, at most the last member is torn: it is cut off, and the snapshot continues behind the one before.
//!
//! Files come from anywhere: members and lines, records and objects have limits, and nothing is kept but one member.

use std::{
    fs::File,
    io::{BufRead, BufReader, Read, Write},
};

use anyhow::{Context as _, bail};
use flate2::{Compression, bufread::GzDecoder, write::GzEncoder};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// The form of the file.
pub(crate) const FORMAT: u32 = 1;
/// Bytes of a member before it is compressed. An object has a few megabytes at most.
const MEMBER_BYTES_MAX: u64 = 32 << 20;
/// Bytes after which a member is written although its page continues.
const MEMBER_BYTES_FULL: usize = 8 << 20;
/// CRDs of a snapshot; the largest operators have about a hundred.
const DEFINITIONS_MAX: usize = 1_000;
/// Custom resources of a snapshot.
pub(crate) const OBJECTS_MAX: usize = 500_000;

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Record {
    /// The first one.
    Snapshot(Header),
    Definition(Value),
    Object(Value),
    Progress(Progress),
    /// The last one.
    End(End),
}

/// What the snapshot is of.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Header {
    pub(crate) format: u32,
    pub(crate) extension: String,
    pub(crate) uid: String,
    /// When it was begun.
    pub(crate) taken: String,
}

/// How far the snapshot has come.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Progress {
    /// The CRD whose objects are read; empty when all CRDs are written and none of their objects.
    pub(crate) definition: String,
    /// Whether all of its objects are written.
    pub(crate) done: bool,
    /// The token of the next page.
    #[serde(default, rename = "continue", skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<String>,
    /// The key of the last object: its name, behind its namespace if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last: Option<String>,
}

/// What the file has, and the digest of all lines before.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct End {
    pub(crate) definitions: usize,
    pub(crate) objects: usize,
    pub(crate) digest: String,
}

/// What was read of a file so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Totals {
    definitions: usize,
    objects: usize,
    digest: Sha256,
}

impl Totals {
    pub(crate) fn objects(&self) -> usize {
        self.objects
    }

    fn add(&mut self, record: &Record) -> anyhow::Result<()> {
        match record {
            Record::Definition(_) => self.definitions += 1,
            Record::Object(_) => self.objects += 1,
            Record::Snapshot(_) | Record::Progress(_) | Record::End(_) => {}
        }
        if self.definitions > DEFINITIONS_MAX || self.objects > OBJECTS_MAX {
            bail!("a snapshot has at most {DEFINITIONS_MAX} CRDs and {OBJECTS_MAX} custom resources");
        }
        Ok(())
    }

    fn end(&self) -> End {
        let digest = format!("sha256:{}", olm_object::hex(&self.digest.clone().finalize()));
        End { definitions: self.definitions, objects: self.objects, digest }
    }
}

/// Reads a file member by member.
pub(crate) struct Reader {
    input: Counted<BufReader<File>>,
    pub(crate) totals: Totals,
}

/// What comes next in a file.
pub(crate) enum Next {
    Member(Vec<Record>),
    /// The file ends here, after a whole member.
    End,
    /// The rest, from this byte on, is no whole member.
    Torn(u64),
}

impl Reader {
    pub(crate) fn new(file: File) -> Self {
        Self { input: Counted { inner: BufReader::new(file), position: 0 }, totals: Totals::default() }
    }

    /// The next member; its trailer has to be right.
    ///
    /// # Errors
    /// The file is no snapshot, was changed, or is larger than the limits.
    pub(crate) fn next(&mut self) -> anyhow::Result<Next> {
        let start = self.input.position;
        if self.input.fill_buf().context("reading the snapshot")?.is_empty() {
            return Ok(Next::End);
        }
        let mut bytes = Vec::new();
        let mut member = GzDecoder::new(&mut self.input).take(MEMBER_BYTES_MAX + 1);
        if member.read_to_end(&mut bytes).is_err() {
            return Ok(Next::Torn(start));
        }
        if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > MEMBER_BYTES_MAX {
            bail!("a member of the file has more than {MEMBER_BYTES_MAX} bytes: it is no snapshot");
        }
        let mut records = Vec::new();
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let record: Record = serde_json::from_slice(line)
                .with_context(|| format!("the file is no snapshot: line in the member at byte {start}"))?;
            self.totals.add(&record)?;
            if let Record::End(end) = &record {
                if *end != self.totals.end() {
                    bail!("the snapshot was changed or is damaged: its content is not what its end says");
                }
            } else {
                self.totals.digest.update(line);
            }
            records.push(record);
        }
        Ok(Next::Member(records))
    }
}

/// Appends members to a file.
pub(crate) struct Writer {
    file: File,
    buffer: Vec<u8>,
    totals: Totals,
}

impl Writer {
    /// Continues `file`, which has what is counted and whose end is a whole member.
    pub(crate) fn new(file: File, totals: Totals) -> Self {
        Self { file, buffer: Vec::new(), totals }
    }

    pub(crate) fn objects(&self) -> usize {
        self.totals.objects
    }

    /// Adds a record; it is written with the next progress.
    pub(crate) fn add(&mut self, record: &Record) -> anyhow::Result<()> {
        self.totals.add(record)?;
        let start = self.buffer.len();
        serde_json::to_writer(&mut self.buffer, record)?;
        self.buffer.push(b'\n');
        if !matches!(record, Record::End(_)) {
            self.totals.digest.update(&self.buffer[start..]);
        }
        if u64::try_from(self.buffer.len() - start).unwrap_or(u64::MAX) > MEMBER_BYTES_MAX / 2 {
            bail!("an object has more than {} bytes", MEMBER_BYTES_MAX / 2);
        }
        Ok(())
    }

    /// Whether what was added makes a member.
    pub(crate) fn is_full(&self) -> bool {
        self.buffer.len() >= MEMBER_BYTES_FULL
    }

    /// Writes what was added, as one member that survives a crash.
    pub(crate) fn flush(&mut self) -> anyhow::Result<()> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(&self.buffer)?;
        self.file.write_all(&encoder.finish()?).context("writing the snapshot")?;
        self.file.sync_data().context("writing the snapshot")?;
        self.buffer.clear();
        Ok(())
    }

    /// Writes the end.
    pub(crate) fn finish(mut self) -> anyhow::Result<End> {
        let end = self.totals.end();
        self.add(&Record::End(end.clone()))?;
        self.flush()?;
        Ok(end)
    }
}

/// Counts what is consumed.
struct Counted<R> {
    inner: R,
    position: u64,
}

impl<R: BufRead> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.position += u64::try_from(read).unwrap_or_default();
        Ok(read)
    }
}

impl<R: BufRead> BufRead for Counted<R> {
    fn fill_buf(&mut self) -> std::io::Result<&[u8]> {
        self.inner.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        self.position += u64::try_from(amount).unwrap_or_default();
        self.inner.consume(amount);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, SeekFrom};

    use serde_json::json;

    use super::*;

    fn written(objects: usize) -> Vec<u8> {
        let mut file = tempfile::tempfile().unwrap();
        let mut writer = Writer::new(file.try_clone().unwrap(), Totals::default());
        writer.add(&Record::Snapshot(Header { format: FORMAT, ..Header::default() })).unwrap();
        writer.flush().unwrap();
        for number in 0..objects {
            writer.add(&Record::Object(json!({"number": number}))).unwrap();
            writer.add(&Record::Progress(Progress::default())).unwrap();
            writer.flush().unwrap();
        }
        writer.finish().unwrap();
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(0)).unwrap();
        file.read_to_end(&mut bytes).unwrap();
        bytes
    }

    fn reader(bytes: &[u8]) -> Reader {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        Reader::new(file)
    }

    /// The number of whole members, and where a torn one begins.
    fn read(bytes: &[u8]) -> anyhow::Result<(usize, Option<u64>)> {
        let (mut reader, mut members) = (reader(bytes), 0);
        loop {
            match reader.next()? {
                Next::Member(_) => members += 1,
                Next::End => return Ok((members, None)),
                Next::Torn(start) => return Ok((members, Some(start))),
            }
        }
    }

    #[test]
    fn a_file_cut_at_any_byte_has_whole_members_and_a_torn_one() {
        let bytes = written(3);
        assert_eq!(read(&bytes).unwrap(), (5, None));
        let mut last = 0;
        for length in 0..bytes.len() {
            let (members, torn) = read(&bytes[..length]).unwrap();
            assert!(members >= last && members < 5);
            last = members;
            if let Some(start) = torn {
                // What comes before it can be continued.
                assert_eq!(read(&bytes[..usize::try_from(start).unwrap()]).unwrap(), (members, None));
            }
        }
    }

    #[test]
    fn changed_lines_and_members_are_noticed() {
        let mut writer = Writer::new(tempfile::tempfile().unwrap(), Totals::default());
        writer.add(&Record::Object(json!({}))).unwrap();
        let end = writer.totals.end();
        assert_eq!((end.objects, end.definitions), (1, 0));
        let member = |text: &str| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
            encoder.write_all(text.as_bytes()).unwrap();
            encoder.finish().unwrap()
        };
        let end = serde_json::to_string(&Record::End(end)).unwrap();
        let right = [member("{\"object\":{}}\n"), member(&end)].concat();
        assert_eq!(read(&right).unwrap(), (2, None));
        let changed = [member("{\"object\":{\"a\":1}}\n"), member(&end)].concat();
        assert!(read(&changed).unwrap_err().to_string().contains("was changed"));
        assert!(read(&member("no JSON\n")).unwrap_err().to_string().contains("is no snapshot"));
        assert_eq!(read(b"no gzip at all").unwrap(), (0, Some(0)));
    }

    #[test]
    fn members_that_expand_too_far_are_rejected() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        let zeros = vec![b' '; 1 << 20];
        for _ in 0..40 {
            encoder.write_all(&zeros).unwrap();
        }
        let error = read(&encoder.finish().unwrap()).unwrap_err().to_string();
        assert!(error.contains("more than 33554432 bytes"), "{error}");
    }

    #[test]
    fn there_are_no_more_objects_than_the_limit() {
        let mut totals = Totals { objects: OBJECTS_MAX - 1, ..Totals::default() };
        totals.add(&Record::Object(Value::Null)).unwrap();
        assert!(totals.add(&Record::Object(Value::Null)).is_err());
        let mut totals = Totals { definitions: DEFINITIONS_MAX, ..Totals::default() };
        assert!(totals.add(&Record::Definition(Value::Null)).is_err());
    }
}
