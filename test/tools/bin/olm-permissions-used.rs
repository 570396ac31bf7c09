//! The end of `make test`: the programs' tables of permissions compared with what their requests used in all suites.
//!
//! `olm-permissions-used <folder>`, the folder being the one that `OLM_TEST_PERMISSIONS` named for the tests. The exit code is
//! 0 if every request was covered by a row and each permission of the tables was used. With `--some` before the folder not
//! all tests were run, and permissions may be unused.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use olm_test::permissions_used::{Report, Subject, kept, wait_for_ends};

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
    let reports = Subject::ALL.map(|subject| (subject.name(), Report::new(subject, &requests)));
    for (program, report) in &reports {
        print_used(program, report);
    }
    // What is wrong comes last: of a long output, the end is what people look at.
    let as_it_should = reports.map(|(program, report)| print_result(program, clusters, some, &report));
    Ok(as_it_should == [true; 3])
}

fn print_used(program: &str, report: &Report) {
    for (permission, count) in &report.used {
        let place = if permission.in_system_namespace { "in the system's namespace " } else { "" };
        let why = permission.without_request().filter(|_| *count == 0).unwrap_or_default();
        println!(
            "{count:>8} {program}: {} {}.{} {place}{why}",
            permission.verb, permission.resource, permission.group
        );
    }
}

/// Prints the comparison of one program; whether it is as it should be. Unused permissions are, where only `some` of the
/// tests were run.
fn print_result(program: &str, clusters: usize, some: bool, report: &Report) -> bool {
    for (what, requests) in [("no row covers", &report.outside), ("revoked by a test", &report.revoked)] {
        for (request, count) in requests {
            println!("{program}: {what}: {count} x {request:?}");
        }
    }
    let unused = report.unused();
    for permission in &unused {
        println!("not used by {program}: {} {}.{}", permission.verb, permission.resource, permission.group);
    }
    println!(
        "{program} in {clusters} clusters: {} permissions, {} not used; {} kinds of requests outside of the table",
        report.used.len(),
        unused.len(),
        report.outside.len()
    );
    (some || unused.is_empty()) && report.outside.is_empty()
}
