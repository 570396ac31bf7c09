//! Limits of explanations and paths.

/// Bundles named in a summary of rejected candidates, for people who read a condition. The command line has the
/// full list.
pub const SUMMARY_BUNDLES_MAX: usize = 5;
/// Most comparisons of a bundle with a channel entry when a path is looked for: each may take a microsecond.
pub(crate) const PATH_COMPARISONS_MAX: usize = 100_000_000;
