//! Candidates, their order, and what comes of the chosen ones.

use serde_json::{Value, json};

use super::world::{World, bundle, gvk};
use crate::resolve::{Scope, Unresolved, global_namespace};

fn lamps() -> World {
    World::of([
        bundle("lamp", "1.0.0"),
        bundle("lamp", "1.1.0").replaces("1.0.0"),
        bundle("lamp", "1.2.0").replaces("1.1.0").skips("1.0.0"),
        bundle("lamp", "2.0.0").channels(&["next"]).skip_range(">=1.0.0 <2.0.0"),
    ])
}

#[test]
fn the_head_of_the_default_channel_is_installed_first() {
    assert_eq!(lamps().subscribe("s", "lamp", &json!({})).installs(), ["lamp.v1.2.0"]);
    assert_eq!(lamps().subscribe("s", "lamp", &json!({"channel": "next"})).installs(), ["lamp.v2.0.0"]);
    let starting = json!({"channel": "stable", "startingCSV": "lamp.v1.0.0"});
    assert_eq!(lamps().subscribe("s", "lamp", &starting).installs(), ["lamp.v1.0.0"]);
    assert_eq!(lamps().installs(), [""; 0]);
}

#[test]
fn updates_follow_replaces_skips_and_ranges_one_step_at_a_time() {
    let from = |version: &str, fields: &Value| {
        let name = format!("lamp.v{version}");
        let world = lamps().csv(&name, version, None).subscribe_installed("s", "lamp", fields, Some(&name));
        let bundles = world.solution().bundles;
        bundles.into_iter().map(|one| format!("{} replaces {}", one.name, one.replaces)).collect::<Vec<_>>()
    };
    let stable = json!({"channel": "stable"});
    assert_eq!(from("1.0.0", &stable), ["lamp.v1.2.0 replaces lamp.v1.0.0"]);
    assert_eq!(from("1.1.0", &stable), ["lamp.v1.2.0 replaces lamp.v1.1.0"]);
    assert_eq!(from("1.2.0", &stable), [""; 0]);
    assert_eq!(from("1.1.0", &json!({"channel": "next"})), ["lamp.v2.0.0 replaces lamp.v1.1.0"]);
    assert_eq!(from("0.9.0", &json!({"channel": "next"})), [""; 0]);
    assert_eq!(from("1.1.0", &json!({"channel": "stable", "startingCSV": "lamp.v1.0.0"})).len(), 1);
}

#[test]
fn what_is_required_is_installed_with_a_subscription_of_its_own() {
    let solution = World::of([
        bundle("lamp", "1.0.0").needs("Socket").needs_package("fuse", ">=2.0.0"),
        bundle("socket", "1.0.0").provides("Socket"),
        bundle("fuse", "1.0.0"),
        bundle("fuse", "2.0.0").replaces("1.0.0"),
    ])
    .subscribe("s", "lamp", &json!({}))
    .solution();
    let names: Vec<_> = solution.bundles.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["fuse.v2.0.0", "lamp.v1.0.0", "socket.v1.0.0"]);
    assert_eq!(solution.updates, [("s".to_owned(), "lamp.v1.0.0".to_owned())]);
    let generated: Vec<_> =
        solution.generated.iter().map(|one| (one.name.as_str(), one.starting_csv.as_str())).collect();
    assert_eq!(
        generated,
        [("fuse-stable-cat-olm", "fuse.v2.0.0"), ("socket-stable-cat-olm", "socket.v1.0.0")]
    );
}

#[test]
fn expressions_choose_among_all_bundles() {
    let rule = "properties.exists(p, p.type == 'color' && p.value == 'red')";
    let world = World::of([
        bundle("lamp", "1.0.0").needs_rule(rule),
        bundle("bulb", "1.0.0").property("color", &json!("red")),
        bundle("bulb", "2.0.0").replaces("1.0.0").property("color", &json!("blue")),
    ]);
    assert_eq!(world.subscribe("s", "lamp", &json!({})).installs(), ["bulb.v1.0.0", "lamp.v1.0.0"]);
}

