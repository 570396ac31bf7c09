//! Rules of a namespace and of a Subscription that change what may be chosen.

use serde_json::json;

use super::world::{World, bundle};
use crate::resolve::{Scope, VERSION_RANGE_ANNOTATION};

fn chain() -> World {
    World::of([
        bundle("lamp", "1.0.0"),
        bundle("lamp", "2.0.0").replaces("1.0.0"),
        bundle("lamp", "3.0.0").replaces("2.0.0"),
    ])
}

/// The version that is chosen, or the error.
fn chosen(world: &World) -> String {
    let parts = world.parts(Scope::Related);
    match &parts[0].outcome {
        Ok(solution) => solution.updates.iter().map(|(_, csv)| csv.clone()).collect(),
        Err(error) => error.to_string(),
    }
}

fn with_phases(mut world: World, phases: &[&str]) -> World {
    let mut earlier = None;
    for (csv, phase) in world.csvs.iter_mut().zip(phases) {
        csv.status.get_or_insert_default().phase = Some((*phase).to_owned());
        csv.spec.replaces = earlier.take();
        earlier.clone_from(&csv.metadata.name);
    }
    world
}

fn upgraded(phases: &[&str]) -> World {
    let package = |version: &str| json!([{"type": "olm.package", "value": {"packageName": "lamp", "version": version}}]);
    let world = chain()
        .subscribe_installed("lamp", "lamp", &json!({}), Some("lamp.v2.0.0"))
        .csv("lamp.v1.0.0", "1.0.0", Some(package("1.0.0")))
        .csv("lamp.v2.0.0", "2.0.0", Some(package("2.0.0")));
    with_phases(world, phases)
}

#[test]
fn a_version_that_failed_is_replaced_where_the_group_allows_it() {
    let mut world = upgraded(&["Replacing", "Failed"]);
    assert!(chosen(&world).contains("lamp.v1.0.0 exists and is not referenced by a subscription"));
    world.fails_forward = true;
    assert_eq!(chosen(&world), "lamp.v3.0.0");
}

#[test]
fn only_a_chain_of_replacements_that_ends_in_a_failure_is_left_out() {
    for phases in [["Replacing", "Installing"], ["Succeeded", "Failed"], ["Deleting", "Failed"]] {
        let mut world = upgraded(&phases);
        world.fails_forward = true;
        assert!(chosen(&world).starts_with("constraints not satisfiable"), "{phases:?}");
    }
}

#[test]
fn replacements_in_a_circle_end() {
    let mut world = upgraded(&["Replacing", "Replacing"]);
    world.csvs[0].spec.replaces = Some("lamp.v2.0.0".to_owned());
    world.fails_forward = true;
    assert!(chosen(&world).starts_with("constraints not satisfiable"));
}

#[test]
fn a_range_of_versions_limits_what_may_be_chosen() {
    let with_range = |range: &str, installed: Option<&str>| {
        let mut world = chain().subscribe_installed("lamp", "lamp", &json!({}), installed);
        if let Some(installed) = installed {
            world = world.csv(installed, "1.0.0", None);
        }
        let annotations = [(VERSION_RANGE_ANNOTATION.to_owned(), range.to_owned())];
        world.subscriptions[0].metadata.annotations = Some(annotations.into());
        chosen(&world)
    };
    assert_eq!(with_range("<3.0.0", None), "lamp.v2.0.0");
    assert_eq!(with_range(">=2.0.0", Some("lamp.v1.0.0")), "lamp.v2.0.0");
    assert_eq!(with_range("<2.0.0", Some("lamp.v1.0.0")), "", "what is installed may stay");
    assert!(with_range(">4.0.0", None).contains("no operators found matching the criteria"));
    let invalid = with_range("new", None);
    assert!(invalid.contains("subscription lamp: annotation olm.classic/version-range: "), "{invalid}");
}
