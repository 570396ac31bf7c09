//! `make fuzz`: feeds the readers of foreign input with mutated corpora for a while. The exit code is 0 only if
//! nothing broke; what did is written into the corpus, where every test run replays it.

use std::{process::ExitCode, time::Duration};

use clap::Parser;
use olm_test::fuzz::TARGETS;

#[derive(Parser)]
struct Args {
    /// Seconds for each target.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Seed of the mutations [default: a random one].
    #[arg(long)]
    seed: Option<u64>,
    /// Only the target of this name.
    #[arg(long)]
    target: Option<String>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let seed = args.seed.unwrap_or_else(|| fastrand::u64(..));
    println!("seed {seed}");
    let mut code = ExitCode::SUCCESS;
    for target in
        TARGETS.iter().filter(|target| args.target.as_deref().is_none_or(|name| name == target.name))
    {
        match target.fuzz(seed, Duration::from_secs(args.seconds), u64::MAX) {
            Ok(done) => println!("{}: {} inputs, {} kinds of results", target.name, done.inputs, done.kinds),
            Err(error) => {
                println!("{error:#}");
                code = ExitCode::FAILURE;
            }
        }
    }
    code
}
