//! A part of a plan that may not be known.

use serde::Serialize;

/// A part of a plan, or the reason why it is not known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Section<T> {
    /// The part.
    Known(T),
    /// The part could not be found out.
    Unknown {
        /// Why, as a sentence without its end.
        why: String,
    },
}

impl<T> Section<T> {
    /// A part that could not be found out.
    pub fn unknown(why: impl Into<String>) -> Self {
        Self::Unknown { why: why.into() }
    }

    /// The part, if it is known.
    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known(content) => Some(content),
            Self::Unknown { .. } => None,
        }
    }
}
