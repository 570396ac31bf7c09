//! The program operator-controller.

mod args;

use std::process::ExitCode;

use clap::Parser;
use olm_runtime::{Process, log_gates, run_main};
use operator_controller::Operator;
use tokio_util::sync::CancellationToken;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let args = args::Args::parse();
    run_main("operator-controller", &args.process.clone(), |shutdown| Box::pin(run(args, shutdown)))
}

async fn run(args: args::Args, shutdown: CancellationToken) -> anyhow::Result<()> {
    let (config, settings) = args.into_config().await?;
    log_gates(config.gates.states().chain(config.catalogd.gates()));
    let process = Process::new(settings, &shutdown)?;
    Ok(Box::pin(Operator::new(config, process)?.run()).await?)
}