/// What lamps need in all of these catalogs, and the one that it comes from.
#[test]
fn catalogs_are_preferred_by_origin_priority_namespace_and_name() {
    let socket = || [bundle("socket", "1.0.0").provides("Socket")];
    let from = |world: World| {
        let solution = world.subscribe("s", "lamp", &json!({})).solution();
        let socket = solution.bundles.into_iter().find(|one| one.package == "socket");
        socket.map(|one| format!("{}/{}", one.catalog_namespace, one.catalog)).unwrap_or_default()
    };
    let lamp = || World::of([bundle("lamp", "1.0.0").needs("Socket")]);
    let two = || lamp().catalog("olm", "b", 0, socket()).catalog("olm", "a", 0, socket());
    assert_eq!(from(two()), "olm/a");
    assert_eq!(from(two().catalog("ns", "z", 0, socket())), "ns/z");
    assert_eq!(from(two().catalog("ns", "z", 0, socket()).catalog("olm", "y", 1, socket())), "olm/y");
    let own =
        World::of([bundle("lamp", "1.0.0").needs("Socket"), bundle("socket", "1.0.0").provides("Socket")]);
    assert_eq!(from(own.catalog("olm", "y", 1, socket())), "olm/cat");
    assert_eq!(from(two().catalog("elsewhere", "x", 9, socket())), "olm/a");
    let installed = json!([{"type": "olm.gvk", "value": gvk("Socket")}]);
    assert_eq!(from(two().csv("socket.v0.1.0", "0.1.0", Some(installed))), "");
}

/// Also if that one has no update and another one, which is preferred, has.
#[test]
fn updates_come_only_from_the_catalog_that_the_subscription_names() {
    let newer = || [bundle("lamp", "2.0.0").replaces("1.0.0").skip_range("<2.0.0")];
    let installed = |world: World| {
        let name = "lamp.v1.0.0";
        let fields = json!({"channel": "stable"});
        world.csv(name, "1.0.0", None).subscribe_installed("s", "lamp", &fields, Some(name)).installs()
    };
    let named = World::of([bundle("lamp", "1.0.0")]);
    assert_eq!(installed(named.catalog("ns", "other", 9, newer())), [""; 0]);
    assert_eq!(installed(World::of(newer())), ["lamp.v2.0.0"]);
}

#[test]
fn one_bundle_of_a_package_and_one_provider_of_a_kind() {
    let world = World::of([
        bundle("lamp", "1.0.0").needs_package("fuse", "<2.0.0"),
        bundle("torch", "1.0.0").needs_package("fuse", ">=1.0.0"),
        bundle("fuse", "1.0.0"),
        bundle("fuse", "2.0.0").replaces("1.0.0"),
        bundle("candle", "1.0.0").provides("Light"),
        bundle("candle", "2.0.0").provides("Fire").replaces("1.0.0"),
        bundle("match", "1.0.0").provides("Fire"),
    ]);
    let both = world.clone().subscribe("t", "torch", &json!({})).subscribe("l", "lamp", &json!({}));
    assert_eq!(both.installs(), ["fuse.v1.0.0", "lamp.v1.0.0", "torch.v1.0.0"]);
    let both = world.subscribe("c", "candle", &json!({})).subscribe("m", "match", &json!({}));
    assert_eq!(both.installs(), ["candle.v1.0.0", "match.v1.0.0"]);
}

/// A property of something that is installed.
fn installed(kind: &str, value: &Value) -> Value {
    json!({"type": kind, "value": value})
}

fn package(name: &str, version: &str) -> Value {
    installed("olm.package", &json!({"packageName": name, "version": version}))
}

#[test]
fn an_update_that_would_take_away_what_another_needs_is_refused() {
    let world = World::of([
        bundle("socket", "1.0.0").provides("Socket"),
        bundle("socket", "2.0.0").replaces("1.0.0"),
        bundle("lamp", "1.0.0").needs("Socket"),
        bundle("lamp", "2.0.0").replaces("1.0.0"),
    ])
    .csv(
        "socket.v1.0.0",
        "1.0.0",
        Some(json!([package("socket", "1.0.0"), installed("olm.gvk", &gvk("Socket"))])),
    )
    .csv(
        "lamp.v1.0.0",
        "1.0.0",
        Some(json!([package("lamp", "1.0.0"), installed("olm.gvk.required", &gvk("Socket"))])),
    )
    .subscribe_installed("socket", "socket", &json!({}), Some("socket.v1.0.0"));
    // The lamp is not updated: nothing asks for it.
    assert_eq!(world.installs(), [""; 0]);
    assert_eq!(
        world.subscribe_installed("lamp", "lamp", &json!({}), Some("lamp.v1.0.0")).installs(),
        ["lamp.v2.0.0", "socket.v2.0.0"]
    );
}

