//! Limits of explanations.

/// Bundles named in a summary of rejected candidates, for people who read a condition. The command line has the
/// full list.
pub const SUMMARY_BUNDLES_MAX: usize = 5;
