//! The error of versions, releases and ranges.

use thiserror::Error;

/// A text that is no version, release, constraint or skip range. Displays in the words of the Go libraries that upstream
/// parses it with, since conditions contain them: blang/semver v4 and Masterminds/semver v3, and operator-registry for
/// releases.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct ParseError(String);

impl ParseError {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}