/// The package of what is installed is not always known.
#[test]
fn a_bundle_does_not_need_what_it_replaces() {
    let world = World::of([
        bundle("lamp", "1.0.0").provides("Socket"),
        bundle("lamp", "2.0.0").replaces("1.0.0").needs("Socket"),
    ])
    .csv("lamp.v1.0.0", "1.0.0", Some(json!([installed("olm.gvk", &gvk("Socket"))])))
    .subscribe_installed("s", "lamp", &json!({}), Some("lamp.v1.0.0"));
    assert_eq!(world.installs(), [""; 0]);
}

#[test]
fn bundles_that_need_each_other_are_updated_together() {
    let of = |name: &str, other: &str, version: &str| {
        bundle(name, version).needs_package(other, &format!("={version}"))
    };
    let world = World::of([
        of("lamp", "socket", "1.0.0"),
        of("lamp", "socket", "2.0.0").replaces("1.0.0"),
        of("socket", "lamp", "1.0.0"),
        of("socket", "lamp", "2.0.0").replaces("1.0.0"),
    ]);
    let world = ["lamp", "socket"].iter().fold(world, |world, name| {
        let csv = format!("{name}.v1.0.0");
        world.csv(&csv, "1.0.0", Some(json!([package(name, "1.0.0")]))).subscribe_installed(
            name,
            name,
            &json!({}),
            Some(&csv),
        )
    });
    assert_eq!(world.installs(), ["lamp.v2.0.0", "socket.v2.0.0"]);
}

#[test]
fn deprecated_bundles_are_not_chosen() {
    let world = World::of([bundle("lamp", "1.0.0"), bundle("lamp", "2.0.0").replaces("1.0.0").deprecated()]);
    assert_eq!(world.subscribe("s", "lamp", &json!({})).installs(), ["lamp.v1.0.0"]);
}

#[test]
fn a_subscription_that_is_up_to_date_changes_nothing() {
    let world = World::of([bundle("lamp", "1.0.0")]);
    let current = world.clone().csv("lamp.v1.0.0", "1.0.0", None);
    let current = current.subscribe_installed("s", "lamp", &json!({}), Some("lamp.v1.0.0")).solution();
    assert_eq!((current.bundles.len(), current.updates.len(), current.generated.len()), (0, 0, 0));
    // Its ClusterServiceVersion is gone.
    let gone = world.subscribe_installed("s", "lamp", &json!({}), Some("lamp.v1.0.0")).solution();
    assert_eq!((gone.bundles.len(), gone.updates.len()), (1, 0));
}

#[test]
fn older_subscriptions_choose_first() {
    let mut world = World::of([
        bundle("lamp", "1.0.0").provides("Light"),
        bundle("lamp", "2.0.0").provides("Fire").replaces("1.0.0"),
        bundle("candle", "1.0.0").provides("Light"),
        bundle("candle", "2.0.0").provides("Fire").replaces("1.0.0"),
    ])
    .subscribe("a", "lamp", &json!({}))
    .subscribe("b", "candle", &json!({}));
    assert_eq!(world.installs(), ["candle.v1.0.0", "lamp.v2.0.0"]);
    for (subscription, created) in
        world.subscriptions.iter_mut().zip(["2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z"])
    {
        subscription.metadata.creation_timestamp = Some(serde_json::from_value(json!(created)).unwrap());
    }
    assert_eq!(world.installs(), ["candle.v2.0.0", "lamp.v1.0.0"]);
}

