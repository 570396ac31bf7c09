//! `make demo`: an operator installed and upgraded on a real control plane, from images in a registry.
//!
//! With `DEMO_EXIT=1` it ends then, with exit code 0 only if everything was installed; otherwise it stays up
//! and prints lines to try. On the cluster of `KUBECONFIG` it asks first and removes at the end what it made.

mod installation;
mod place;
mod sample;
mod screen;
mod stand_in;
mod steps;

use std::process::ExitCode;

use futures::FutureExt as _;
use olm_test::{cluster, prelude::*};
use tokio::signal::unix::{Signal, SignalKind, signal};

use place::Place;
use steps::Demo;

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            screen::failed(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<()> {
    cluster::install_crypto_provider();
    // Asks before signals are listened for, so that Ctrl-C at the question ends the program.
    let place = Place::choose()?;
    let mut signals = Signals::listen()?;
    let demo = Demo::new(place)?;
    let ended = tokio::select! {
        biased;
        () = signals.next() => interrupted(&demo),
        ended = demo.run() => ended,
    };
    // A signal that came with the error is what caused it.
    let ended =
        if ended.is_err() && signals.next().now_or_never().is_some() { interrupted(&demo) } else { ended };
    let removed = tokio::select! {
        biased;
        () = signals.next() => demo.left_behind(),
        removed = demo.remove() => removed,
    };
    match (ended, removed) {
        (Err(error), Err(removal)) => bail!("{error:#}; then the removal failed: {removal:#}"),
        (ended, removed) => ended.and(removed),
    }
}

/// Ctrl-C is how the demo ends that stays up; before that something was cut off.
fn interrupted(demo: &Demo) -> Result<()> {
    screen::line("");
    if demo.is_up() { Ok(()) } else { bail!("interrupted before everything was installed") }
}

/// What asks the demo to end.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn listen() -> Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
