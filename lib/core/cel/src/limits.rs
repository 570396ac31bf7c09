//! Limits on expressions, which come from bundles and from the cluster.

/// Longest expression, in bytes, that is parsed; the longest real ones have about 2,000.
pub const RULE_BYTES_MAX: usize = 32 * 1024;

/// Deepest nesting of an expression. Evaluation is recursive, and a level costs it about a kilobyte of stack.
pub const RULE_DEPTH_MAX: usize = 128;

/// Most bytes that the program of one regular expression may take; beyond it the pattern counts as not understood.
pub const PATTERN_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Most bytes that the programs of all regular expressions of one schema, or of one evaluation, may take. Beyond it
/// no more patterns are understood. The largest real schemas take about 3 MiB.
pub const PATTERNS_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Least bytes that a program counts for. Most patterns of real schemas are smaller.
pub(crate) const SMALL_PATTERN_BYTES: usize = 16 * 1024;

/// Bytes that the states found while matching may take, for each pattern; beyond it matching becomes slower.
pub(crate) const STATES_BYTES_MAX: usize = 64 * 1024;

/// Bytes of a compiled program that cost as much as a step: a program of 16 KiB takes about 50 µs.
pub(crate) const PROGRAM_BYTES_PER_STEP: usize = 16;

/// Bytes of text that cost as much as a step, where they are copied or compared.
pub(crate) const TEXT_BYTES_PER_STEP: usize = 10;

/// Longest text that is read as a duration; each look at it reads it again.
pub(crate) const DURATION_BYTES_MAX: usize = 128;
