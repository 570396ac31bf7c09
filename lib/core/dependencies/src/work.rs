//! The budget of evaluated expressions.

use std::cell::Cell;

use olm_cel::{Budget, Stop};

use crate::{
    RequirementError,
    limits::{COMPILED_EXPRESSIONS_STEPS_MAX, EVALUATIONS_STEPS_MAX, EXPRESSION_STEPS_MAX},
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
    /// Work of at most so many steps. A step takes some ten nanoseconds.
    pub fn of(steps: u64) -> Self {
        Self { steps: Cell::new(steps), is_exhausted: Cell::new(false) }
    }

    /// Steps that are left.
    pub fn left(&self) -> u64 {
        self.steps.get()
    }

    /// Takes steps for something else than expressions.
    ///
    /// # Errors
    /// [`RequirementError::EvaluationCost`]: there are not as many.
    pub fn spend(&self, steps: usize) -> Result<(), RequirementError> {
        let steps = u64::try_from(steps).unwrap_or(u64::MAX);
        let left = self.steps.get().checked_sub(steps);
        self.steps.set(left.unwrap_or_default());
        if left.is_none() {
            self.is_exhausted.set(true);
        }
        self.check()
    }

    /// Compiles expressions with a share of the steps.
    pub(crate) fn compile<T>(
        &self,
        compile: impl FnOnce(Budget) -> (Result<T, RequirementError>, Budget),
    ) -> Result<T, RequirementError> {
        let left = self.steps.get();
        let given = left.min(COMPILED_EXPRESSIONS_STEPS_MAX);
        let (compiled, budget) = compile(Budget::new(given));
        self.steps.set(left - given + budget.left());
        match compiled {
            Err(RequirementError::ExpressionCost) if given < COMPILED_EXPRESSIONS_STEPS_MAX => {
                self.is_exhausted.set(true);
                Err(RequirementError::EvaluationCost)
            }
            compiled => compiled,
        }
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
