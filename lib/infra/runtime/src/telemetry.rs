//! Logs: one line an outcome, on stderr; JSON unless that is a terminal. And traces, where the build has them.

mod traces;

use std::io::{self, IsTerminal, Write};

use olm_text::{cut, one_line, visible_json};
use serde_json::Value;
use tracing_subscriber::{
    field::MakeExt as _,
    filter::Targets,
    fmt::{
        self,
        format::{FormatFields, debug_fn},
    },
    layer::SubscriberExt,
    util::SubscriberInitExt,
};

pub use traces::Traces;

/// Verbosity of the process's own crates when neither a flag nor `RUST_LOG` says otherwise.
const DEFAULT_FILTER: &str = "info,kube=warn,hyper=warn,rustls=warn";

/// Most characters of a field, or of the message, in a line. They may quote a whole document of a catalog, and collectors
/// drop or break lines of more than 16 KiB.
const FIELD_CHARACTERS_MAX: usize = 4096;

/// Starts logging, and traces if the environment names a collector. `verbosity` counts like klog's `-v`: 0 is info,
/// from 4 debug, from 8 everything; `program` is what traces call the process. The traces are to be ended when the
/// process ends, or the last ones get lost.
///
/// Calling it twice keeps the first setting.
#[must_use]
pub fn init(verbosity: u8, program: &'static str) -> Traces {
    let default = match verbosity {
        0..=3 => DEFAULT_FILTER,
        4..=7 => "debug,kube=info,hyper=info,rustls=info,tower=info",
        _ => "trace",
    };
    let asked = std::env::var("RUST_LOG").unwrap_or_default();
    let filter: Option<Targets> =
        Some(asked).filter(|asked| !asked.is_empty()).and_then(|asked| asked.parse().ok());
    // Levels of targets are enough: filters of spans and fields would bring regular expressions of their own.
    let filter = filter.unwrap_or_else(|| default.parse().unwrap_or_default());
    let (layer, traces) = traces::of_environment(program);
    let subscriber = tracing_subscriber::registry().with(filter).with(layer);
    let lines = fmt::layer();
    // A second call, as in tests that run several components in one process, changes nothing.
    let _ = if std::io::stderr().is_terminal() {
        subscriber.with(lines.with_target(false).fmt_fields(fields()).with_writer(io::stderr)).try_init()
    } else {
        let lines = lines.json().flatten_event(true).with_current_span(false).with_span_list(false);
        subscriber.with(lines.with_writer(|| JsonLines(io::stderr()))).try_init()
    };
    traces.logged()
}

/// Fields as text for a terminal. They quote catalogs, bundles and registries: each stays on its line, and shows whatever
/// else is in it.
fn fields() -> impl for<'writer> FormatFields<'writer> + 'static {
    debug_fn(|writer, field, value| {
        let value = format!("{value:?}");
        match field.name() {
            "message" => write!(writer, "{}", one_line(&cut(&value, FIELD_CHARACTERS_MAX))),
            name => write!(writer, "{name}={}", one_line(&cut(&value, FIELD_CHARACTERS_MAX))),
        }
    })
    .delimited(" ")
}

/// Lines of JSON, in which everything that is not visible is written as its escape, and long texts are cut.
struct JsonLines<W>(W);

impl<W: Write> Write for JsonLines<W> {
    /// Takes whole lines, which is how they come.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let line = String::from_utf8_lossy(bytes);
        let short = if line.len() > FIELD_CHARACTERS_MAX { shortened(&line) } else { None };
        self.0.write_all(visible_json(short.as_deref().unwrap_or(&line)).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// A line with its fields cut; `None` for what is no line of fields.
fn shortened(line: &str) -> Option<String> {
    let mut fields: serde_json::Map<String, Value> = serde_json::from_str(line).ok()?;
    for value in fields.values_mut() {
        if let Value::String(text) = value {
            *text = cut(text, FIELD_CHARACTERS_MAX).into_owned();
        }
    }
    serde_json::to_string(&fields).ok().map(|line| line + "\n")
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex, PoisonError};

    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Kept {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()).unwrap()
        }
    }

    const HOSTILE: &str = "a\u{1b}[2J\u{9b}\u{202e}\nINFO all is well";

    fn log() {
        let span = tracing::info_span!("reconcile", name = %HOSTILE);
        let _entered = span.enter();
        tracing::warn!(error = %HOSTILE, debug = ?HOSTILE, text = HOSTILE, "failed: {HOSTILE}");
    }

    #[test]
    fn a_line_of_json_says_the_same_and_hides_nothing() {
        let kept = Kept::default();
        let writer = kept.clone();
        let lines = fmt::layer().json().flatten_event(true).with_writer(move || JsonLines(writer.clone()));
        tracing::subscriber::with_default(tracing_subscriber::registry().with(lines), log);
        let text = kept.text();
        assert!(text.trim_end().chars().all(olm_text::is_visible), "{text:?}");
        let line: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(line["error"], HOSTILE);
        assert_eq!(line["message"], format!("failed: {HOSTILE}"));
    }

    #[test]
    fn a_line_for_a_terminal_stays_one_line() {
        let kept = Kept::default();
        let writer = kept.clone();
        let lines = fmt::layer().with_ansi(false).fmt_fields(fields()).with_writer(move || writer.clone());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(lines), log);
        let text = kept.text();
        assert!(text.trim_end().chars().all(olm_text::is_visible), "{text:?}");
        assert!(text.contains("failed: a\\u{1b}[2J\\u{9b}\\u{202e} INFO all is well"), "{text}");
        assert!(text.contains("error=a\\u{1b}[2J"), "{text}");
    }

    #[test]
    fn fields_of_any_length_are_cut() {
        for wanted in [false, true] {
            let kept = Kept::default();
            let long = "ä".repeat(FIELD_CHARACTERS_MAX + usize::from(wanted));
            let failed = || tracing::warn!(error = %long, number = 1, "failed: {long}");
            let writer = kept.clone();
            let lines =
                fmt::layer().json().flatten_event(true).with_writer(move || JsonLines(writer.clone()));
            tracing::subscriber::with_default(tracing_subscriber::registry().with(lines), failed);
            let line: Value = serde_json::from_str(kept.text().strip_suffix('\n').unwrap()).unwrap();
            let cut = "ä".repeat(FIELD_CHARACTERS_MAX) + "...";
            assert_eq!(line["error"] == cut.as_str(), wanted);
            assert_eq!((&line["level"], &line["number"]), (&Value::from("WARN"), &Value::from(1)));
            assert!(line["message"].as_str().is_some_and(|message| message.ends_with("ä...")));

            let kept = Kept::default();
            let writer = kept.clone();
            let lines =
                fmt::layer().with_ansi(false).fmt_fields(fields()).with_writer(move || writer.clone());
            tracing::subscriber::with_default(tracing_subscriber::registry().with(lines), failed);
            assert_eq!(kept.text().contains(&format!("error={cut}")), wanted);
        }
    }
}
