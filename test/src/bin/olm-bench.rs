//! `make bench`: prints one line a figure, `BENCH <name> <value> <unit>`. The exit code says only whether
//! everything could be measured.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    match olm_test::bench::run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}
