//! How large a bundle may be, and how much memory rendering it may take.

use olm_yaml::Limits;

/// Most files of one bundle: the largest known bundle has 120.
pub(crate) const FILES_MAX: usize = 4_000;
/// Most bytes of all files of one bundle: real ones stay below 10 MB, etcd takes 1.5 MB an object.
pub(crate) const BUNDLE_BYTES_MAX: usize = 64 << 20;
/// Most objects of one bundle: the largest known one has 300.
pub(crate) const OBJECTS_MAX: usize = 10_000;
/// Most scalars, keys, lists and mappings in all files of one bundle, aliases expanded: the largest measured one,
/// argocd-operator 0.18.0, has 100,398 in 4.1 MB.
pub(crate) const NODES_MAX: usize = 500_000;
/// Most bytes of an annotation that is read as JSON. All annotations of an object together may have 256 KiB.
pub(crate) const ANNOTATION_BYTES_MAX: usize = 1 << 20;

/// Most memory that rendering one bundle may take, in bytes, its files included. The objects of argocd-operator
/// 0.18.0 take 16 MB, and there are [`COPIES`] of them for a moment.
pub const MEMORY_BYTES_MAX: usize = 128 << 20;
/// Memory that a bundle of any size is given, and what it is given for each byte of its files. Objects take 3 to 8
/// times the bytes of their files in real bundles.
const MEMORY_OF_ANY_BUNDLE: usize = 8 << 20;
const MEMORY_PER_BYTE: usize = 16;
/// How often the objects are in memory until a revision is written: as rendered, as prepared, as checked.
pub(crate) const COPIES: usize = 3;
/// Memory that is reckoned for a node of YAML while its document is read, in bytes: scalars take 32 to 60, a mapping of
/// one key with that key and its value some 700.
pub(crate) const NODE_BYTES: usize = 256;

/// The memory that rendering a bundle of `bytes` takes if it is like others, in bytes.
#[must_use]
pub fn usual_memory(bytes: usize) -> usize {
    bytes.saturating_mul(MEMORY_PER_BYTE).saturating_add(MEMORY_OF_ANY_BUNDLE).min(MEMORY_BYTES_MAX)
}

/// The limits of one document of a bundle that may have everything.
pub(crate) const DOCUMENT: Limits = Limits {
    bytes: BUNDLE_BYTES_MAX,
    documents: OBJECTS_MAX,
    // CRD schemas reach 60 levels; typed conversion recurses.
    depth: 200,
    nodes: NODES_MAX,
    expanded_bytes: BUNDLE_BYTES_MAX,
};

/// Unknown install modes that are kept, as texts repeat them for each conversion webhook.
pub(crate) const UNKNOWN_MODES_MAX: usize = 8;

/// Longest name of an unknown install mode that is kept.
pub(crate) const MODE_BYTES_MAX: usize = 63;
