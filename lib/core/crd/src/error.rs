//! Errors about definitions that cannot be read.

use thiserror::Error;

/// A definition that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CrdError {
    /// A member has another JSON type than the API prescribes.
    #[error("custom resource definition {name:?} is malformed: {at} must be {expected}")]
    Malformed {
        /// Name of the definition; empty if it has none.
        name: String,
        /// The member, as a path from the definition's root or in a schema of a version.
        at: String,
        /// The type that the API prescribes, with an article.
        expected: &'static str,
    },
    /// A schema has a member that structural schemas must not have.
    #[error(
        "custom resource definition {name:?} is not structural: {at} has {member}, which the API server rejects"
    )]
    NotStructural {
        /// Name of the definition.
        name: String,
        /// Path of the schema with the member.
        at: String,
        /// The member.
        member: &'static str,
    },
    /// The definition does not have the version.
    #[error("custom resource definition {name:?} has no version {version:?}")]
    NoVersion {
        /// Name of the definition.
        name: String,
        /// The version.
        version: String,
    },
    /// The definition exceeds a limit.
    #[error("custom resource definition {name:?} is too large: {at} has more than {limit} {unit}")]
    TooLarge {
        /// Name of the definition.
        name: String,
        /// The member that is too large.
        at: String,
        /// The limit.
        limit: usize,
        /// The things that are counted.
        unit: &'static str,
    },
}
