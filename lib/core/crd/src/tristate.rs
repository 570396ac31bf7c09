//! Answers of checks that do not understand everything.

/// The answer to a question that cannot always be decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tristate {
    /// Certainly yes.
    Yes,
    /// Certainly no.
    No,
    /// Neither is certain.
    Undecided,
}

impl From<bool> for Tristate {
    fn from(answer: bool) -> Self {
        if answer { Self::Yes } else { Self::No }
    }
}
