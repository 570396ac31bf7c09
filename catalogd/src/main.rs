//! The program `catalogd`.

use std::process::ExitCode;

use catalogd::Command;
use clap::Parser;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let command = Command::parse();
    olm_runtime::run_main("catalogd", &command.process.clone(), |shutdown| Box::pin(command.run(shutdown)))
}
