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

/// Bytes of memory for the values of a text of any length, and for each byte of it. Real documents take 3 to 8 times
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
/// Most blanks put into a text, beside as many as it has bytes.
pub(crate) const PADDING_BYTES_MAX: usize = 4 << 20;

/// Limits of a text. [`Limits::default`] is made for catalogs; callers with smaller inputs pass less.
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

/// The costs of a document that are limited.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Cost {
    nodes: usize,
    /// Of scalars and keys.
    bytes: usize,
    memory: usize,
}

impl Cost {
    /// That of a scalar or key of `bytes`.
    pub(crate) fn scalar(bytes: usize) -> Self {
        Self { nodes: 1, bytes, memory: bytes.saturating_add(NODE_MEMORY) }
    }

    /// That of an empty list.
    pub(crate) fn list() -> Self {
        Self::scalar(0)
    }

    /// That of an empty mapping.
    pub(crate) fn mapping() -> Self {
        Self { nodes: 1, bytes: 0, memory: NODE_MEMORY + MAPPING_MEMORY }
    }

    /// The cost beyond that of `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            nodes: self.nodes.saturating_sub(before.nodes),
            bytes: self.bytes.saturating_sub(before.bytes),
            memory: self.memory.saturating_sub(before.memory),
        }
    }
}

/// Counts the costs of a document.
pub(crate) struct Meter<'l> {
    pub(crate) limits: &'l Limits,
    memory_max: usize,
    pub(crate) cost: Cost,
}

impl<'l> Meter<'l> {
    /// For a document of a text of `text_bytes`: memory grows with the text, however dense that is.
    pub(crate) fn new(limits: &'l Limits, text_bytes: usize) -> Self {
        let memory_max = text_bytes.saturating_mul(MEMORY_PER_BYTE).saturating_add(MEMORY_OF_ANY_TEXT);
        Self { limits, memory_max, cost: Cost::default() }
    }

    /// Adds to the cost.
    ///
    /// # Errors
    /// The name and the value of the limit that is exceeded.
    pub(crate) fn add(&mut self, more: Cost) -> Result<(), (&'static str, usize)> {
        let cost = &mut self.cost;
        cost.nodes = cost.nodes.saturating_add(more.nodes);
        cost.bytes = cost.bytes.saturating_add(more.bytes);
        cost.memory = cost.memory.saturating_add(more.memory);
        for (counted, limit, what) in [
            (cost.nodes, self.limits.nodes, "nodes"),
            (cost.bytes, self.limits.expanded_bytes, "bytes of scalars"),
            (cost.memory, self.memory_max, "bytes of memory"),
        ] {
            if counted > limit {
                return Err((what, limit));
            }
        }
        Ok(())
    }
}
