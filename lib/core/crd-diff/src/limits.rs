//! Limits on definitions, which come from bundles and from the cluster.

/// Deepest nesting of schemas within schemas that is followed. JSON readers stop at 128 levels of
/// JSON, which is at most 64 of schema; the deepest real definitions have about 25.
pub const SCHEMA_DEPTH_MAX: usize = 128;

/// Most versions of one definition. Served versions are compared in pairs, so work grows with the
/// square; real definitions have at most a dozen.
pub const VERSIONS_MAX: usize = 64;

/// Most changes that can be accepted one by one. They stand in an annotation; an upgrade that needs more of
/// them is not one whose every change somebody has looked at.
pub const ALLOWANCES_MAX: usize = 200;
