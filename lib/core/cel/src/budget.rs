//! The costs of an evaluation.

use crate::{
    limits::{PROGRAM_BYTES_PER_STEP, TEXT_BYTES_PER_STEP},
    pattern::{Pattern, Patterns},
};

/// Why an expression has no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// Every implementation meets this error.
    Failed(&'static str),
    /// It uses a part of the language that is not implemented.
    Undecided(String),
    /// It takes more steps than the budget has.
    Exhausted,
}

impl Stop {
    /// An expression that uses `what`, which is not implemented.
    pub fn undecided(what: impl Into<String>) -> Self {
        Self::Undecided(what.into())
    }
}

/// Steps that are left, and the regular expressions that were made of computed texts.
#[derive(Debug)]
pub struct Budget {
    steps: u64,
    patterns: Patterns,
}

impl Budget {
    /// A budget of `steps`. A step takes some ten nanoseconds.
    pub fn new(steps: u64) -> Self {
        Self { steps, patterns: Patterns::default() }
    }

    /// Steps that are left.
    pub fn left(&self) -> u64 {
        self.steps
    }

    /// Takes `steps` from the budget.
    ///
    /// # Errors
    /// There are not as many; then none are left.
    pub fn spend(&mut self, steps: usize) -> Result<(), Stop> {
        let steps = u64::try_from(steps).unwrap_or(u64::MAX);
        let left = self.steps.checked_sub(steps);
        self.steps = left.unwrap_or_default();
        left.map(drop).ok_or(Stop::Exhausted)
    }

    /// Takes the cost of copying or comparing `bytes` of text.
    pub(crate) fn spend_text(&mut self, bytes: usize) -> Result<(), Stop> {
        self.spend(bytes / TEXT_BYTES_PER_STEP)
    }

    /// Whether `text` matches, which costs more the larger the pattern's program is.
    ///
    /// # Errors
    /// The budget is exhausted.
    pub fn matches(&mut self, pattern: &Pattern, text: &str) -> Result<bool, Stop> {
        self.spend(pattern.cost(text))?;
        Ok(pattern.is_match(text))
    }

    /// The pattern of a computed text. Making one is charged, and each is made once.
    pub(crate) fn pattern(&mut self, text: &str) -> Result<Pattern, Stop> {
        let before = self.patterns.bytes();
        let pattern = self.patterns.compile(text);
        let made = self.patterns.bytes().saturating_sub(before);
        self.spend(made / PROGRAM_BYTES_PER_STEP)?;
        pattern.ok_or_else(|| Stop::undecided("a regular expression of this form"))
    }
}
