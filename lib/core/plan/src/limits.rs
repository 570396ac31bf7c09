//! Limits of plans.

/// Changed fields of one object that are written out; the others are counted.
pub const FIELDS_SHOWN_MAX: usize = 20;
/// Characters of a value that are shown on one line. A certificate or a schema would fill the screen.
pub const VALUE_CHARACTERS_MAX: usize = 120;
/// Custom resources that are named for each CRD; the others are counted.
pub const NAMED_OBJECTS_MAX: usize = 20;
/// Bytes of a plan that is kept in the cluster, at most.
pub const RECORD_BYTES_MAX: usize = 256 << 10;
/// Entries in the lists of all rules that the operator's ServiceAccounts get, each counted for each of them. The largest real
/// operators come to about 5,000. Roles beyond it are named without their rules.
pub const PERMISSION_ENTRIES_MAX: usize = 200_000;
