//! Programs of this workspace, built by cargo with progress that can be seen.

use std::{
    collections::VecDeque,
    io::{BufRead, BufReader, IsTerminal as _},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};

use crate::{Progress, variable};

const PART: &str = "Rust";
/// Lines of cargo that a failure shows; an error of rustc can be long.
const LINES_MAX: usize = 400;

/// Runs `cargo build` with these arguments. On a terminal cargo shows its own progress.
pub fn build(arguments: &[&str], progress: &Progress) -> Result<()> {
    let mut cargo = Command::new(variable("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.arg("build").args(arguments).stdin(Stdio::null());
    if std::io::stderr().is_terminal() {
        let status = cargo.status().context("running cargo")?;
        ensure!(status.success(), "cargo build failed ({status})");
        return Ok(());
    }
    cargo.envs([
        ("CARGO_TERM_PROGRESS_WHEN", "always"),
        ("CARGO_TERM_PROGRESS_WIDTH", "100"),
        ("CARGO_TERM_COLOR", "never"),
    ]);
    progress.set(PART, "starting");
    let mut child = cargo.stderr(Stdio::piped()).spawn().context("running cargo")?;
    let output = child.stderr.take().context("cargo has no standard error")?;
    let mut kept = VecDeque::new();
    each_line(BufReader::new(output), |line| {
        match Line::read(line) {
            Line::Count(text) => progress.set(PART, text),
            // Nothing moves while another cargo works in this folder.
            Line::Blocked => progress.set(PART, "waiting for another cargo that builds in the same folder"),
            Line::Step => {}
            Line::Message => {
                kept.push_back(line.to_owned());
                if kept.len() > LINES_MAX {
                    kept.pop_front();
                }
            }
        }
        if progress.has_failed() {
            // An error means that it has ended already.
            let _ = child.kill();
        }
    })?;
    progress.done(PART);
    let status = child.wait()?;
    if !status.success() && !progress.has_failed() {
        for line in &kept {
            progress.line(line);
        }
    }
    ensure!(status.success(), "cargo build failed ({status})");
    Ok(())
}

/// What a line of cargo is.
#[derive(Debug, PartialEq)]
enum Line {
    /// How far it is.
    Count(String),
    /// It waits for another cargo.
    Blocked,
    /// One of the steps that it counts.
    Step,
    /// Something to be read when it fails.
    Message,
}

impl Line {
    fn read(line: &str) -> Self {
        let text = line.trim();
        let first = text.split_whitespace().next().unwrap_or_default();
        match first {
            "Building" => {
                let mut words = text.split([' ', ':']).filter_map(|word| word.split_once('/'));
                let numbers =
                    words.find_map(|(done, all)| Some((done.parse::<u32>().ok()?, all.parse::<u32>().ok()?)));
                numbers.map_or(Self::Step, |(done, all)| Self::Count(format!("{done} of {all} crates")))
            }
            "Downloading" | "Downloaded" => Self::Count(text.to_owned()),
            "Blocking" => Self::Blocked,
            "" | "Compiling" | "Finished" | "Fresh" | "Updating" | "Locking" => Self::Step,
            _ => Self::Message,
        }
    }
}

/// Calls `take` with each line; a progress bar ends its lines with a carriage return.
fn each_line(source: impl BufRead, mut take: impl FnMut(&str)) -> Result<()> {
    let mut line = Vec::new();
    for byte in std::io::Read::bytes(source) {
        match byte.context("reading cargo's output")? {
            b'\n' | b'\r' => {
                take(&String::from_utf8_lossy(&line));
                line.clear();
            }
            byte => line.push(byte),
        }
    }
    take(&String::from_utf8_lossy(&line));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargos_bar_is_read_as_a_count() {
        let output = "   Compiling serde v1.0.0\n    Building [=>    ] 12/345: serde, tokio(build)\r\
                      error: it does not compile\n    Blocking waiting for file lock on build directory\n";
        let mut lines = Vec::new();
        each_line(output.as_bytes(), |line| lines.push(Line::read(line))).unwrap();
        let count = Line::Count("12 of 345 crates".to_owned());
        assert_eq!(lines, [Line::Step, count, Line::Message, Line::Blocked, Line::Step]);
    }
}
