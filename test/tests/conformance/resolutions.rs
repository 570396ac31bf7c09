//! x
pub(crate) fn check() {}
