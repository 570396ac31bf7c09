//! A part of a plan that may not be known.

use serde::Serialize;

/// A part of a plan: what was found out, or why it was not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Section<T> {
    /// It was found out.
    Filled(T),
    /// It was not.
    NotFilled {
        /// Why, as a sentence without its end.
        why: String,
    },
}

impl<T> Section<T> {
    /// A part that was not found out.
    pub fn not_filled(why: impl Into<String>) -> Self {
        Self::NotFilled { why: why.into() }
    }

    /// What was found out, if anything.
    pub fn filled(&self) -> Option<&T> {
        match self {
            Self::Filled(content) => Some(content),
            Self::NotFilled { .. } => None,
        }
    }
}
