//! The program `catalogd`.

use std::process::ExitCode;

use catalogd::{Command, CommandError};
use clap::Parser;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    olm_runtime::without_huge_pages();
    if rustls::crypto::aws_lc_rs::default_provider().install_default().is_err() {
        // Somebody else installed one first, which cannot happen before the first line.
        return ExitCode::FAILURE;
    }
    let command = Command::parse();
    let traces = olm_runtime::init_logs(command.shared.verbosity, "catalogd");
    let ended = olm_runtime::run_program(command.run());
    traces.end();
    match ended.map_err(CommandError::from).and_then(|ended| ended) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tell(&format!("Error: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Prints why the program ends, as the original does.
#[expect(clippy::print_stderr, reason = "the last words of the program, after logging")]
fn tell(text: &str) {
    eprintln!("{text}");
}
