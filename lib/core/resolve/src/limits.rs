//! Limits on what is told.

/// Bundles named in a summary of rejected candidates: what a person reads in a condition. The full list is the
/// command line's.
pub const SUMMARY_BUNDLES_MAX: usize = 5;
