//! Output for people and scripts: text that is safe for a terminal, JSON or YAML.

mod colour;
mod junit;
mod list;

use std::io::{self, Stdout, Write};

use clap::ValueEnum;
use olm_runtime::api_text;
use olm_text::{one_line, visible, visible_json};
use serde::Serialize;

pub(crate) use colour::states;
pub(crate) use junit::{Case, ReportFormat, junit};
pub(crate) use list::{Column, ListArgs, ListFormat};
pub(crate) use olm_text::counted;

/// The output format of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Format {
    /// Human-readable text.
    #[default]
    Text,
    /// One JSON document.
    Json,
    /// One YAML document.
    Yaml,
}

/// The format of manifests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum ManifestFormat {
    /// YAML documents.
    #[default]
    Yaml,
    /// One JSON list.
    Json,
    /// One object per line.
    Jsonl,
}

/// Writes an answer in a format; `text` is only called when it is needed.
pub(crate) fn answer<T: Serialize>(
    out: &mut dyn Write,
    format: Format,
    value: &T,
    text: impl FnOnce(&T) -> String,
) -> anyhow::Result<()> {
    match format {
        Format::Text => writeln!(out, "{}", visible(&text(value)))?,
        Format::Json => json(out, value)?,
        Format::Yaml => {
            let yaml = olm_yaml::to_yaml(&serde_json::to_value(value)?);
            writeln!(out, "{}", visible(yaml.trim_end()))?;
        }
    }
    Ok(())
}

/// Writes manifests: as YAML documents and one JSON list safe for a terminal, the list as kubectl applies it as a whole.
pub(crate) fn manifests(
    out: &mut dyn Write,
    format: ManifestFormat,
    manifests: &[serde_json::Value],
) -> anyhow::Result<()> {
    match format {
        ManifestFormat::Yaml => {
            for manifest in manifests {
                write!(out, "---\n{}", visible(&olm_yaml::to_yaml(manifest)))?;
            }
        }
        ManifestFormat::Json => {
            json(out, &serde_json::json!({"apiVersion": "v1", "kind": "List", "items": manifests}))?;
        }
        ManifestFormat::Jsonl => {
            for manifest in manifests {
                writeln!(out, "{manifest}")?;
            }
        }
    }
    Ok(())
}

/// Rows with their cells in columns, two blanks between them. Further lines of a row's last cell are beneath its first;
/// in other cells they would tear the table.
pub(crate) fn columns<C: AsRef<str>>(rows: &[impl AsRef<[C]>]) -> String {
    let mut widths: Vec<usize> = Vec::new();
    for row in rows.iter().map(AsRef::as_ref) {
        widths.resize(widths.len().max(row.len()), 0);
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(one_line(cell.as_ref()).chars().count());
        }
    }
    let mut text = String::new();
    for row in rows {
        let Some((last, cells)) = row.as_ref().split_last() else { continue };
        let padded =
            cells.iter().zip(&widths).map(|(cell, width)| format!("{:<width$}  ", one_line(cell.as_ref())));
        let mut line: String = padded.collect();
        let indent = line.chars().count();
        line.push_str(&below(last.as_ref(), indent));
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn json(out: &mut dyn Write, value: &impl Serialize) -> anyhow::Result<()> {
    writeln!(out, "{}", visible_json(&serde_json::to_string_pretty(value)?))?;
    Ok(())
}

/// Standard output. A reader that has read enough, as `head` does, is no failure of the command, whatever the error
/// that comes of it looks like by the time it gets to `main`.
pub(crate) struct Output {
    stdout: Stdout,
    is_closed: bool,
}

impl Output {
    pub(crate) fn new() -> Self {
        Self { stdout: io::stdout(), is_closed: false }
    }

    /// Whether the reader has gone.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    fn noted<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        result.inspect_err(|error| self.is_closed |= error.kind() == io::ErrorKind::BrokenPipe)
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.stdout.write(bytes);
        self.noted(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.stdout.flush();
        self.noted(flushed)
    }
}

/// The end of a command whose answer, which has been written, is that things differ, are unsafe, or that there is none.
#[derive(Debug, thiserror::Error)]
#[error("differs")]
pub(crate) struct Differs;

impl Differs {
    /// The exit code: 0 is for the other answer, 1 for errors.
    pub(crate) const EXIT_CODE: u8 = 2;
}

/// Reports why nothing was done, which is an answer: it would not be safe, or nothing fits.
pub(crate) fn refusal(text: String) -> anyhow::Error {
    error(&anyhow::Error::msg(text));
    Differs.into()
}

/// Reports a failure on standard error.
pub(crate) fn error(error: &anyhow::Error) {
    // Nothing can be reported if standard error is gone.
    let _ = writeln!(std::io::stderr(), "error: {}", below(&causes(error), 2));
}

/// An error and its causes as one text. Many errors quote their cause: it is not repeated.
pub(crate) fn causes(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        // The API server's own words say it; what kube puts around them is for programmers.
        let of_api = cause.downcast_ref::<kube::Error>();
        let cause = of_api.map_or_else(|| cause.to_string(), api_text);
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
        if of_api.is_some_and(|error| matches!(error, kube::Error::Api(_))) {
            break;
        }
    }
    text
}

