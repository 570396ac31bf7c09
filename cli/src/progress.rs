//! One line on a terminal with the progress of long work; nothing where standard error is no terminal.
//!
//! The line is drawn over itself and is gone at the end. Warnings are printed above it. Machine-readable output
//! goes to standard output and never meets it.

use std::{
    io::{IsTerminal as _, Write as _},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use olm_image::OnProgress;
use olm_text::one_line;

use crate::output;

/// Time between two drawings; more often is not seen.
const REDRAW: Duration = Duration::from_millis(100);
/// Characters of the line: it must not wrap, and terminals have 80 columns or more.
const LINE_CHARACTERS_MAX: usize = 79;
/// Characters of the bar within it.
const BAR_CHARACTERS: usize = 20;
/// Erases the line the cursor is in, and returns to its start.
const ERASE: &str = "\r\u{1b}[2K";

/// The progress of a command: so many things to do, and pulls of images meanwhile. Clones share one line.
#[derive(Clone)]
pub(crate) struct Bar(Arc<Mutex<Line>>);

struct Line {
    /// Whether standard error is a terminal.
    shown: bool,
    verb: &'static str,
    items: (usize, usize),
    /// The name of each image that is pulled, with the bytes that arrived and all bytes.
    pulls: Vec<(String, u64, u64)>,
    /// What is waited for, when it is not a pull.
    note: String,
    last_drawn: Option<Instant>,
}

impl Bar {
    /// The progress of `items` things, said with `verb`, such as `rendering`.
    pub(crate) fn new(verb: &'static str, items: usize) -> Self {
        let shown =
            std::io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        Self(Arc::new(Mutex::new(Line {
            shown,
            verb,
            items: (0, items),
            pulls: Vec::new(),
            note: String::new(),
            last_drawn: None,
        })))
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Follows the pull of an image; the returned callback is for a puller.
    pub(crate) fn pull(&self, name: &str) -> OnProgress {
        let mut line = self.line();
        let number = line.pulls.len();
        line.pulls.push((name.to_owned(), 0, 0));
        let bar = self.clone();
        Arc::new(move |progress| {
            let mut line = bar.line();
            (line.pulls[number].1, line.pulls[number].2) = (progress.bytes, progress.bytes_total);
            line.draw();
        })
    }

    /// One of the things is done.
    pub(crate) fn item_done(&self) {
        let mut line = self.line();
        line.items.0 += 1;
        line.draw();
    }

    /// Shows what is waited for.
    pub(crate) fn note(&self, text: String) {
        let mut line = self.line();
        line.note = text;
        line.draw();
    }

    /// Writes a line of the command's output, above the line.
    pub(crate) fn write(&self, out: &mut dyn std::io::Write, text: &str) -> std::io::Result<()> {
        let mut line = self.line();
        line.erase();
        writeln!(out, "{}", output::below(text, 2))?;
        out.flush()?;
        line.draw();
        Ok(())
    }

    /// Prints a warning to standard error, above the line.
    pub(crate) fn warn(&self, text: &str) {
        let mut line = self.line();
        line.erase();
        output::warning(text);
        line.draw();
    }
}

// Nothing can be reported if standard error is gone.
impl Line {
    fn draw(&mut self) {
        if self.shown && self.last_drawn.is_none_or(|last| last.elapsed() >= REDRAW) {
            self.last_drawn = Some(Instant::now());
            let _ = write!(std::io::stderr(), "{ERASE}{}", one_line(&self.text()));
        }
    }

    fn erase(&mut self) {
        if self.last_drawn.take().is_some() {
            let _ = write!(std::io::stderr(), "{ERASE}");
        }
    }

    /// The items that are done, a bar, bytes, and the image that is pulled.
    fn text(&self) -> String {
        let (done, items) = self.items;
        let sum =
            |bytes: fn(&(String, u64, u64)) -> u64| self.pulls.iter().map(bytes).fold(0, u64::saturating_add);
        let (arrived, total) = (sum(|pull| pull.1), sum(|pull| pull.2));
        let mut parts = vec![self.verb.to_owned()];
        if items > 1 {
            parts.push(format!("{done}/{items}"));
        }
        if let Some(filled) = arrived.min(total).saturating_mul(BAR_CHARACTERS as u64).checked_div(total) {
            let filled = usize::try_from(filled).unwrap_or(BAR_CHARACTERS);
            let megabytes = |bytes: u64| format!("{}.{}", bytes / 1_000_000, bytes / 100_000 % 10);
            let bar = "#".repeat(filled) + &"-".repeat(BAR_CHARACTERS - filled);
            parts.push(format!("[{bar}] {}/{} MB", megabytes(arrived), megabytes(total)));
        }
        parts.extend(self.pulls.iter().find(|pull| pull.1 < pull.2).map(|pull| pull.0.clone()));
        if !self.note.is_empty() {
            parts.push(self.note.clone());
        }
        parts.join(" ").chars().take(LINE_CHARACTERS_MAX).collect()
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.erase();
    }
}

#[cfg(test)]
mod tests {
    use super::{LINE_CHARACTERS_MAX, Line};

    fn line(items: (usize, usize), pulls: &[(&str, u64, u64)]) -> String {
        let pull = |(name, arrived, total): &(&str, u64, u64)| ((*name).to_owned(), *arrived, *total);
        let pulls = pulls.iter().map(pull).collect();
        Line { shown: false, verb: "rendering", items, pulls, note: String::new(), last_drawn: None }.text()
    }

    #[test]
    fn the_line_has_items_bar_bytes_and_what_is_under_way() {
        assert_eq!(line((1, 3), &[]), "rendering 1/3");
        assert_eq!(
            line((1, 3), &[("done:1", 1_000_000, 1_000_000), ("next:1", 500_000, 3_000_000)]),
            "rendering 1/3 [#######-------------] 1.5/4.0 MB next:1"
        );
        assert_eq!(
            line((1, 3), &[("all:1", 2_000_000, 2_000_000)]),
            "rendering 1/3 [####################] 2.0/2.0 MB"
        );
    }

    #[test]
    fn one_thing_is_not_counted() {
        assert_eq!(line((0, 1), &[("a:1", 0, 100_000)]), "rendering [--------------------] 0.0/0.1 MB a:1");
    }

    #[test]
    fn the_line_does_not_wrap_whatever_the_name() {
        let name = "quay.io/".to_owned() + &"ü".repeat(500);
        assert_eq!(line((1, 3), &[(&name, 0, u64::MAX)]).chars().count(), LINE_CHARACTERS_MAX);
    }
}
