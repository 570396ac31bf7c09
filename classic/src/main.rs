//! The program `olm-classic`.

use std::process::ExitCode;

use clap::Parser;
use olm_classic::Command;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let command = Command::parse();
    olm_runtime::run_main("olm-classic", &command.process.clone(), |shutdown| Box::pin(command.run(shutdown)))
}
