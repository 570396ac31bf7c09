//! `make bench`: prints one line a figure, `BENCH <name> <value> <unit>`. The exit code says only whether
//! everything could be measured.

use std::process::ExitCode;

use clap::Parser;
use olm_test::tools::bench::{Part, run};

/// Measures the release build on a control plane and a registry of its own.
#[derive(Debug, Parser)]
struct Args {
    /// What to measure; everything if nothing is named.
    #[arg(value_enum)]
    parts: Vec<Part>,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(&Args::parse().parts).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}
