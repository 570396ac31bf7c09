//! Conflicts: upstream's words, and the sentence for people.

use serde_json::{Value, json};

use super::world::{World, bundle};

/// A conflict has these lines and this sentence.
fn check(world: &World, lines: &[&str], explanation: &str) {
    let conflict = world.conflict();
    assert_eq!(conflict.lines, lines);
    assert_eq!(conflict.explanation, explanation);
    assert_eq!(world.error(), format!("constraints not satisfiable: {}", lines.join(", ")));
}

fn lamps(fields: &Value) -> World {
    World::of([bundle("lamp", "1.0.0"), bundle("lamp", "1.1.0").replaces("1.0.0")])
        .subscribe("s", "lamp", fields)
}

#[test]
fn what_a_subscription_names_is_not_there() {
    check(
        &lamps(&json!({"source": "dog"})),
        &[
            "no operators found from catalog dog in namespace olm referenced by subscription s",
            "subscription s exists",
        ],
        "Subscription \"s\" names the CatalogSource olm/dog, which namespace \"ns\" does not see: correct spec.source and \
         spec.sourceNamespace",
    );
    check(
        &lamps(&json!({"source": "empty"})).catalog("olm", "empty", 0, []),
        &[
            "no operators found from catalog empty in namespace olm referenced by subscription s",
            "subscription s exists",
        ],
        "Subscription \"s\" names the CatalogSource olm/empty, which has no bundles: use another one, or wait for content",
    );
    check(
        &lamps(&json!({"name": "lapm"})),
        &[
            "no operators found in package lapm in the catalog referenced by subscription s",
            "subscription s exists",
        ],
        "Subscription \"s\" asks for package \"lapm\", which the CatalogSource olm/cat does not have: correct spec.name. Did \
         you mean lamp?",
    );
    check(
        &lamps(&json!({"channel": "beta"})),
        &[
            "no operators found in channel beta of package lamp in the catalog referenced by subscription s",
            "subscription s exists",
        ],
        "Subscription \"s\" asks for channel \"beta\" of package \"lamp\", which the CatalogSource olm/cat does not have: set \
         spec.channel to \"stable\"",
    );
    check(
        &lamps(&json!({"channel": "stable", "startingCSV": "lamp.v1.0.1"})),
        &[
            "no operators found with name lamp.v1.0.1 in channel stable of package lamp in the catalog referenced by \
             subscription s",
            "subscription s exists",
        ],
        "Subscription \"s\" starts with \"lamp.v1.0.1\", which no channel that it may use has: correct or remove \
         spec.startingCSV. Did you mean lamp.v1.0.0 or lamp.v1.1.0?",
    );
}

#[test]
fn nothing_meets_a_requirement() {
    let world = World::of([
        bundle("lamp", "1.0.0").needs("Socket"),
        bundle("lamp", "2.0.0").replaces("1.0.0").needs("Plug").needs_package("fuse", ">1.0.0"),
    ]);
    check(
        &world.subscribe("s", "lamp", &json!({})),
        &[
            "bundle lamp.v1.0.0 requires an operator providing an API with group: example.com, version: v1, kind: Socket",
            "bundle lamp.v2.0.0 requires an operator with package: fuse and with version in range: >1.0.0",
            "subscription s exists",
            "subscription s requires at least one of cat/olm/stable/lamp.v2.0.0 or cat/olm/stable/lamp.v1.0.0",
        ],
        "there is no solution for Subscription \"s\" because lamp.v1.0.0 requires an operator providing an API with group: \
         example.com, version: v1, kind: Socket, and there is none; lamp.v2.0.0 requires an operator with package: fuse and \
         with version in range: >1.0.0, and there is none: add a catalog that offers what is required, or choose another \
         channel or version",
    );
}

#[test]
fn a_csv_without_subscription_is_in_the_way() {
    let properties = json!([{"type": "olm.package", "value": {"packageName": "lamp", "version": "1.0.0"}}]);
    check(
        &lamps(&json!({})).csv("lamp.v1.0.0", "1.0.0", Some(properties)),
        &[
            "@existing/ns//lamp.v1.0.0, cat/olm/stable/lamp.v1.0.0 and cat/olm/stable/lamp.v1.1.0 originate from package lamp",
            "clusterserviceversion lamp.v1.0.0 exists and is not referenced by a subscription",
            "subscription s exists",
            "subscription s requires at least one of cat/olm/stable/lamp.v1.1.0 or cat/olm/stable/lamp.v1.0.0",
        ],
        "there is no solution for Subscription \"s\" together with the installed ClusterServiceVersion \"lamp.v1.0.0\", which \
         has no Subscription, because only one bundle of package lamp may be installed in a namespace: delete \
         ClusterServiceVersion \"lamp.v1.0.0\" or the Subscription",
    );
}

#[test]
fn two_subscriptions_exclude_each_other() {
    let world =
        World::of([bundle("lamp", "1.0.0").provides("Light"), bundle("torch", "1.0.0").provides("Light")]);
    check(
        &world.subscribe("a", "lamp", &json!({})).subscribe("b", "torch", &json!({})),
        &[
            "cat/olm/stable/lamp.v1.0.0 and cat/olm/stable/torch.v1.0.0 provide Light (example.com/v1)",
            "subscription a exists",
            "subscription a requires cat/olm/stable/lamp.v1.0.0",
            "subscription b exists",
            "subscription b requires cat/olm/stable/torch.v1.0.0",
        ],
        "there is no solution for Subscription \"a\" and \"b\" because only one operator of a namespace may provide Light of \
         example.com/v1: remove one of the Subscriptions, or install it in another namespace",
    );
}

#[test]
fn all_candidates_are_deprecated() {
    check(
        &World::of([bundle("lamp", "1.0.0").deprecated()]).subscribe("s", "lamp", &json!({})),
        &[
            "bundle cat/olm/stable/lamp.v1.0.0 is deprecated",
            "subscription s exists",
            "subscription s requires cat/olm/stable/lamp.v1.0.0",
        ],
        "there is no solution for Subscription \"s\" because cat/olm/stable/lamp.v1.0.0 is deprecated: choose another channel \
         or version",
    );
}

#[test]
fn an_expression_is_shown_with_its_message() {
    let conflict = World::of([bundle("lamp", "1.0.0").needs_rule("false")])
        .subscribe("s", "lamp", &json!({}))
        .conflict();
    assert_eq!(
        conflict.lines[0],
        "bundle lamp.v1.0.0 requires an operator with constraint: \"false\" and message: \"sorry\""
    );
}

#[test]
fn every_candidate_is_skipped() {
    let world = World::of([bundle("lamp", "1.0.0").channels(&["a"])]).subscribe("s", "lamp", &json!({}));
    assert_eq!(world.installs(), ["lamp.v1.0.0"]);
    let world = World::of([bundle("lamp", "1.0.0").skips("1.0.0")]).subscribe("s", "lamp", &json!({}));
    assert_eq!(
        world.error(),
        "no channel heads (entries not replaced by another entry) found in channel \"stable\" of package \"lamp\""
    );
}
