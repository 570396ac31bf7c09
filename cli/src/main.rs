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
    let mut out = output::Output::new();
    match run(arguments, &mut out) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) if out.is_closed() => ExitCode::SUCCESS,
        Err(error) => {
            let exit = error.downcast_ref::<output::Exit>();
            if !exit.is_some_and(output::Exit::is_reported) {
                output::error(&error);
            }
            exit.map_or(ExitCode::FAILURE, output::Exit::code)
        }
    }
}

fn run(arguments: Arguments, out: &mut output::Output) -> anyhow::Result<()> {
    rustls::crypto::aws_lc_rs::default_provider()
        .install_default()
        .map_err(|_| anyhow::anyhow!("a TLS provider is installed already"))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(arguments.command.run(out))
}
