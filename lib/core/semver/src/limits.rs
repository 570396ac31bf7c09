//! Limits on texts that come from users and catalogs.

/// Longest constraint, in bytes: the limit of Masterminds/semver. The CRD admits 64.
pub const CONSTRAINT_BYTES_MAX: usize = 512;

/// Most groups joined by `||` in a constraint: the limit of Masterminds/semver.
pub(crate) const CONSTRAINT_GROUPS_MAX: usize = 32;

/// Longest operand of a constraint, in bytes, after partial versions are filled up: the limit of
/// Masterminds/semver on versions.
pub(crate) const OPERAND_BYTES_MAX: usize = 256;

/// Longest release, in bytes: the limit of the ClusterServiceVersion's CRD.
pub const RELEASE_BYTES_MAX: usize = 20;

/// Longest skip range, in bytes. blang/semver has no limit; the longest seen in public catalogs has under
/// 200, and each byte costs work in every resolution of the package.
pub(crate) const SKIP_RANGE_BYTES_MAX: usize = 16 << 10;
