//! The command line for catalogs, bundles and clusters.
//!
//! Each group of commands has a file; [`commands::Command`] is the table of them. A command gets its arguments
//! and writes to the output it is given; only `main` knows of the process.

mod bundle;
mod catalog;
mod cluster;
mod commands;
mod crd;
mod diff;
mod output;
mod pack;
mod progress;
mod resolve;
mod sources;
mod status;

use std::process::ExitCode;

use clap::Parser;

/// Works with operator catalogs and bundles, and with clusters that install them.
#[derive(Parser)]
#[command(name = "olm", version)]
struct Arguments {
    #[command(subcommand)]
    command: commands::Command,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read the answer has read enough, as `head` does.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let exit = error.downcast_ref::<output::Exit>();
            if exit.is_none_or(|exit| !exit.is_told()) {
                output::error(&error);
            }
            exit.map_or(ExitCode::FAILURE, output::Exit::code)
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let cause = error.root_cause().downcast_ref::<std::io::Error>();
    cause.is_some_and(|cause| cause.kind() == std::io::ErrorKind::BrokenPipe)
}

fn run(arguments: Arguments) -> anyhow::Result<()> {
    rustls::crypto::aws_lc_rs::default_provider()
        .install_default()
        .map_err(|_| anyhow::anyhow!("a TLS provider is installed already"))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(arguments.command.run(&mut std::io::stdout()))
}
