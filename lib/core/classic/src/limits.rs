//! Limits on catalogs. Catalogs come from registries and servers, and are not trusted.

/// Most memory that the names and edges of a catalog may take, in bytes, as reckoned. The largest known catalog (332 packages,
/// 7,000 bundles) takes 2 MB.
pub const GRAPH_BYTES_MAX: usize = 32 << 20;
/// Most memory that a snapshot may take, in bytes, as reckoned: the graph, and what resolution needs of each bundle.
pub const SNAPSHOT_BYTES_MAX: usize = 64 << 20;
/// Memory that is reckoned for a value beside its text, in bytes.
pub(crate) const VALUE_BYTES: usize = 48;
/// Memory that is reckoned for an entry of a channel or a bundle beside its texts, in bytes.
pub(crate) const ENTRY_BYTES: usize = 256;
/// Largest icon of a package that goes into the ClusterServiceVersion of an answer, in bytes of base64.
pub const ICON_BYTES_MAX: usize = 4 << 20;
/// Steps that the resolution of a namespace may take: looks at candidates, expressions, conclusions. A fifth of a second.
pub const RESOLUTION_STEPS_MAX: u64 = 20_000_000;
/// Steps that each Subscription may take, however many the others have taken. Real ones take some ten thousand.
pub(crate) const RESOLUTION_STEPS_MIN: u64 = 200_000;
/// Candidates of a Subscription of which it is said what became of them. Each that could be chosen takes a search.
pub const CANDIDATES_MAX: usize = 30;
/// Longest text of a conflict that is shown, in bytes.
pub const CONFLICT_BYTES_MAX: usize = 32 << 10;
/// Longest sentence about a conflict, in characters.
pub(crate) const EXPLANATION_CHARACTERS_MAX: usize = 1_000;
