//! What the demo prints.

use std::io::IsTerminal as _;

use olm_test::prelude::*;
use owo_colors::{OwoColorize as _, Stream};

/// Prints steps with the time they took.
pub(crate) struct Screen {
    started: Instant,
}

impl Screen {
    pub(crate) fn new() -> Self {
        Self { started: Instant::now() }
    }

    /// A step is done.
    pub(crate) fn done(&self, text: &str) {
        let at = seconds(self.started.elapsed());
        println!(
            "{} {} {text}",
            "✓".if_supports_color(Stream::Stdout, |t| t.green()),
            at.if_supports_color(Stream::Stdout, |t| t.dimmed())
        );
    }
}

/// A step begins; shown on a terminal, where somebody waits for it.
pub(crate) fn begin(text: &str) {
    if std::io::stdout().is_terminal() {
        println!("{} {text}", "•".if_supports_color(Stream::Stdout, |t| t.cyan()));
    }
}

/// Something about the step that runs.
pub(crate) fn note(text: &str) {
    println!("          {}", text.if_supports_color(Stream::Stdout, |t| t.dimmed()));
}

/// A line to try, and what it shows.
pub(crate) fn example(about: &str, line: &str) {
    println!("  {}\n  {line}\n", format!("# {about}").if_supports_color(Stream::Stdout, |t| t.dimmed()));
}

/// Any other line.
pub(crate) fn line(text: &str) {
    println!("{text}");
}

/// The sentence with which a demo ends that failed.
pub(crate) fn failed(text: &str) {
    eprintln!("{} {text}", "demo failed:".if_supports_color(Stream::Stderr, |t| t.red()));
}

fn seconds(time: Duration) -> String {
    format!("{:6.2}s", time.as_secs_f64())
}
