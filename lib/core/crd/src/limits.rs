//! Limits on definitions and objects, which come from bundles and from the cluster.

/// Deepest nesting of schemas within schemas. JSON readers stop at 128 levels of JSON, which is at most 64 of
/// schema; the deepest real definitions have about 25.
pub(crate) const SCHEMA_DEPTH_MAX: usize = 128;

/// Most versions of one definition. Served versions are compared in pairs, so work grows with the square; real
/// definitions have at most a dozen.
pub(crate) const VERSIONS_MAX: usize = 64;

/// Most changes that an annotation can accept one by one. An upgrade that needs more of them is not one whose
/// every change an administrator has reviewed.
pub(crate) const ALLOWANCES_MAX: usize = 200;

/// Most fields that the text of one finding names; the others are counted.
pub(crate) const FIELDS_SHOWN_MAX: usize = 8;

/// Longest value in the text of a finding, in characters; longer ones are cut.
pub(crate) const VALUE_CHARS_MAX: usize = 80;

/// Most steps for the rules of one object. The API server's budget is 1,000,000 of its own units for a rule,
/// and a step here costs it about one; real objects take a few thousand for all of their rules.
pub const OBJECT_STEPS_MAX: u64 = 1_000_000;

/// Most steps for everything but the rules of one object: a step for each value and each schema that it is compared
/// with. Real objects take a few thousand.
pub(crate) const VALIDATION_STEPS_MAX: u64 = 5_000_000;

/// Most values that defaults add to one object. A default of a list's elements is added once for each.
pub(crate) const DEFAULTS_MAX: usize = 200_000;

/// Most unknown fields that are noted of one object; with more it is undecided.
pub(crate) const DROPPED_MAX: usize = 1_000;

/// Longest path in a note, in bytes; longer ones are cut.
pub(crate) const PATH_BYTES_MAX: usize = 1024;

/// Most violations that are reported of one object; the first ones are enough for a remedy.
pub(crate) const VIOLATIONS_MAX: usize = 20;
