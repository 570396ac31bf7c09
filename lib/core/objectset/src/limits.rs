//! Limits on the content of a revision.

/// Most bytes of data in one Secret: the API accepts 1 MiB for the whole object, names and encoding included.
pub const SECRET_DATA_BYTES_MAX: usize = 900 << 10;

/// Largest object after decompression. The API server itself refuses requests above 3 MiB.
pub const OBJECT_BYTES_MAX: u64 = 10 << 20;

/// Most Secrets that one Helm release is split over: operator-controller writes no more.
pub const RELEASE_CHUNKS_MAX: usize = 11;

/// Most bytes of a Helm release after decompression. It holds the rendered objects twice; the largest real
/// bundle renders to less than 10 MB, and a Secret's worth of compressed zeros would expand to 1 GB.
pub const RELEASE_BYTES_MAX: u64 = 64 << 20;

/// Most objects of a Helm release: what a ClusterObjectSet can hold, 20 phases of 1,000 objects.
pub const RELEASE_OBJECTS_MAX: usize = 20_000;
