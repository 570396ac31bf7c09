//! The program operator-controller.

mod args;

use std::{process::ExitCode, time::Duration};

use clap::Parser;
use olm_runtime::{ends_in_time, init_logs, run_program, without_huge_pages};
use operator_controller::Operator;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How long the program may take to end.
const ENDS: Duration = Duration::from_secs(9);

fn main() -> ExitCode {
    without_huge_pages();
    let args = args::Args::parse();
    match run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            args::tell(&format!("Error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(args: args::Args) -> anyhow::Result<()> {
    if args.wants_version() {
        args::tell_version();
        return Ok(());
    }
    let traces = init_logs(args.verbosity(), "operator-controller");
    for told in args.without_effect() {
        tracing::warn!("{told}");
    }
    // The only failure is that a provider is installed already, which is what is wanted.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let ended = run_program(async {
        let shutdown = olm_runtime::on_signal()?;
        let running = async {
            let config = args.into_config().await?;
            catalogd::log_gates(config.gates.states().into_iter().chain(config.catalogd.gates()));
            anyhow::Ok(Box::pin(Operator::new(config)?.run(shutdown.clone())).await?)
        };
        ends_in_time(running, &shutdown, ENDS).await.unwrap_or(Ok(()))
    })?;
    traces.end();
    ended
}
