//! Versions, releases, version constraints and skip ranges.
