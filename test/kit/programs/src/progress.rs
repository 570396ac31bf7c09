//! How far things are that take minutes, as a line every few seconds.

use std::{
    collections::BTreeMap,
    io::{IsTerminal as _, Write as _},
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// Between two lines.
const PERIOD: Duration = Duration::from_secs(5);

/// Things that run side by side, and how far each is.
pub struct Progress {
    started: Instant,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    parts: BTreeMap<&'static str, String>,
    ended: bool,
    failed: bool,
}

impl Progress {
    /// Does `work`, and meanwhile prints lines to standard error.
    pub fn during<T>(work: impl FnOnce(&Self) -> T) -> T {
        let this = Self { started: Instant::now(), state: Mutex::default(), changed: Condvar::new() };
        std::thread::scope(|scope| {
            scope.spawn(|| this.print());
            // Ends the printer whichever way the work ends.
            let _end = End(&this);
            work(&this)
        })
    }

    /// Says how far a part is.
    pub fn set(&self, part: &'static str, text: impl Into<String>) {
        self.state().parts.insert(part, text.into());
    }

    /// A part is done and is shown no more.
    pub fn done(&self, part: &'static str) {
        self.state().parts.remove(part);
    }

    /// A part failed, so that the others need not go on. Answers whether it is the first.
    pub fn fail(&self) -> bool {
        !std::mem::replace(&mut self.state().failed, true)
    }

    /// Whether a part failed.
    pub fn has_failed(&self) -> bool {
        self.state().failed
    }

    /// Prints a line now, such as a warning of a part.
    pub fn line(&self, text: &str) {
        // A progress bar of cargo may be on this line of a terminal.
        let clear = if std::io::stderr().is_terminal() { "\r\x1b[K" } else { "" };
        // Not with a print macro: libtest would keep it to itself. Nobody may be reading.
        let _ = writeln!(std::io::stderr(), "{clear}{text}");
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn print(&self) {
        let mut state = self.state();
        while !state.ended {
            (state, _) = self.changed.wait_timeout(state, PERIOD).unwrap_or_else(PoisonError::into_inner);
            if let Some(text) = line(self.started.elapsed(), &state.parts).filter(|_| !state.ended) {
                self.line(&text);
            }
        }
    }
}

struct End<'a>(&'a Progress);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.state().ended = true;
        self.0.changed.notify_all();
    }
}

fn line(elapsed: Duration, parts: &BTreeMap<&'static str, String>) -> Option<String> {
    let seconds = elapsed.as_secs();
    let parts: Vec<_> = parts.iter().map(|(part, text)| format!("{part}: {text}")).collect();
    (!parts.is_empty()).then(|| format!("  {:2}:{:02}  {}", seconds / 60, seconds % 60, parts.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_time_and_each_part() {
        let parts = BTreeMap::from([("Rust", "3 of 9 crates".to_owned()), ("Go", "7 packages".to_owned())]);
        let text = line(Duration::from_secs(65), &parts).unwrap();
        assert_eq!(text, "   1:05  Go: 7 packages; Rust: 3 of 9 crates");
        assert_eq!(line(Duration::ZERO, &BTreeMap::new()), None);
    }

    #[test]
    fn the_work_ends_the_lines() {
        let answer = Progress::during(|progress| {
            progress.set("Rust", "1 of 2 crates");
            progress.done("Rust");
            7
        });
        assert_eq!(answer, 7);
    }
}
