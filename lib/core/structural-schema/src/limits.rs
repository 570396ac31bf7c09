//! Limits on schemas, rules and objects, which come from bundles and from the cluster.

/// Deepest nesting of schemas within schemas that is read. JSON readers stop at 128 levels of JSON, which
/// is at most 64 of schema; the deepest real definitions have about 25.
pub const SCHEMA_DEPTH_MAX: usize = 128;

/// Longest validation rule, in bytes, that is parsed; the longest real ones have about 2,000.
pub const RULE_BYTES_MAX: usize = 32 * 1024;

/// Deepest nesting of a validation rule's expression. Evaluation is recursive, and a level costs it about a
/// kilobyte of stack.
pub const RULE_DEPTH_MAX: usize = 128;

/// Most steps for the rules of one object. The API server's budget is 1,000,000 of its own units for a rule,
/// and a step here costs it about one; real objects take a few thousand for all of their rules.
pub const OBJECT_STEPS_MAX: u64 = 1_000_000;

/// Most bytes a regular expression's program may take; beyond it the pattern counts as not understood.
pub const PATTERN_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Most violations that are kept of one object; the first ones tell what is wrong.
pub const VIOLATIONS_MAX: usize = 20;
