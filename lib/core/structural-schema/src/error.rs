//! Why a schema cannot be used to validate objects.

use thiserror::Error;

/// Why a schema cannot be used to validate objects.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SchemaError {
    /// The definition has no such version.
    #[error("custom resource definition {name:?} has no version {version:?}")]
    NoVersion {
        /// Name of the definition.
        name: String,
        /// The version asked for.
        version: String,
    },
    /// The schema has a member that structural schemas must not have.
    #[error("the schema is not structural: {at} has {member}, which the API server refuses")]
    NotStructural {
        /// Path of the schema with the member.
        at: String,
        /// The member.
        member: &'static str,
    },
    /// A member has another JSON type than the API prescribes.
    #[error("the schema is malformed: {member} of {at} must be {expected}")]
    Malformed {
        /// Path of the schema with the member.
        at: String,
        /// The member.
        member: &'static str,
        /// What the API prescribes, with an article.
        expected: &'static str,
    },
    /// Schemas are nested too deeply.
    #[error("the schema is too large to be read: it has more than {limit} levels")]
    TooDeep {
        /// The limit.
        limit: usize,
    },
}
