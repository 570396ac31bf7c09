//! `make requirements`: the stated requirements that no test shows and no decision settles yet.
//!
//! The list is `OLM_REQUIREMENTS`, or the file beside the project; without it there is nothing to say. The exit
//! code is 0 whatever is open: the list is a plan, not a gate.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use olm_test::tools::requirements::{Claims, Report, requirements};

/// Beside the project's root.
const LIST: &str = "../shared/spec/seed-requirements.md";
/// Words of a statement that are shown.
const WORDS: usize = 14;

fn main() -> ExitCode {
    match list() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn list() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize()?;
    let path = std::env::var_os("OLM_REQUIREMENTS").map_or_else(|| root.join(LIST), PathBuf::from);
    if !path.is_file() {
        println!("skipped: no list of requirements at {} (OLM_REQUIREMENTS names one)", path.display());
        return Ok(());
    }
    let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let requirements = requirements(&text);
    let claims = Claims::of_project(&root)?;
    let report = Report::new(&requirements, &claims);
    for requirement in &report.open {
        let words: Vec<&str> = requirement.text.split_whitespace().collect();
        let more = if words.len() > WORDS { " …" } else { "" };
        let words = words[..words.len().min(WORDS)].join(" ");
        println!("{} [{}] {words}{more}", requirement.id, requirement.tags.join(", "));
    }
    for (id, file) in &claims.named {
        // IDs of other tags are in the list too, so ask the text and not what was taken from it.
        let known = text.lines().any(|line| line.trim_start_matches(['-', ' ']).starts_with(&id.to_string()));
        if !known {
            println!("{}: names {id}, which the list does not have", file.display());
        }
    }
    println!(
        "{} requirements: {} shown by a test, {} settled by a decision, {} with nothing to show, {} open",
        report.total,
        report.shown,
        report.settled,
        report.not_applicable,
        report.open.len()
    );
    Ok(())
}
