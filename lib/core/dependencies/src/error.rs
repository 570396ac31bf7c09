//! Why a declared requirement cannot be understood.

use thiserror::Error;

use crate::limits::{CONSTRAINT_BYTES_MAX, EXPRESSION_BYTES_MAX, REQUIREMENTS_MAX};

/// Why a declared requirement cannot be understood. A bundle with such a requirement is not installed: what it
/// needs is not known.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RequirementError {
    /// There are too many.
    #[error("the bundle declares {0} requirements, at most {REQUIREMENTS_MAX} are read")]
    TooMany(usize),
    /// A property's value has the wrong form.
    #[error("property {property}: {cause}")]
    Malformed {
        /// Type of the property.
        property: &'static str,
        /// What is wrong.
        cause: String,
    },
    /// A constraint is too large. The limit and the text are those of operator-framework/api.
    #[error("olm.constraint value is greater than max constraint size {CONSTRAINT_BYTES_MAX} bytes")]
    ConstraintSize,
    /// An expression is too long.
    #[error("property olm.constraint: cel.rule has more than {EXPRESSION_BYTES_MAX} bytes")]
    ExpressionSize,
    /// An expression does not compile.
    #[error("property olm.constraint: cel.rule does not compile, only the bundle's author can fix it: {0}")]
    Expression(
        /// Why.
        String,
    ),
    /// An expression takes too long.
    #[error(
        "property olm.constraint: cel.rule takes too many steps: nest fewer loops, use smaller regular expressions, or add up fewer texts and lists"
    )]
    ExpressionCost,
    /// All expressions together take too long.
    #[error(
        "property olm.constraint: the cel.rule expressions take too many steps for the bundles that are installed: use fewer or simpler ones"
    )]
    EvaluationCost,
}
