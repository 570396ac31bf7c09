//! What is said of candidates that are not chosen.

use serde_json::json;

use super::{
    reference::Universe,
    world::{World, bundle},
};
use crate::{
    limits::CANDIDATES_MAX,
    resolve::{Scope, candidates},
};

/// What is said of the candidates of a Subscription, in order, and how many more there are.
fn answers(world: &World, subscription: &str) -> (Vec<(String, String)>, usize) {
    world.with_catalogs(|catalogs| {
        let (all, more) = candidates(&world.request(Scope::Related), catalogs, subscription);
        (all.into_iter().map(|one| (one.name, one.reason)).collect(), more)
    })
}

fn said(world: &World, subscription: &str) -> Vec<(String, String)> {
    answers(world, subscription).0
}

fn pairs(all: &[(&str, &str)]) -> Vec<(String, String)> {
    all.iter().map(|(name, reason)| ((*name).to_owned(), (*reason).to_owned())).collect()
}

#[test]
fn each_candidate_says_why_it_was_left() {
    let chain = [
        bundle("lamp", "1.0.0"),
        bundle("lamp", "2.0.0").replaces("1.0.0"),
        bundle("lamp", "3.0.0").replaces("2.0.0").needs("Cord"),
    ];
    let world = World::of(chain.clone()).subscribe("s", "lamp", &json!({}));
    let cord = "bundle lamp.v3.0.0 requires an operator providing an API with group: example.com, version: v1, kind: Cord";
    assert_eq!(
        said(&world, "s"),
        pairs(&[
            ("lamp.v3.0.0", cord),
            ("lamp.v2.0.0", "chosen"),
            ("lamp.v1.0.0", "lamp.v2.0.0 is preferred")
        ])
    );
    let starting = World::of(chain.clone()).subscribe("s", "lamp", &json!({"startingCSV": "lamp.v1.0.0"}));
    let named = "spec.startingCSV is lamp.v1.0.0";
    assert_eq!(
        said(&starting, "s"),
        pairs(&[("lamp.v3.0.0", named), ("lamp.v2.0.0", named), ("lamp.v1.0.0", "chosen")])
    );
    let installed = World::of(chain).subscribe_installed("s", "lamp", &json!({}), Some("lamp.v1.0.0")).csv(
        "lamp.v1.0.0",
        "1.0.0",
        None,
    );
    let skipped = "it does not replace, skip or cover in its skipRange lamp.v1.0.0";
    assert_eq!(
        said(&installed, "s"),
        pairs(&[("lamp.v3.0.0", skipped), ("lamp.v2.0.0", "chosen"), ("lamp.v1.0.0", "installed")])
    );
    assert!(said(&installed, "other").is_empty());
}

#[test]
fn of_many_candidates_a_few_are_listed() {
    let versions = (0..500).map(|at| {
        let one = bundle("lamp", &format!("{at}.0.0")).needs(&format!("Kind{at}"));
        if at > 0 { one.replaces(&format!("{}.0.0", at - 1)) } else { one }
    });
    let world = World::of(versions).subscribe("s", "lamp", &json!({}));
    let (all, more) = answers(&world, "s");
    assert_eq!((all.len(), more), (CANDIDATES_MAX, 500 - CANDIDATES_MAX));
    assert!(all[0].1.contains("Kind499"), "{all:?}");
}

/// Of random namespaces: what is chosen is what is to be installed, and everything else has a reason.
#[test]
fn every_candidate_has_a_reason() {
    let mut reasons = 0;
    for seed in 0..1_000 {
        let world = Universe::random(seed).world;
        for subscription in &world.subscriptions {
            let name = subscription.metadata.name.as_deref().unwrap();
            let of_name = |part: &&crate::resolve::Part| part.subscriptions.iter().any(|one| one == name);
            let parts = world.parts(Scope::Related);
            let solved = parts.iter().find(of_name).and_then(|part| part.outcome.as_ref().ok());
            world.with_catalogs(|catalogs| {
                for one in candidates(&world.request(Scope::Related), catalogs, name).0 {
                    assert!(!one.reason.is_empty(), "seed {seed}: {one:?}");
                    assert!(!one.is_chosen || solved.is_some(), "seed {seed}: {one:?}");
                    reasons += 1;
                }
            });
        }
    }
    assert!(reasons > 1_000, "{reasons} reasons");
}
