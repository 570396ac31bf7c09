//! Limits on catalogs. Catalogs come from registries and are not trusted.

/// Largest document. The largest of the published catalogs has 2 MiB, icons and descriptions included.
pub const DOCUMENT_BYTES_MAX: usize = 16 << 20;
/// Deepest nesting of a document. `serde_json` refuses more than 128 when a line is read back.
pub const DOCUMENT_DEPTH_MAX: usize = 120;
/// Bytes asked for at once; documents larger than this grow the window.
pub const WINDOW_BYTES: usize = 512 << 10;
/// Most documents of one catalog, as each takes memory in the index. Large catalogs have 10,000.
pub const DOCUMENTS_MAX: usize = 500_000;
/// Most memory of a catalog's index, in bytes. What its documents, and their different schemas, packages and names take
/// is reckoned, not measured. The largest known catalog
/// (8,000 documents, 333 packages) takes 2 MB.
pub const INDEX_BYTES_MAX: usize = 32 << 20;
/// Memory that is reckoned for a document or record, for a different value beside its text, and for a place where a value
/// occurs, in bytes.
pub(crate) const INDEX_DOCUMENT_BYTES: usize = 16;
/// See [`INDEX_DOCUMENT_BYTES`].
pub(crate) const INDEX_VALUE_BYTES: usize = 112;
/// See [`INDEX_DOCUMENT_BYTES`].
pub(crate) const INDEX_PLACE_BYTES: usize = 8;
/// Longest `schema`, `package` or `name`, as the index holds them in memory.
pub const NAME_BYTES_MAX: usize = 1 << 10;
/// Largest `.indexignore` file that is read.
pub const IGNORE_FILE_BYTES_MAX: usize = 64 << 10;
/// Most patterns in all `.indexignore` files of a catalog; each is tried on each path.
pub const IGNORE_PATTERNS_MAX: usize = 1_000;
/// Most values in one YAML document, aliases expanded, and in one that is validated: each takes some 100 bytes of memory.
pub const DOCUMENT_NODES_MAX: usize = 1 << 20;
