//! The budget of evaluated expressions.

use std::cell::Cell;

use olm_cel::{Budget, Stop};

use crate::{
    RequirementError,
    limits::{EVALUATIONS_STEPS_MAX, EXPRESSION_STEPS_MAX},
};

/// Steps that the expressions of one resolution may still take together, however many there are and for however many
/// bundles they are evaluated.
#[derive(Debug)]
pub struct Work {
    steps: Cell<u64>,
    is_exhausted: Cell<bool>,
}

impl Default for Work {
    fn default() -> Self {
        Self::of(EVALUATIONS_STEPS_MAX)
    }
}

impl Work {
    pub(crate) fn of(steps: u64) -> Self {
        Self { steps: Cell::new(steps), is_exhausted: Cell::new(false) }
    }

    /// A share of as much work as there is for a resolution, for each of so many.
    pub fn shares(count: usize) -> Vec<Self> {
        let share = EVALUATIONS_STEPS_MAX / u64::try_from(count).unwrap_or(u64::MAX).max(1);
        std::iter::repeat_with(|| Self::of(share)).take(count).collect()
    }

    /// Fails if an expression could not be evaluated because the others had taken too much; what was found then means
    /// nothing.
    ///
    /// # Errors
    /// [`RequirementError::EvaluationCost`]
    pub fn check(&self) -> Result<(), RequirementError> {
        if self.is_exhausted.get() { Err(RequirementError::EvaluationCost) } else { Ok(()) }
    }

    /// Evaluates one expression; one that fails or takes too much is as good as false.
    pub(crate) fn evaluate(&self, expression: impl FnOnce(&mut Budget) -> Result<bool, Stop>) -> bool {
        let left = self.steps.get();
        let given = left.min(EXPRESSION_STEPS_MAX);
        let mut budget = Budget::new(given);
        let value = expression(&mut budget);
        self.steps.set(left - given + budget.left());
        if given < EXPRESSION_STEPS_MAX && value == Err(Stop::Exhausted) {
            self.is_exhausted.set(true);
        }
        value == Ok(true)
    }
}