/// Upstream's texts for what no solver has to look at.
#[test]
fn a_catalog_that_cannot_be_read_holds_up_what_it_could_change() {
    let world = World::of([
        bundle("lamp", "1.0.0"),
        bundle("torch", "1.0.0").needs("Battery"),
        bundle("battery", "1.0.0").provides("Battery"),
        bundle("radio", "1.0.0").needs("Antenna"),
        bundle("fan", "1.0.0").needs("Motor"),
    ])
    .catalog("olm", "other", 0, [bundle("motor", "1.0.0").provides("Motor")])
    .unreadable("broken", "no connection")
    .subscribe("f", "fan", &json!({}))
    .subscribe("l", "lamp", &json!({}))
    .subscribe("t", "torch", &json!({}))
    .subscribe("r", "radio", &json!({}))
    .subscribe("x", "other", &json!({"source": "broken"}));
    let text = "error using catalogsource olm/broken: no connection";
    assert_eq!(world.error(), text);
    let parts = world.parts(Scope::Related);
    let outcomes: Vec<_> = parts
        .iter()
        .map(|part| {
            let outcome = part.outcome.as_ref().map(|solution| solution.bundles.len());
            (part.subscriptions.join(" "), outcome.map_err(ToString::to_string))
        })
        .collect();
    assert_eq!(
        outcomes,
        [
            ("f".to_owned(), Err(text.to_owned())),
            ("l".to_owned(), Ok(1)),
            ("r".to_owned(), Err(text.to_owned())),
            ("t".to_owned(), Ok(2)),
            ("x".to_owned(), Err(text.to_owned())),
        ]
    );
}

#[test]
fn channels_without_order_and_constraints_without_sense_stop_their_subscriptions_only() {
    let world = World::of([
        bundle("lamp", "1.0.0"),
        bundle("lamp", "2.0.0"),
        bundle("torch", "1.0.0").property("olm.constraint", &json!({"nonsense": 1})),
        bundle("radio", "1.0.0"),
    ])
    .subscribe("l", "lamp", &json!({}))
    .subscribe("r", "radio", &json!({}))
    .subscribe("t", "torch", &json!({}));
    let error = world.error();
    let chains =
        "2 replacement chains were found in channel \"stable\" of package \"lamp\": lamp.v1.0.0, lamp.v2.0.0";
    assert!(error.starts_with('[') && error.contains(chains), "{error}");
    assert!(
        error.contains("bundle cat/olm/stable/torch.v1.0.0: property olm.constraint: want one of"),
        "{error}"
    );
    let solved: Vec<_> = world.parts(Scope::Related).into_iter().map(|part| part.outcome.is_ok()).collect();
    assert_eq!(solved, [false, true, false]);
}

#[test]
fn properties_of_a_csv_that_cannot_be_read_are_named() {
    let mut world = World::of([bundle("lamp", "1.0.0")]).csv("lamp.v0.9.0", "0.9.0", Some(json!([])));
    let annotations = world.csvs[0].metadata.annotations.as_mut().unwrap();
    annotations.insert("operatorframework.io/properties".to_owned(), "{".to_owned());
    let error = world.subscribe_installed("s", "lamp", &json!({}), Some("lamp.v0.9.0")).error();
    assert!(
        error.starts_with("clusterserviceversion lamp.v0.9.0: annotation operatorframework.io/properties: "),
        "{error}"
    );
}

#[test]
fn global_catalogs_are_seen_unless_the_group_excludes_them() {
    let group = |annotations: Value| {
        serde_json::from_value(json!({"metadata": {"annotations": annotations}, "spec": {}})).unwrap()
    };
    let plain = [group(json!({}))];
    assert_eq!(global_namespace(&plain, "olm"), Ok(Some("olm")));
    let excluding = [group(json!({"olm.operatorframework.io/exclude-global-namespace-resolution": "true"}))];
    assert_eq!(global_namespace(&excluding, "olm"), Ok(None));
    let none = global_namespace(&[], "olm").unwrap_err();
    assert_eq!(none.to_string(), "expected 1 OperatorGroup in the namespace, found 0");
    assert!(matches!(
        lamps().subscribe("s", "nothing", &json!({})).parts(Scope::Related)[0].outcome,
        Err(Unresolved::Conflict(_))
    ));
}
