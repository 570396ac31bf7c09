//! Limits on what a revision may hold.

/// Most bytes of data in one Secret: the API accepts 1 MiB for the whole object, names and encoding included.
pub const SECRET_DATA_BYTES_MAX: usize = 900 << 10;

/// Largest object after decompression. The API server itself refuses requests above 3 MiB.
pub const OBJECT_BYTES_MAX: u64 = 10 << 20;
