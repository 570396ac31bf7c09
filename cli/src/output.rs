//! What people and scripts get to see: escaped text, or JSON.

use std::{fmt::Write as _, io::Write, process::ExitCode};

use clap::ValueEnum;
use serde::Serialize;

/// The form of a command's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    #[default]
    Text,
    /// One JSON document.
    Json,
}

/// Writes an answer in the form asked for; `text` is made only when it is wanted.
pub(crate) fn answer<T: Serialize>(
    out: &mut dyn Write,
    format: Format,
    value: &T,
    text: impl FnOnce(&T) -> String,
) -> anyhow::Result<()> {
    match format {
        Format::Text => writeln!(out, "{}", escaped(&text(value)))?,
        Format::Json => {
            serde_json::to_writer_pretty(&mut *out, value)?;
            writeln!(out)?;
        }
    }
    Ok(())
}

/// How a command ends that has more than one way to fail.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Exit {
    /// What the command looks for was found and has been told: exit code 1.
    #[error("found")]
    Found,
    /// What would change has been told: exit code 2, as scripts expect of a command that compares.
    #[error("differs")]
    Differs,
    /// The question could not be answered: exit code 2.
    #[error(transparent)]
    Failed(anyhow::Error),
}

impl Exit {
    pub(crate) fn found() -> Self {
        Self::Found
    }

    pub(crate) fn differs() -> Self {
        Self::Differs
    }

    pub(crate) fn failed(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }

    /// Whether nothing is left to be said.
    pub(crate) fn is_told(&self) -> bool {
        matches!(self, Self::Found | Self::Differs)
    }

    pub(crate) fn code(&self) -> ExitCode {
        match self {
            Self::Found => ExitCode::from(1),
            Self::Differs | Self::Failed(_) => ExitCode::from(2),
        }
    }
}

/// Manifests as YAML documents, safe for a terminal.
pub(crate) fn yaml_documents(manifests: &[serde_json::Value]) -> String {
    let documents = manifests.iter().map(|manifest| format!("---\n{}", olm_yaml::to_yaml(manifest)));
    escaped(&documents.collect::<String>())
}

/// Writes manifests as one JSON list, which kubectl applies as a whole.
pub(crate) fn json_list(out: &mut dyn Write, manifests: &[serde_json::Value]) -> anyhow::Result<()> {
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": manifests});
    serde_json::to_writer_pretty(&mut *out, &list)?;
    writeln!(out)?;
    Ok(())
}

/// Reports a failure on standard error.
pub(crate) fn error(error: &anyhow::Error) {
    // Nobody is left to be told if standard error is gone.
    let _ = writeln!(std::io::stderr(), "error: {}", escaped(&format!("{error:#}")));
}

/// Tells something on standard error that does not stop the command.
pub(crate) fn warning(text: &str) {
    // Nobody is left to be told if standard error is gone.
    let _ = writeln!(std::io::stderr(), "warning: {}", escaped(text));
}

/// Text from files and registries, safe for a terminal: control characters other than the line's end are
/// written out.
pub(crate) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() && character != '\n' {
            // Writing to a String cannot fail.
            let _ = write!(safe, "{}", character.escape_default());
        } else {
            safe.push(character);
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(escaped("a\u{1b}[2Jb\u{9b}c\nd"), "a\\u{1b}[2Jb\\u{9b}c\nd");
    }
}
