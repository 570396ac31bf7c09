//! Limits on texts that come from users and catalogs.

/// Longest constraint, in bytes: the original library's limit. The CRD admits 64.
pub const CONSTRAINT_BYTES_MAX: usize = 512;

/// Most groups joined by `||` in a constraint: the original library's limit.
pub const CONSTRAINT_GROUPS_MAX: usize = 32;

/// Longest operand of a constraint, in bytes, after partial versions are filled up: the original library's
/// limit on versions.
pub const OPERAND_BYTES_MAX: usize = 256;

/// Longest release, in bytes: the limit of the ClusterServiceVersion's CRD.
pub const RELEASE_BYTES_MAX: usize = 20;

/// Longest skip range, in bytes. The original has no limit; the longest seen in public catalogs has under
/// 200, and each byte costs work in every resolution of the package.
pub const SKIP_RANGE_BYTES_MAX: usize = 16 << 10;
