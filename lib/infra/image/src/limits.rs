//! Limits on what comes from registries and images. Exceeding one is a typed error, never a truncation.
//!
//! The sizes an image may have are fields of [`Limits`], so that tests can lower them; [`Limits::default`] is
//! what is in force.

use std::time::Duration;

/// Largest manifest or index in bytes. Registries cap at 4 MiB; so do other clients.
pub const MANIFEST_BYTES_MAX: u64 = 4 << 20;
/// Largest image config in bytes: labels and history, a few kilobytes in practice.
pub const CONFIG_BYTES_MAX: u64 = 4 << 20;
/// Bytes of a blob that are uploaded in one request. Larger blobs are uploaded in parts of this size, from a file.
pub const UPLOAD_BYTES: u64 = 8 << 20;
/// Largest part of an upload in bytes, which is held in memory, whatever the least is that a registry wants.
pub const UPLOAD_BYTES_MAX: u64 = 64 << 20;
/// Manifests and indexes of a copied image, over all its platforms.
pub const MANIFESTS_MAX: usize = 256;
/// Bytes of the manifests and indexes of a copied image, which are held in memory.
pub const MANIFESTS_BYTES_MAX: u64 = 16 << 20;
/// Blobs of a copied image, over all its platforms.
pub const BLOBS_MAX: usize = 4096;
/// Largest answer of a token endpoint in bytes. Tokens are some kilobytes.
pub const TOKEN_BYTES_MAX: u64 = 1 << 20;
/// How much of a registry's error answer is read, in bytes, to find its error codes.
pub const ERROR_BODY_BYTES_MAX: u64 = 16 << 10;
/// Longest text of a registry that is repeated in an error, in characters: it ends in conditions.
pub const REMOTE_MESSAGE_CHARS_MAX: usize = 256;
/// Largest registries configuration file in bytes.
pub const REGISTRIES_CONF_BYTES_MAX: u64 = 4 << 20;
/// Largest signature policy file in bytes.
pub const POLICY_BYTES_MAX: u64 = 4 << 20;
/// Largest docker configuration (pull secret) in bytes; a Secret holds 1 MiB.
pub const DOCKER_CONFIG_BYTES_MAX: usize = 4 << 20;
/// Largest CA or client certificate file in bytes; a system's whole bundle has about 250 KB.
pub const CERTIFICATE_BYTES_MAX: u64 = 4 << 20;
/// Registries whose HTTP clients are kept, with their connections.
pub const CLIENTS_MAX: usize = 64;
/// Most redirects followed for one request.
pub const REDIRECTS_MAX: usize = 5;
/// Bytes of an image's layers, and again of its wanted files, that stay in memory before the spool becomes a file. The
/// layers of nearly all bundles fit.
pub const SPOOL_MEMORY_BYTES_MAX: usize = 1 << 20;
/// Chunks of a blob in flight between the network and the spool. The HTTP client reads up to some 400 KiB at
/// once when the line is fast.
pub const BLOB_CHUNKS_IN_FLIGHT: usize = 4;
/// Largest window a zstd layer may ask for, as a power of two (32 MiB): it is memory we must hold. The levels
/// that image builders use need at most 8 MiB.
pub const ZSTD_WINDOW_LOG_MAX: u32 = 25;
/// Most links followed to find the file a link means.
pub const LINK_HOPS_MAX: usize = 32;
/// Bytes of the extension headers (long names, PAX records) before one entry of an archive.
pub const EXTENSION_HEADER_BYTES_MAX: u64 = 64 << 10;
/// Bytes that may come out of a layer before its compression ratio counts: small files of zeros are legal.
pub const RATIO_GRACE_BYTES: u64 = 64 << 20;

/// What an image may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Layers of an image. Container runtimes refuse more than 127.
    pub layers_max: usize,
    /// Compressed bytes of one layer.
    pub layer_bytes_max: u64,
    /// Bytes that may come out of all layers of an image, wanted or not.
    pub uncompressed_bytes_max: u64,
    /// Entries of all layers, wanted or not. A distribution's base image has up to 100,000.
    pub entries_max: u64,
    /// Wanted entries that are remembered; each costs memory.
    pub kept_entries_max: usize,
    /// Bytes of the paths and link targets of wanted entries, and again of the folders they imply.
    pub kept_path_bytes_max: usize,
    /// Entries looked at to apply whiteouts, and components to follow links: work that a small archive can ask
    /// for again and again.
    pub tree_steps_max: u64,
    /// Bytes of one path or link target.
    pub path_bytes_max: usize,
    /// Components of one path.
    pub path_depth_max: usize,
    /// Bytes of one wanted file. The largest real catalogs are single files of 132 MB.
    pub file_bytes_max: u64,
    /// Bytes of all wanted files, those reached by links counted each time.
    pub total_bytes_max: u64,
    /// How many times larger than its compressed form a layer may be. Catalogs reach 30.
    pub compression_ratio_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            layers_max: 128,
            layer_bytes_max: 4 << 30,
            uncompressed_bytes_max: 16 << 30,
            entries_max: 1_000_000,
            kept_entries_max: 100_000,
            kept_path_bytes_max: 16 << 20,
            tree_steps_max: 5_000_000,
            path_bytes_max: 1024,
            path_depth_max: 64,
            file_bytes_max: 1 << 30,
            total_bytes_max: 2 << 30,
            compression_ratio_max: 250,
        }
    }
}

/// How much of pulls may run at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Concurrency {
    /// Pulls from one registry (host with port), requests for tags and manifests included.
    pub per_host: usize,
    /// Layers of all registries that are received, and images that are unpacked. Each holds a few chunks and a decoder,
    /// about 1 MB; unpacking zstd, which may need a window of 32 MiB, counts eight times.
    pub unpacking: usize,
}

impl Default for Concurrency {
    fn default() -> Self {
        Self { per_host: 2, unpacking: 64 }
    }
}

/// What a registry has to send at least, so that a pull goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeastSpeed {
    /// Bytes a second on average.
    pub bytes_per_second: u64,
    /// The time over which the average is taken.
    pub over: Duration,
    /// Time at the beginning of a pull that is not measured.
    pub after: Duration,
}

impl Default for LeastSpeed {
    fn default() -> Self {
        Self { bytes_per_second: 10 << 10, over: Duration::from_secs(30), after: Duration::from_mins(1) }
    }
}

/// How long to wait for a registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Until a connection is made, TLS included.
    pub connect: Duration,
    /// Between two reads of an answer.
    pub read: Duration,
    /// For an answer of some kilobytes as a whole: a manifest, a token, an error.
    pub answer: Duration,
    /// What is to arrive of an image's config and layers.
    pub least_speed: LeastSpeed,
    /// For a resolution or pull as a whole, once it has its place, whatever its speed. The largest real catalogs took
    /// 14 minutes on slow lines.
    pub total: Duration,
    /// Times a request that failed for a reason that passes (429, 5xx, connection) is made again.
    pub retries: u32,
    /// Wait before the first retry; doubles each time.
    pub backoff: Duration,
    /// Longest wait that a registry's Retry-After is heeded for.
    pub backoff_max: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            read: Duration::from_secs(30),
            answer: Duration::from_mins(1),
            least_speed: LeastSpeed::default(),
            total: Duration::from_mins(30),
            retries: 3,
            backoff: Duration::from_millis(250),
            backoff_max: Duration::from_secs(10),
        }
    }
}
