//! The result of validating an object.

use std::fmt::Write;

use crate::limits::{DROPPED_MAX, PATH_BYTES_MAX, VIOLATIONS_MAX};

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

/// A problem at a path of an object. Values of the object are never quoted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Note {
    /// The path, as `spec.items[0].name`; empty for the whole object.
    pub path: String,
    /// The part of the schema that the object violates, or that is not understood.
    pub text: String,
}

/// The result of validating an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Validation {
    /// The reasons for which the API server would reject the object; the first 20.
    pub violations: Vec<Note>,
    /// Parts of the schema that could not be evaluated.
    pub undecided: Vec<Note>,
    /// Fields that the schema does not have, which the API server drops.
    pub dropped: Vec<String>,
    /// Rules that compare an object with the one before a change: they do not apply to stored objects.
    pub transition_rules: usize,
}

impl Validation {
    /// Whether the API server would accept the object. It is undecided if only a part of the schema that is not
    /// understood could make the object invalid.
    pub fn is_valid(&self) -> Tristate {
        if !self.violations.is_empty() {
            Tristate::No
        } else if self.undecided.is_empty() {
            Tristate::Yes
        } else {
            Tristate::Undecided
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
            // Noted once: the list is then one longer than the limit.
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

/// A path that is short enough to be shown.
fn cut(path: &str) -> String {
    match path.get(..path.floor_char_boundary(PATH_BYTES_MAX)) {
        Some(start) if start.len() < path.len() => format!("{start}…"),
        _ => path.to_owned(),
    }
}

/// The path of the current value.
#[derive(Debug, Default)]
pub(crate) struct Path(String);

impl Path {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Calls `visit` with the path of a field.
    pub(crate) fn field<T>(&mut self, name: &str, visit: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.0.len();
        if length > 0 {
            self.0.push('.');
        }
        self.0.push_str(name);
        let result = visit(self);
        self.0.truncate(length);
        result
    }

    /// Calls `visit` with the path of an element.
    pub(crate) fn element<T>(&mut self, index: usize, visit: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.0.len();
        // Writing to a string cannot fail.
        let _ = write!(self.0, "[{index}]");
        let result = visit(self);
        self.0.truncate(length);
        result
    }
}
