//! The limits of a YAML or JSON text, and their defaults.

/// Largest text accepted: the largest known single-file catalog has 132 MB.
pub(crate) const TEXT_BYTES_MAX: usize = 256 << 20;
/// Most documents in one text: the largest known catalog has 8,000 blobs.
pub(crate) const DOCUMENTS_MAX: usize = 1 << 20;
/// Deepest nesting of one document: CRD schemas reach 60, and values are dropped recursively.
pub(crate) const DEPTH_MAX: usize = 240;
/// Most nodes of one document after alias expansion: a dense 40 MB document has about 3,000,000.
pub(crate) const NODES_MAX: usize = 8 << 20;
/// Most bytes of scalars and keys of one document after alias expansion.
pub(crate) const EXPANDED_BYTES_MAX: usize = 256 << 20;

/// Bytes of memory for what is read of a text of any length, and for each byte of it. Real documents take 3 to 8 times
/// their bytes; `[[],[]]` and `- a: 1` take a hundred times theirs.
pub(crate) const MEMORY_OF_ANY_TEXT: usize = 48 << 20;
pub(crate) const MEMORY_PER_BYTE: usize = 8;
/// Bytes of memory that a value or key takes beside its text, with the room that lists grow by.
pub(crate) const NODE_MEMORY: usize = 64;
/// Bytes of memory that a mapping takes, however few entries it has.
pub(crate) const MAPPING_MEMORY: usize = 632;

/// Most bytes of one input that are read again because quoted scalars were indented too little and had to be mended one
/// by one: 300 scalars of a 100 kB file.
pub(crate) const REPAIRED_BYTES_MAX: usize = 32 << 20;
/// Most blanks put into a text by one repair, beside as many as the text has bytes.
pub(crate) const PADDING_BYTES_MAX: usize = 4 << 20;
/// Most lines that are indented; each is remembered.
pub(crate) const REPAIRED_LINES_MAX: usize = 1 << 20;

/// What a text may cost. [`Limits::default`] is made for catalogs; callers with smaller inputs pass less.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the whole text.
    pub bytes: usize,
    /// Documents in the text.
    pub documents: usize,
    /// Nested lists and mappings in one document, after alias expansion.
    pub depth: usize,
    /// Scalars, lists and mappings of one document, after alias expansion.
    pub nodes: usize,
    /// Bytes of scalars and keys of one document, after alias expansion.
    pub expanded_bytes: usize,
}

/// Most memory for what is read of a text of `bytes`: it grows with the text, however dense that is.
pub(crate) fn memory_for(bytes: usize) -> usize {
    bytes.saturating_mul(MEMORY_PER_BYTE).saturating_add(MEMORY_OF_ANY_TEXT)
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bytes: TEXT_BYTES_MAX,
            documents: DOCUMENTS_MAX,
            depth: DEPTH_MAX,
            nodes: NODES_MAX,
            expanded_bytes: EXPANDED_BYTES_MAX,
        }
    }
}
