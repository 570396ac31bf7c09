//! The scenarios of `features`, in Gherkin, run by cucumber: on a control plane and programs of our own, or on
//! the cluster of `KUBECONFIG` where the manifests are applied.
//!
//! What a given cluster must offer is in `place/given.rs`. Arguments are regular expressions for the names of
//! scenarios; without any, all run. What is left out is counted and told with its reason; a step that nothing
//! implements is a failure.

mod bundles;
mod kinds;
mod left_out;
mod match_parts;
mod place;
mod steps;
mod tls;
mod world;

use std::sync::Mutex;

use cucumber::{
    World as _, WriterExt as _, gherkin,
    runner::basic::ScenarioType::{Concurrent, Serial},
    writer::{self, Stats as _},
};
use olm_test::prelude::*;
use regex::Regex;

use crate::{left_out::NOT_OURS, place::Place, world::World};

/// Scenarios that run at the same time: mostly they wait, but two cores run a whole control plane.
const AT_ONCE: usize = 10;

/// Scenario names with the reason they are left out.
static LEFT_OUT: Mutex<Vec<(String, String)>> = Mutex::new(Vec::new());

#[tokio::main]
async fn main() -> Result<()> {
    // Flags are libtest's, which `cargo test` hands to every suite.
    let wanted: Vec<Regex> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .map(|argument| Regex::new(&argument))
        .collect::<Result<_, _>>()?;
    if std::env::args().any(|argument| argument == "--list") {
        return Ok(());
    }
    if !Place::is_ready() {
        let missing = "nothing shows that the manifests are applied (OLM_E2E_REGISTRY_PUSH)";
        olm_test::data::skip(&format!("KUBECONFIG is set, but {missing}"));
        return Ok(());
    }
    let place = Place::shared().await?;
    let run = move |feature: &gherkin::Feature, _: Option<&gherkin::Rule>, scenario: &gherkin::Scenario| {
        let name = format!("{}: {}", feature.name, scenario.name);
        if !(wanted.is_empty() || wanted.iter().any(|wanted| wanted.is_match(&name))) {
            return false;
        }
        let tags: Vec<&str> = feature.tags.iter().chain(&scenario.tags).map(String::as_str).collect();
        match left_out::reason(place.facts(), &tags) {
            None => true,
            Some(reason) => {
                let mut left_out = LEFT_OUT.lock().unwrap();
                left_out.push((name, reason));
                false
            }
        }
    };
    let features = Path::new(env!("CARGO_MANIFEST_DIR")).join("suites/scenarios/features");
    let ended = World::cucumber()
        .max_concurrent_scenarios(AT_ONCE)
        .which_scenario(|feature, _, scenario| {
            let serial = feature.tags.iter().chain(&scenario.tags).any(|tag| tag == "serial");
            if serial { Serial } else { Concurrent }
        })
        .after(|_, _, _, finished, world| Box::pin(world::clean_up(finished, world)))
        .with_writer(writer::Basic::stdout().summarized())
        .fail_on_skipped()
        .with_default_cli()
        .filter_run(features, run)
        .await;
    let stats = ended.inner_writer().scenarios_stats();
    tell(place, stats);
    anyhow::ensure!(!ended.execution_has_failed(), "scenarios failed");
    anyhow::ensure!(stats.total() > 0, "no scenario has run");
    Ok(())
}

/// The counts, and what was left out for which reason.
fn tell(place: &Place, stats: &writer::summarize::Stats) {
    let left_out = LEFT_OUT.lock().unwrap();
    println!("\nleft out:");
    for (name, reason) in left_out.iter() {
        println!("  {name}: {reason}");
    }
    for (name, reason) in NOT_OURS {
        println!("  {name}: {reason}");
    }
    println!(
        "scenarios on {}: {} run, {} passed, {} failed; {} left out here, {} that do not apply to this program",
        place.facts().name,
        stats.total(),
        stats.passed,
        stats.failed,
        left_out.len(),
        NOT_OURS.len(),
    );
}
