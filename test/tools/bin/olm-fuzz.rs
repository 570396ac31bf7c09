//! `make fuzz`: feeds the readers of foreign input with hostile inputs, then with mutated corpora for a while, and says
//! what cost most. The exit code is 0 only if nothing broke or took too much memory; what did is written into the
//! corpus, where every test run replays it.

use std::{process::ExitCode, time::Duration};

use clap::Parser;
use olm_test::tools::fuzz::{TARGETS, hostile};
use peak_alloc::PeakAlloc;

/// Measures what the readers allocate.
#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

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
    for one in hostile() {
        match one.feed() {
            Ok(cost) => {
                let late = if cost.time > cost.time_allowed() { " (TOO LONG)" } else { "" };
                let milliseconds = cost.time.as_secs_f64() * 1e3;
                let peak = cost.peak.div_ceil(1024);
                println!("{one}: {peak} KiB, {milliseconds:.1} ms for {} bytes{late}", cost.bytes);
            }
            Err(error) => {
                println!("{error:#}");
                code = ExitCode::FAILURE;
            }
        }
    }
    for target in
        TARGETS.iter().filter(|target| args.target.as_deref().is_none_or(|name| name == target.name))
    {
        match target.fuzz(seed, Duration::from_secs(args.seconds), u64::MAX) {
            Ok(done) => println!(
                "{}: {} inputs, {} kinds of results; {}",
                target.name, done.inputs, done.kinds, done.worst
            ),
            Err(error) => {
                println!("{error:#}");
                code = ExitCode::FAILURE;
            }
        }
    }
    code
}
