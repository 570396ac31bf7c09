//! Why two definitions could not be compared.

use thiserror::Error;

/// Why two definitions could not be compared.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CrdError {
    /// A member has another JSON type than the API prescribes.
    #[error("custom resource definition {name:?} is malformed: {at} must be {expected}")]
    Malformed {
        /// Name of the definition, empty if that is what is missing.
        name: String,
        /// The member, as a path from the definition's root.
        at: String,
        /// What the API prescribes, with an article.
        expected: &'static str,
    },
    /// A limit of this crate is exceeded.
    #[error(
        "custom resource definition {name:?} is too large to be compared: {at} has more than {limit} {unit}"
    )]
    TooLarge {
        /// Name of the definition.
        name: String,
        /// The member that is too large.
        at: String,
        /// The limit.
        limit: usize,
        /// What is counted.
        unit: &'static str,
    },
}

/// A member of a schema that has the wrong JSON type; the place is added where it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Misfit {
    pub(crate) member: String,
    pub(crate) expected: &'static str,
}

impl Misfit {
    pub(crate) fn new(member: impl Into<String>, expected: &'static str) -> Self {
        Self { member: member.into(), expected }
    }
}