/// Reports on standard error what does not stop the command.
pub(crate) fn warning(text: &str) {
    remark("warning", text);
}

/// Prints what to do instead to standard error.
pub(crate) fn hint(text: &str) {
    remark("hint", text);
}

fn remark(kind: &str, text: &str) {
    // Nothing can be reported if standard error is gone.
    let _ = writeln!(std::io::stderr(), "{kind}: {}", below(text, 2));
}

/// Text that may have several lines, safe for a terminal: further lines are indented, so that none of them looks like a
/// line of the command's own.
pub(crate) fn below(text: &str, indent: usize) -> String {
    visible(text).trim_end().replace('\n', &format!("\n{:indent$}", ""))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use anyhow::anyhow;

    use super::{Format, ManifestFormat, answer, below, causes, columns, manifests};

    #[test]
    fn a_cause_that_an_error_quotes_is_not_repeated() {
        let error = anyhow!("no host").context("reading a: no host").context("--catalog a");
        assert_eq!(causes(&error), "--catalog a: reading a: no host");
    }

    #[test]
    fn a_foreign_line_break_begins_no_line_of_the_commands() {
        assert_eq!(below("a\u{1b}[2J\nwarning: b\n", 2), "a\\u{1b}[2J\n  warning: b");
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["A", "B", "C"], ["long", "", "x\ny"], ["ä\nc", "b", ""]];
        assert_eq!(columns(&rows), "A     B  C\nlong     x\n         y\nä c   b\n");
    }

    #[test]
    fn no_form_of_an_answer_shows_what_does_not_show() {
        let hostile = json!({"a": "x\u{1b}[2J\u{9b}\u{202e}\u{e0041}\ny"});
        let mut text = Vec::new();
        answer(&mut text, Format::Text, &hostile, |value| value["a"].as_str().unwrap().to_owned()).unwrap();
        assert_eq!(String::from_utf8(text).unwrap(), "x\\u{1b}[2J\\u{9b}\\u{202e}\\u{e0041}\ny\n");

        let mut json = Vec::new();
        answer(&mut json, Format::Json, &hostile, |_| String::new()).unwrap();
        let json = String::from_utf8(json).unwrap();
        assert!(json.contains("x\\u001b[2J\\u009b\\u202e\\udb40\\udc41\\ny"), "{json}");
        assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), hostile, "the value stays");

        let mut list = Vec::new();
        manifests(&mut list, ManifestFormat::Json, std::slice::from_ref(&hostile)).unwrap();
        let list: Value = serde_json::from_slice(&list).unwrap();
        assert_eq!(list["items"][0], hostile);
    }

    #[test]
    fn manifests_stay_what_they_are_in_yaml() {
        for text in ["a\u{202e}b", "one\ntwo\u{200b}\n", "\u{e0041}", "\u{9b}"] {
            let manifest = json!({"data": {"x": text}});
            let mut yaml = Vec::new();
            manifests(&mut yaml, ManifestFormat::Yaml, std::slice::from_ref(&manifest)).unwrap();
            let yaml = String::from_utf8(yaml).unwrap();
            assert_eq!(olm_yaml::one(&yaml).unwrap(), manifest, "{yaml}");
            assert!(yaml.chars().all(|c| c == '\n' || olm_text::is_visible(c)), "{yaml}");
        }
    }
}
