//! The tar loop: one layer's archive, entry by entry, into the tree and to the sink of its files.
//!
//! Headers are read raw and interpreted here, because long names and PAX records come from outside and need
//! limits, and because two readings of one archive must not be possible: sizes that disagree, data behind
//! links and sparse files are refused. Nothing is ever extracted.

use std::{
    io::{self, Read},
    ops::Range,
};

use tar::{EntryType, PaxExtensions};
use thiserror::Error;

use crate::{
    limits::{EXTENSION_HEADER_BYTES_MAX, Limits},
    select::Select,
    spool::Extent,
    tree::{Node, Tree, TreeError, clean},
    whiteout::{Whiteout, whiteout},
};

#[cfg(test)]
mod tests;

/// Takes in the wanted files of an image, in the order of its layers' archives.
pub trait FileSink {
    /// Takes in a file; what it does not read of `content` is skipped. `place` is where its bytes are among those of all
    /// files before and after it. A later entry may replace, hide, or link to it.
    ///
    /// # Errors
    /// The image is not read any further. An error of `content` means that the image cannot be.
    fn file(&mut self, path: &str, place: Range<u64>, content: &mut dyn Read) -> io::Result<()>;
}

/// Why a layer's archive could not be read.
#[derive(Debug, Error)]
pub enum ArchiveError {
    /// What is wrong with it, in a sentence.
    #[error("{0}")]
    Content(String),
    /// The spool cannot be written: a matter of this machine, not of the image.
    #[error("writing the spool file: {0}")]
    Spool(#[source] io::Error),
}

impl From<TreeError> for ArchiveError {
    fn from(error: TreeError) -> Self {
        Self::Content(error.to_string())
    }
}

impl From<io::Error> for ArchiveError {
    fn from(error: io::Error) -> Self {
        // The tar reader's own words are not repeated: they quote the bytes they stumbled over.
        let ends_early = error.kind() == io::ErrorKind::UnexpectedEof;
        Self::Content(if ends_early { "unexpected EOF" } else { "not a valid tar archive" }.to_owned())
    }
}

fn refused<T>(why: String) -> Result<T, ArchiveError> {
    Err(ArchiveError::Content(why))
}

fn malformed_extension() -> ArchiveError {
    ArchiveError::Content("malformed extension header".to_owned())
}

/// What the extension headers before an entry say about it.
#[derive(Default)]
struct Extensions {
    bytes: u64,
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<u64>,
}

/// Reads layers from the lowest up.
pub(crate) struct Unpacker<'a> {
    limits: Limits,
    select: &'a Select,
    tree: Tree,
    sink: &'a mut dyn FileSink,
    /// Bytes of all files taken in.
    bytes: u64,
    entries: u64,
}

impl<'a> Unpacker<'a> {
    pub(crate) fn new(select: &'a Select, limits: Limits, sink: &'a mut dyn FileSink) -> Self {
        Self { limits, select, tree: Tree::default(), sink, bytes: 0, entries: 0 }
    }

    pub(crate) fn into_tree(self) -> Tree {
        self.tree
    }

    /// Reads one archive up to its end marker. `layer` counts from the lowest.
    pub(crate) fn apply<R: Read>(
        &mut self,
        layer: usize,
        archive: &mut tar::Archive<R>,
    ) -> Result<(), ArchiveError> {
        let mut extensions = Extensions::default();
        for entry in archive.entries()?.raw(true) {
            let mut entry = entry?;
            self.entries += 1;
            if self.entries > self.limits.entries_max {
                return refused(format!("more than {} entries", self.limits.entries_max));
            }
            if !extensions.absorb(&mut entry)? {
                self.entry(layer, &mut entry, &std::mem::take(&mut extensions))?;
            }
        }
        Ok(())
    }

    fn entry<R: Read>(
        &mut self,
        layer: usize,
        entry: &mut tar::Entry<'_, R>,
        extensions: &Extensions,
    ) -> Result<(), ArchiveError> {
        let name = extensions.path.clone().unwrap_or_else(|| entry.header().path_bytes().into_owned());
        let shown = || String::from_utf8_lossy(&name).into_owned();
        let kind = entry.header().entry_type();
        if kind.is_gnu_sparse() {
            return refused(format!("refusing entry {:?}: sparse files are not supported", shown()));
        }
        if extensions.size.is_some_and(|size| size != entry.size()) {
            return refused(format!("entry {:?} has two different sizes", shown()));
        }
        let is_file = matches!(kind, EntryType::Regular | EntryType::Continuous);
        if !is_file && entry.size() != 0 {
            return refused(format!("entry {:?} has data, though its type has none", shown()));
        }
        let path = clean(&name, &self.limits)?;
        match whiteout(&path) {
            Some(Whiteout::Hide(path)) => self.tree.hide(&path, layer, &self.limits)?,
            Some(Whiteout::HideBelow(path)) => self.tree.hide_below(&path, layer, &self.limits)?,
            None if self.select.wants(&path) && !path.is_empty() => {
                let node = self.node(kind, &name, &path, entry, extensions)?;
                self.tree.insert(&path, node, layer, &self.limits)?;
            }
            // A file or link in the place of a folder that led to wanted files hides them.
            None if self.select.passes(&path) && kind != EntryType::Directory && !name.ends_with(b"/") => {
                self.tree.hide(&path, layer, &self.limits)?;
            }
            Some(Whiteout::Ignored) | None => {}
        }
        Ok(())
    }

