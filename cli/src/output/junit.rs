//! Reports as JUnit XML, which CI systems show.

use std::fmt::Write as _;

use clap::ValueEnum;
use olm_text::visible;

use super::Format;

/// The output format of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum ReportFormat {
    /// Human-readable text.
    #[default]
    Text,
    /// One JSON document.
    Json,
    /// One YAML document.
    Yaml,
    /// JUnit XML, for CI systems.
    Junit,
}

impl ReportFormat {
    /// The format of other answers, unless it is JUnit.
    pub(crate) fn plain(self) -> Option<Format> {
        match self {
            Self::Text => Some(Format::Text),
            Self::Json => Some(Format::Json),
            Self::Yaml => Some(Format::Yaml),
            Self::Junit => None,
        }
    }
}

/// A check, and what it found.
#[derive(Debug)]
pub(crate) struct Case {
    /// Name of the check.
    pub(crate) name: String,
    /// What is wrong; nothing if it passed.
    pub(crate) failures: Vec<String>,
    /// What does not make it fail.
    pub(crate) warnings: Vec<String>,
}

/// The report of checks on one thing.
pub(crate) fn junit(about: &str, cases: &[Case]) -> String {
    let failed = cases.iter().filter(|case| !case.failures.is_empty()).count();
    let (count, about) = (cases.len(), escaped(about));
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"{about}\" tests=\"{count}\" failures=\"{failed}\">\n"
    );
    for case in cases {
        let name = escaped(&case.name);
        // Writing to a String cannot fail.
        let _ = write!(text, "    <testcase name=\"{name}\" classname=\"{about}\"");
        if case.failures.is_empty() && case.warnings.is_empty() {
            text.push_str("/>\n");
            continue;
        }
        text.push_str(">\n");
        for failure in &case.failures {
            let _ = writeln!(text, "      <failure message=\"{}\"/>", escaped(failure));
        }
        for warning in &case.warnings {
            let _ = writeln!(text, "      <system-out>{}</system-out>", escaped(warning));
        }
        text.push_str("    </testcase>\n");
    }
    text + "  </testsuite>\n</testsuites>"
}

/// The text of an attribute, without characters that XML does not have.
fn escaped(text: &str) -> String {
    let mut safe = String::new();
    for character in visible(text).chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\n' => safe.push_str("&#10;"),
            other => safe.push(other),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_stays_text() {
        let cases = [
            Case { name: "valid".to_owned(), failures: Vec::new(), warnings: vec!["<late>".to_owned()] },
            Case {
                name: "a<b".to_owned(),
                failures: vec!["\"x\" & </failure>\u{1b}\nnext".to_owned()],
                warnings: Vec::new(),
            },
        ];
        assert_eq!(
            junit("b&c", &cases),
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  \
             <testsuite name=\"b&amp;c\" tests=\"2\" failures=\"1\">\n    \
             <testcase name=\"valid\" classname=\"b&amp;c\">\n      \
             <system-out>&lt;late&gt;</system-out>\n    \
             </testcase>\n    \
             <testcase name=\"a&lt;b\" classname=\"b&amp;c\">\n      \
             <failure message=\"&quot;x&quot; &amp; &lt;/failure&gt;\\u{1b}&#10;next\"/>\n    \
             </testcase>\n  </testsuite>\n</testsuites>"
        );
    }
}
