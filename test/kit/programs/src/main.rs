//! `olm-demo-build`: builds what `make demo` needs and does not have, and shows how far that is.

use std::process::ExitCode;

#[expect(clippy::print_stderr, reason = "the program's output")]
fn main() -> ExitCode {
    match olm_test_programs::demo::build() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("demo: {error:#}");
            ExitCode::FAILURE
        }
    }
}
