//! What is found out about an object.

use std::fmt::Write;

use crate::limits::{DROPPED_MAX, PATH_BYTES_MAX, VIOLATIONS_MAX};

/// The answer to a question that cannot always be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Truth {
    Yes,
    No,
    Undecided,
}

impl From<bool> for Truth {
    fn from(truth: bool) -> Self {
        if truth { Self::Yes } else { Self::No }
    }
}

/// What the API server would say to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// It is accepted.
    Valid,
    /// It is refused.
    Invalid,
    /// Not all of the schema is understood, and what is understood refuses nothing.
    Undecided,
}

/// A place of an object, and what is the matter there. Values of the object are never quoted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Note {
    /// The place, as `spec.items[0].name`; empty for the whole object.
    pub path: String,
    /// What is the matter: a rule of the schema that is broken, or that is not understood.
    pub text: String,
}

/// What is found out about an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Judgement {
    /// What the API server would refuse, at most [`VIOLATIONS_MAX`].
    pub violations: Vec<Note>,
    /// What of the schema could not be evaluated.
    pub undecided: Vec<Note>,
    /// Fields that the schema does not have, which the API server drops.
    pub dropped: Vec<String>,
    /// Rules that compare an object with the one before a change: they do not apply to stored objects.
    pub transition_rules: usize,
}

impl Judgement {
    /// The verdict that follows.
    pub fn verdict(&self) -> Verdict {
        if !self.violations.is_empty() {
            Verdict::Invalid
        } else if self.undecided.is_empty() {
            Verdict::Valid
        } else {
            Verdict::Undecided
        }
    }

    pub(crate) fn violate(&mut self, path: &str, text: impl Into<String>) {
        if self.violations.len() < VIOLATIONS_MAX {
            self.violations.push(Note { path: cut(path), text: text.into() });
        }
    }

    pub(crate) fn doubt(&mut self, path: &str, text: impl Into<String>) {
        if self.undecided.len() < VIOLATIONS_MAX {
            self.undecided.push(Note { path: cut(path), text: text.into() });
        }
    }

    pub(crate) fn drop_field(&mut self, path: &str) {
        if self.dropped.len() < DROPPED_MAX {
            self.dropped.push(cut(path));
        } else if self.dropped.len() == DROPPED_MAX {
            // Once: the sign of it is that there is one more.
            self.dropped.push(cut(path));
            self.doubt("", format!("more than {DROPPED_MAX} fields are unknown to the schema"));
        }
    }

    pub(crate) fn add(&mut self, other: Self) {
        for note in other.violations {
            self.violate(&note.path, note.text);
        }
        for note in other.undecided {
            self.doubt(&note.path, note.text);
        }
        self.transition_rules += other.transition_rules;
    }
}

/// A place that is short enough to be shown.
fn cut(path: &str) -> String {
    match path.get(..path.floor_char_boundary(PATH_BYTES_MAX)) {
        Some(start) if start.len() < path.len() => format!("{start}…"),
        _ => path.to_owned(),
    }
}

/// The place in an object, while it is walked.
#[derive(Debug, Default)]
pub(crate) struct Path(String);

impl Path {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Does something at a field below.
    pub(crate) fn field<T>(&mut self, name: &str, walk: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.0.len();
        if length > 0 {
            self.0.push('.');
        }
        self.0.push_str(name);
        let result = walk(self);
        self.0.truncate(length);
        result
    }

    /// Does something at an element below.
    pub(crate) fn element<T>(&mut self, index: usize, walk: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.0.len();
        // Writing to a string cannot fail.
        let _ = write!(self.0, "[{index}]");
        let result = walk(self);
        self.0.truncate(length);
        result
    }
}
