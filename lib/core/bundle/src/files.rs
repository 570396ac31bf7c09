//! A bundle's files in memory.

use std::collections::BTreeMap;

/// The tree of a bundle: paths relative to its root (`manifests/csv.yaml`) and their content.
///
/// Paths are sorted, so the order in which files are added does not matter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BundleFiles {
    files: BTreeMap<String, Vec<u8>>,
}

impl BundleFiles {
    /// A bundle without files.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file or replaces the one at this path. A leading `/` or `./` is not part of the path.
    pub fn insert(&mut self, path: &str, content: impl Into<Vec<u8>>) {
        let path = path.trim_start_matches("./").trim_start_matches('/');
        self.files.insert(path.to_owned(), content.into());
    }

    /// The content of the file at `path`.
    pub fn get(&self, path: &str) -> Option<&[u8]> {
        self.files.get(path).map(Vec::as_slice)
    }

    /// Paths and contents in byte order of the paths.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.files.iter().map(|(path, content)| (path.as_str(), content.as_slice()))
    }

    /// How many files there are.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether there is no file.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The bytes of all files together.
    pub fn bytes(&self) -> usize {
        self.files.values().map(Vec::len).sum()
    }

    /// The files of one folder: the rest of their paths, and their contents.
    pub(crate) fn below<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = (&'a str, &'a [u8])> {
        self.files
            .range(folder.to_owned()..)
            .map_while(move |(path, content)| Some((path.strip_prefix(folder)?, content.as_slice())))
    }
}

impl<P: AsRef<str>, C: Into<Vec<u8>>> FromIterator<(P, C)> for BundleFiles {
    fn from_iter<I: IntoIterator<Item = (P, C)>>(files: I) -> Self {
        let mut bundle = Self::new();
        for (path, content) in files {
            bundle.insert(path.as_ref(), content);
        }
        bundle
    }
}