    fn node<R: Read>(
        &mut self,
        kind: EntryType,
        name: &[u8],
        path: &str,
        entry: &mut tar::Entry<'_, R>,
        extensions: &Extensions,
    ) -> Result<Node, ArchiveError> {
        let link = || {
            let raw = extensions.link.clone();
            raw.unwrap_or_else(|| entry.header().link_name_bytes().unwrap_or_default().into_owned())
        };
        match kind {
            EntryType::Directory => Ok(Node::Directory),
            // Archives older than the directory type mark one by its name.
            EntryType::Regular if name.ends_with(b"/") && entry.size() == 0 => Ok(Node::Directory),
            EntryType::Regular | EntryType::Continuous => self.file(path, entry),
            EntryType::Link => {
                let target = clean(&link(), &self.limits)?;
                Ok(self.tree.link_target(path, &target)?)
            }
            EntryType::Symlink => {
                let target = link();
                if target.len() > self.limits.path_bytes_max {
                    return Err(TreeError::path_too_long(&self.limits).into());
                }
                Ok(Node::Symlink(String::from_utf8(target).map_err(|_| TreeError::symbolic_link(path))?))
            }
            other => refused(format!(
                "refusing entry {path:?} with type {:?}: only files, directories and links are allowed",
                char::from(other.as_byte())
            )),
        }
    }

    fn file<R: Read>(&mut self, path: &str, entry: &mut tar::Entry<'_, R>) -> Result<Node, ArchiveError> {
        let length = entry.size();
        if length > self.limits.file_bytes_max {
            return refused(format!("file {path:?} is larger than {} bytes", self.limits.file_bytes_max));
        }
        let offset = self.bytes;
        let end = offset.saturating_add(length);
        if end > self.limits.total_bytes_max {
            return refused(format!("the wanted files have more than {} bytes", self.limits.total_bytes_max));
        }
        let mut content = EntryReader { entry, path, left: length, failure: None };
        let taken = self.sink.file(path, offset..end, &mut content);
        // What the sink makes of such an error does not matter.
        if let Some(failure) = content.failure {
            return Err(failure);
        }
        taken.map_err(ArchiveError::Spool)?;
        self.bytes = end;
        Ok(Node::File(Extent { offset, length }))
    }
}

/// The content of an entry. Remembers why it cannot be read.
struct EntryReader<'a, R> {
    entry: &'a mut R,
    path: &'a str,
    left: u64,
    failure: Option<ArchiveError>,
}

impl<R: Read> Read for EntryReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 || buffer.is_empty() {
            return Ok(0);
        }
        let failure = match self.entry.read(buffer) {
            Ok(0) => ArchiveError::Content(format!("unexpected EOF in entry {:?}", self.path)),
            Ok(read) => {
                self.left = self.left.saturating_sub(read as u64);
                return Ok(read);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Err(error),
            Err(error) => error.into(),
        };
        let shown = io::Error::other(failure.to_string());
        self.failure = Some(failure);
        Err(shown)
    }
}

impl Extensions {
    /// Takes in an extension header; whether the entry was one.
    fn absorb<R: Read>(&mut self, entry: &mut tar::Entry<'_, R>) -> Result<bool, ArchiveError> {
        let kind = entry.header().entry_type();
        if !matches!(
            kind,
            EntryType::GNULongName | EntryType::GNULongLink | EntryType::XHeader | EntryType::XGlobalHeader
        ) {
            return Ok(false);
        }
        self.bytes = self.bytes.saturating_add(entry.size());
        if self.bytes > EXTENSION_HEADER_BYTES_MAX {
            return refused(format!(
                "the extension headers of an entry have more than {EXTENSION_HEADER_BYTES_MAX} bytes"
            ));
        }
        let mut data = Vec::new();
        entry.read_to_end(&mut data)?;
        if data.len() as u64 != entry.size() {
            return refused("unexpected EOF in entry \"extension header\"".to_owned());
        }
        match kind {
            EntryType::GNULongName => set(&mut self.path, without_nul(data))?,
            EntryType::GNULongLink => set(&mut self.link, without_nul(data))?,
            _ => self.records(&data, kind == EntryType::XGlobalHeader)?,
        }
        Ok(true)
    }

    fn records(&mut self, data: &[u8], global: bool) -> Result<(), ArchiveError> {
        for record in PaxExtensions::new(data) {
            let record = record.map_err(|_| malformed_extension())?;
            let (key, value) = (record.key_bytes(), record.value_bytes());
            if key.starts_with(b"GNU.sparse.") {
                return refused(
                    "refusing entry \"extension header\": sparse files are not supported".to_owned(),
                );
            }
            // Readers differ on how long a global record holds; those that matter are refused there.
            let matters = matches!(key, b"path" | b"linkpath" | b"size");
            if global && matters {
                return Err(malformed_extension());
            }
            match key {
                b"path" => set(&mut self.path, value.to_vec())?,
                b"linkpath" => set(&mut self.link, value.to_vec())?,
                b"size" => {
                    let size = str::from_utf8(value).ok().and_then(|text| text.parse().ok());
                    self.size = Some(size.ok_or_else(malformed_extension)?);
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// A value may be given twice (GNU and PAX form) only if it is the same.
fn set(slot: &mut Option<Vec<u8>>, value: Vec<u8>) -> Result<(), ArchiveError> {
    if slot.as_ref().is_some_and(|earlier| *earlier != value) {
        return Err(malformed_extension());
    }
    *slot = Some(value);
    Ok(())
}

fn without_nul(mut data: Vec<u8>) -> Vec<u8> {
    if let Some(end) = data.iter().position(|byte| *byte == 0) {
        data.truncate(end);
    }
    data
}
