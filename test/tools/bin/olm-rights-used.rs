//! `make test`'s last line: the programs' tables of rights beside what their requests used in all suites.
//!
//! `olm-rights-used <folder>`, the folder being the one that `OLM_TEST_RIGHTS` named for the tests. The exit code is
//! 0 if every request was covered by a row and each right of the tables was used. With `--some` before the folder the
//! tests were not all there are, and rights may have gone without use.

use std::process::ExitCode;

use olm_test::{
    prelude::*,
    rights_used::{Report, kept, wait_for_ends},
};

fn main() -> ExitCode {
    match compare() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn compare() -> Result<bool> {
    let mut arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let some = arguments.first().is_some_and(|first| first == "--some");
    let folder = PathBuf::from(arguments.pop().context("which folder?")?);
    wait_for_ends(&folder)?;
    let (clusters, requests) = kept(&folder)?;
    if clusters == 0 {
        println!("skipped: the clusters of these tests show no audit log");
        return Ok(true);
    }
    let of_operator = told("operator-controller", clusters, some, &Report::new(false, &requests));
    let of_catalogd = told("catalogd", clusters, some, &Report::new(true, &requests));
    Ok(of_operator && of_catalogd)
}

/// Tells of one program; whether all is well. Rights without use are, where only `some` of the tests were run.
fn told(program: &str, clusters: usize, some: bool, report: &Report) -> bool {
    for (right, count) in &report.used {
        let place = if right.in_system_namespace { "in the system's namespace " } else { "" };
        let why = right.without_request().filter(|_| *count == 0).unwrap_or_default();
        println!("{count:>8} {program}: {} {}.{} {place}{why}", right.verb, right.resource, right.group);
    }
    for (what, requests) in [("no row covers", &report.outside), ("taken away by a test", &report.taken_away)]
    {
        for (request, count) in requests {
            println!("{what}: {count} x {request:?}");
        }
    }
    let unused = report.unused();
    for right in &unused {
        println!("not used by {program}: {} {}.{}", right.verb, right.resource, right.group);
    }
    println!(
        "{program} in {clusters} clusters: {} rights, {} not used; {} kinds of requests outside of the table",
        report.used.len(),
        unused.len(),
        report.outside.len()
    );
    (some || unused.is_empty()) && report.outside.is_empty()
}
