//! One line on a terminal with the progress of long work; nothing where standard error is no terminal.
//!
//! The line is drawn over itself and is gone at the end. Warnings are printed above it. Machine-readable output
//! goes to standard output and never meets it.

use std::{
    collections::BTreeMap,
    io::{IsTerminal as _, Write as _},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use olm_image::OnProgress;
use olm_text::one_line;

use crate::output::below;

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
pub(crate) struct Bar(Arc<Shared>);

struct Shared {
    /// Whether standard error is a terminal.
    shown: bool,
    state: Mutex<State>,
}

struct State {
    verb: &'static str,
    items: (usize, usize),
    /// Bytes that arrived and all bytes of each pull, by its number.
    pulls: BTreeMap<usize, Pull>,
    last_drawn: Option<Instant>,
}

struct Pull {
    name: String,
    arrived: u64,
    total: u64,
}

impl Bar {
    /// The progress of `items` things, said with `verb`, such as `rendering`.
    pub(crate) fn new(verb: &'static str, items: usize) -> Self {
        let shown =
            std::io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        let state = State { verb, items: (0, items), pulls: BTreeMap::new(), last_drawn: None };
        Self(Arc::new(Shared { shown, state: Mutex::new(state) }))
    }

    /// Follows the pull of an image; the returned callback is for a puller.
    pub(crate) fn pull(&self, name: &str) -> OnProgress {
        let shared = Arc::clone(&self.0);
        let mut state = shared.state();
        let number = state.pulls.len();
        state.pulls.insert(number, Pull { name: name.to_owned(), arrived: 0, total: 0 });
        drop(state);
        Arc::new(move |progress| {
            let mut state = shared.state();
            if let Some(pull) = state.pulls.get_mut(&number) {
                (pull.arrived, pull.total) = (progress.bytes, progress.bytes_total);
            }
            shared.draw(&mut state);
        })
    }

    /// One of the things is done.
    pub(crate) fn item_done(&self) {
        let mut state = self.0.state();
        state.items.0 += 1;
        self.0.draw(&mut state);
    }

    /// Prints a warning to standard error, above the line.
    pub(crate) fn warn(&self, text: &str) {
        let mut state = self.0.state();
        let erase = if state.last_drawn.take().is_some() { ERASE } else { "" };
        // Nothing can be reported if standard error is gone.
        let _ = writeln!(std::io::stderr(), "{erase}warning: {}", below(text, 2));
        self.0.draw(&mut state);
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn draw(&self, state: &mut State) {
        if !self.shown || state.last_drawn.is_some_and(|last| last.elapsed() < REDRAW) {
            return;
        }
        state.last_drawn = Some(Instant::now());
        let mut stderr = std::io::stderr();
        // As above.
        let _ = write!(stderr, "{ERASE}{}", one_line(&line(state)));
        let _ = stderr.flush();
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if self.state().last_drawn.is_some() {
            // As above.
            let _ = write!(std::io::stderr(), "{ERASE}");
        }
    }
}

/// The line: what is done, a bar, bytes, and what is under way.
fn line(state: &State) -> String {
    let (done, items) = state.items;
    let (arrived, total) = state.pulls.values().fold((0_u64, 0_u64), |(arrived, total), pull| {
        (arrived.saturating_add(pull.arrived), total.saturating_add(pull.total))
    });
    let mut parts = vec![state.verb.to_owned()];
    if items > 1 {
        parts.push(format!("{done}/{items}"));
    }
    if let Some(filled) = arrived.min(total).saturating_mul(BAR_CHARACTERS as u64).checked_div(total) {
        let filled = usize::try_from(filled).unwrap_or(BAR_CHARACTERS);
        let bar = "#".repeat(filled) + &"-".repeat(BAR_CHARACTERS - filled);
        parts.push(format!("[{bar}] {}/{} MB", megabytes(arrived), megabytes(total)));
    }
    if let Some(pull) = state.pulls.values().find(|pull| pull.arrived < pull.total) {
        parts.push(pull.name.clone());
    }
    let line = parts.join(" ");
    line.chars().take(LINE_CHARACTERS_MAX).collect()
}

fn megabytes(bytes: u64) -> String {
    const TENTH: u64 = 100_000;
    format!("{}.{}", bytes / TENTH / 10, bytes / TENTH % 10)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{LINE_CHARACTERS_MAX, Pull, State, line};

    fn state(pulls: &[(&str, u64, u64)]) -> State {
        let pull = |(name, arrived, total): &(&str, u64, u64)| Pull {
            name: (*name).to_owned(),
            arrived: *arrived,
            total: *total,
        };
        let pulls: BTreeMap<usize, Pull> = pulls.iter().map(pull).enumerate().collect();
        State { verb: "rendering", items: (1, 3), pulls, last_drawn: None }
    }

    #[test]
    fn the_line_has_items_bar_bytes_and_what_is_under_way() {
        assert_eq!(line(&state(&[])), "rendering 1/3");
        assert_eq!(
            line(&state(&[("done:1", 1_000_000, 1_000_000), ("next:1", 500_000, 3_000_000)])),
            "rendering 1/3 [#######-------------] 1.5/4.0 MB next:1"
        );
        assert_eq!(
            line(&state(&[("all:1", 2_000_000, 2_000_000)])),
            "rendering 1/3 [####################] 2.0/2.0 MB"
        );
    }

    #[test]
    fn one_thing_is_not_counted() {
        let one = State { items: (0, 1), ..state(&[("a:1", 0, 100_000)]) };
        assert_eq!(line(&one), "rendering [--------------------] 0.0/0.1 MB a:1");
    }

    #[test]
    fn the_line_does_not_wrap_whatever_the_name() {
        let name = "quay.io/".to_owned() + &"ü".repeat(500);
        assert_eq!(line(&state(&[(&name, 0, u64::MAX)])).chars().count(), LINE_CHARACTERS_MAX);
    }
}
