//! Findings below findings, drawn as a tree.

use std::fmt;

use olm_text::one_line;

/// A finding, and those it is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorTree {
    /// What is wrong.
    pub message: String,
    /// More precisely.
    pub causes: Vec<ErrorTree>,
}

impl ErrorTree {
    pub(crate) fn leaf(message: impl Into<String>) -> Self {
        Self { message: message.into(), causes: Vec::new() }
    }

    /// `None` when there are no causes: then nothing is wrong.
    pub(crate) fn of(message: impl Into<String>, causes: Vec<Self>) -> Option<Self> {
        (!causes.is_empty()).then(|| Self { message: message.into(), causes })
    }

    /// Each finding on its own: the messages on the way to it, then its own.
    pub fn leaves(&self) -> Vec<Vec<&str>> {
        if self.causes.is_empty() {
            return vec![vec![&self.message]];
        }
        let below = self.causes.iter().flat_map(Self::leaves);
        below.map(|leaf| std::iter::once(self.message.as_str()).chain(leaf).collect()).collect()
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, indent: &str) -> fmt::Result {
        f.write_str(&one_line(&self.message))?;
        if self.causes.is_empty() {
            return Ok(());
        }
        f.write_str(":")?;
        for (index, cause) in self.causes.iter().enumerate() {
            let last = index + 1 == self.causes.len();
            write!(f, "\n{indent}{}", if last { "└── " } else { "├── " })?;
            cause.write(f, &format!("{indent}{}", if last { "    " } else { "│   " }))?;
        }
        Ok(())
    }
}

impl fmt::Display for ErrorTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, "")
    }
}
