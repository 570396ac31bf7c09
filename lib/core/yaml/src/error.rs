//! Why a text could not be read.

use thiserror::Error;

/// A text that is not YAML (or JSON), or too large. Lines and columns count from 1.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum YamlError {
    /// The text breaks YAML's grammar.
    #[error("yaml: line {line}, column {column}: {message}")]
    Syntax {
        /// Line of the offending character.
        line: usize,
        /// Column of the offending character.
        column: usize,
        /// What is wrong, without the text itself.
        message: String,
    },
    /// The text is YAML, but has no JSON form (infinities, mappings as keys, merges of lists, ...).
    #[error("yaml: line {line}, column {column}: {message}")]
    Value {
        /// Line where the value begins.
        line: usize,
        /// Column where the value begins.
        column: usize,
        /// What is wrong, without the value itself.
        message: &'static str,
    },
    /// A stream that began as JSON breaks JSON's grammar.
    #[error("json: line {line}, column {column}: {message}")]
    Json {
        /// Line of the offending character.
        line: usize,
        /// Column of the offending character.
        column: usize,
        /// What is wrong.
        message: String,
    },
    /// Something other than a comment follows `---` on its line.
    #[error(
        "yaml: line {line}, column 4: invalid document separator: only a comment may follow \"---\" on its line"
    )]
    Separator {
        /// Line of the separator.
        line: usize,
    },
    /// The bytes are not UTF-8.
    #[error("yaml: line {line}, column {column}: not valid UTF-8")]
    NotUtf8 {
        /// Line of the first offending byte.
        line: usize,
        /// Column of the first offending byte, in bytes.
        column: usize,
    },
    /// The text is larger than the caller allows.
    #[error("yaml: line {line}: more than {limit} {what} in one text")]
    Limit {
        /// Line at which the limit was passed.
        line: usize,
        /// What is counted.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
}

impl YamlError {
    /// The line the error is about, counting from 1.
    #[must_use]
    pub fn line(&self) -> usize {
        *self.clone().line_mut()
    }

    /// The same error, for a text that begins `lines` further down.
    pub(crate) fn moved_down(mut self, lines: usize) -> Self {
        *self.line_mut() += lines;
        self
    }

    fn line_mut(&mut self) -> &mut usize {
        match self {
            Self::Syntax { line, .. }
            | Self::Value { line, .. }
            | Self::Json { line, .. }
            | Self::Separator { line }
            | Self::NotUtf8 { line, .. }
            | Self::Limit { line, .. } => line,
        }
    }
}
