//! Limits on what catalogs and bundles declare.

/// Requirements of one bundle. Real bundles have at most a dozen.
pub(crate) const REQUIREMENTS_MAX: usize = 256;
/// Size of an `olm.constraint` value, the limit of operator-framework/api.
pub const CONSTRAINT_BYTES_MAX: usize = 131_072;
/// Nesting of `all`, `any` and `not`. A person can follow three.
pub(crate) const CONSTRAINT_DEPTH_MAX: usize = 16;
/// Constraints within one `olm.constraint`, itself included.
pub(crate) const CONSTRAINTS_MAX: usize = 256;
/// Length of an expression. The longest published ones have 200 bytes.
pub(crate) const EXPRESSION_BYTES_MAX: usize = 4096;
/// Steps that one evaluation of an expression may take: a few milliseconds.
pub(crate) const EXPRESSION_STEPS_MAX: u64 = 200_000;
/// Steps that all evaluations of a resolution may take together: a fifth of a second. Published expressions take some
/// hundred for a bundle.
pub(crate) const EVALUATIONS_STEPS_MAX: u64 = 20_000_000;
/// Steps that the first evaluations of all expressions of a bundle may take together.
pub(crate) const COMPILED_EXPRESSIONS_STEPS_MAX: u64 = 2_000_000;
/// Length of a failure message that is shown, in bytes.
pub(crate) const FAILURE_MESSAGE_BYTES_MAX: usize = 256;
/// Packages named as providers of one requirement.
pub(crate) const PROVIDERS_MAX: usize = 5;
