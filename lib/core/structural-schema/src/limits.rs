//! Limits on schemas, rules and objects, which come from bundles and from the cluster.

/// Deepest nesting of schemas within schemas that is read. JSON readers stop at 128 levels of JSON, which
/// is at most 64 of schema; the deepest real definitions have about 25.
pub const SCHEMA_DEPTH_MAX: usize = 128;

/// Most steps for the rules of one object. The API server's budget is 1,000,000 of its own units for a rule,
/// and a step here costs it about one; real objects take a few thousand for all of their rules.
pub const OBJECT_STEPS_MAX: u64 = 1_000_000;

/// Most steps for everything but the rules of one object: a step for each value and each schema that it is compared
/// with. Real objects take a few thousand.
pub const VALIDATION_STEPS_MAX: u64 = 5_000_000;

/// Most values that defaults add to one object. A default of a list's elements is added once for each.
pub const DEFAULTS_MAX: usize = 200_000;

/// Most unknown fields that are noted of one object; with more it is undecided.
pub const DROPPED_MAX: usize = 1_000;

/// Longest place that is noted, in bytes; longer ones are cut.
pub const PATH_BYTES_MAX: usize = 1024;

/// Most violations that are kept of one object; the first ones tell what is wrong.
pub const VIOLATIONS_MAX: usize = 20;
