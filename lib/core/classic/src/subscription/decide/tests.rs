use serde_json::{Value, json};

use super::*;
use crate::resolve::{Bundle, Conflict};

fn subscription(name: &str, annotations: &Value, status: &Value) -> Subscription {
    let object = json!({
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"name": "lamp", "source": "cat", "sourceNamespace": "olm"},
        "status": status,
    });
    serde_json::from_value(object).unwrap()
}

fn solved(update: bool, generated: bool) -> Part {
    let dependency = GeneratedSubscription {
        name: "cord-stable-cat-olm".to_owned(),
        package: "cord".to_owned(),
        channel: "stable".to_owned(),
        catalog: "cat".to_owned(),
        catalog_namespace: "olm".to_owned(),
        starting_csv: "cord.v1".to_owned(),
    };
    let solution = Solution {
        bundles: vec![Bundle { name: "lamp.v1".to_owned(), ..Bundle::default() }],
        updates: if update { vec![("lamp".to_owned(), "lamp.v1".to_owned())] } else { Vec::new() },
        generated: if generated { vec![dependency] } else { Vec::new() },
    };
    Part { subscriptions: vec!["lamp".to_owned()], outcome: Ok(solution) }
}

fn conflict() -> Part {
    let conflict = Conflict {
        lines: vec!["a".to_owned(), "b".to_owned()],
        subscriptions: vec!["lamp".to_owned()],
        explanation: "because".to_owned(),
    };
    Part { subscriptions: vec!["lamp".to_owned()], outcome: Err(Unresolved::Conflict(conflict)) }
}

fn csv(name: &str, replaces: Option<&str>, phase: &str) -> ClusterServiceVersion {
    let object = json!({
        "metadata": {"name": name},
        "spec": {"displayName": name, "replaces": replaces, "install": {"strategy": "deployment"}},
        "status": {"phase": phase},
    });
    serde_json::from_value(object).unwrap()
}

fn new() -> Subscription {
    subscription("lamp", &json!({}), &json!({}))
}

#[test]
fn row_7_nothing_is_decided_while_plans_are_not_carried_out() {
    let pending = json!({"state": "UpgradePending", "installPlanRef": {"name": "install-abcde"}});
    let pending = subscription("lamp", &json!({}), &pending);
    assert_eq!(decide(&conflict(), &[pending], &[]), Decision::Await);
    let without_plan = subscription("lamp", &json!({}), &json!({"state": "UpgradePending"}));
    assert!(matches!(decide(&conflict(), &[without_plan], &[]), Decision::Failed { .. }));
}

#[test]
fn row_8_a_conflict_fails_in_upstreams_words_with_a_sentence() {
    let wanted = Decision::Failed {
        reason: "ConstraintsNotSatisfiable",
        message: "constraints not satisfiable: a, b".to_owned(),
        explanation: "because".to_owned(),
    };
    assert_eq!(decide(&conflict(), &[new()], &[]), wanted);
}

#[test]
fn row_9_an_error_prevents_the_resolution() {
    let error = crate::resolve::ResolveError::Catalog {
        namespace: "olm".to_owned(),
        name: "cat".to_owned(),
        cause: "c".to_owned(),
    };
    let part = Part { outcome: Err(Unresolved::Errors(vec![error])), ..conflict() };
    let Decision::Failed { reason, message, .. } = decide(&part, &[new()], &[]) else { panic!() };
    assert_eq!(
        (reason, message.as_str()),
        ("ErrorPreventedResolution", "error using catalogsource olm/cat: c")
    );
}

#[test]
fn each_error_has_a_remedy() {
    let catalog = |name: &str| ResolveError::Catalog {
        namespace: "olm".to_owned(),
        name: name.to_owned(),
        cause: "c".to_owned(),
    };
    let (channel, package) = ("stable".to_owned(), "lamp".to_owned());
    let order = ResolveError::Order(OrderError::NoHead { channel, package });
    let cause = olm_dependencies::RequirementError::ConstraintSize;
    let requirement = ResolveError::Requirement { bundle: "lamp.v1".to_owned(), cause };
    let properties = ResolveError::Properties { csv: "lamp.v1".to_owned(), cause: "c".to_owned() };
    let range = ResolveError::VersionRange { subscription: "lamp".to_owned(), cause: "c".to_owned() };
    for (error, remedy) in [
        (catalog("cat"), "correct CatalogSource olm/cat, whose status says more, or delete it"),
        (order, "has to correct channel \"stable\" of package \"lamp\"; until then set spec.channel"),
        (requirement, "the publisher of the bundle has to correct what it requires"),
        (properties, "correct or remove it"),
        (range, "correct or remove it"),
        (ResolveError::Work, "name a channel and startingCSV"),
    ] {
        let text = explained(std::slice::from_ref(&error));
        assert!(text.starts_with(&error.to_string()) && text.contains(remedy), "{text}");
    }
    let text = explained(&[catalog("a"), catalog("b"), catalog("a")]);
    assert_eq!(text.matches("CatalogSource olm/a").count(), 1, "{text}");
}

#[test]
fn rows_14_and_15_a_plan_is_made_if_a_subscription_has_a_new_version() {
    assert_eq!(decide(&solved(false, true), &[new()], &[]), Decision::Settled);
    assert!(matches!(decide(&solved(true, true), &[new()], &[]), Decision::Install(_)));
}

#[test]
fn the_next_version_waits_until_the_plan_of_the_one_before_is_over() {
    let at = |state: &str, pending: &str| {
        let condition = json!({"type": "InstallPlanPending", "status": pending, "reason": "Installing"});
        let status = json!({
            "state": state, "installPlanRef": {"name": "install-abcde"}, "conditions": [condition],
        });
        subscription("lamp", &json!({}), &status)
    };
    let other = subscription("cord", &json!({}), &json!({}));
    let part = Part { subscriptions: vec!["lamp".to_owned(), "cord".to_owned()], ..solved(true, true) };
    assert_eq!(decide(&part, &[at("AtLatestKnown", "True"), other.clone()], &[]), Decision::Await);
    for lamp in [at("AtLatestKnown", "False"), at("UpgradePending", "True")] {
        assert!(matches!(decide(&part, &[lamp, other.clone()], &[]), Decision::Install(_)));
    }
}

#[test]
fn a_conflict_during_an_upgrade_is_none_unless_the_new_version_failed() {
    let upgraded = subscription("lamp", &json!({}), &json!({"installedCSV": "lamp.v2"}));
    let csvs = |phase| [csv("lamp.v1", None, "Replacing"), csv("lamp.v2", Some("lamp.v1"), phase)];
    let all = [upgraded];
    assert_eq!(decide(&conflict(), &all, &csvs("Installing")), Decision::Await);
    assert!(matches!(decide(&conflict(), &all, &csvs("Failed")), Decision::Failed { .. }));
    assert!(matches!(decide(&conflict(), &all, &csvs("Installing")[1..]), Decision::Failed { .. }));
}

#[test]
fn dependencies_are_installed_proposed_or_checked() {
    let of = |value: &str, generated| {
        let annotated = subscription("lamp", &json!({"olm.classic/dependencies": value}), &json!({}));
        decide(&solved(true, generated), &[annotated], &[])
    };
    assert!(matches!(of("Install", true), Decision::Install(_)));
    assert!(matches!(of("Propose", false), Decision::Install(_)));
    let Decision::Held("DependenciesProposed", text) = of("Propose", true) else { panic!() };
    assert!(text.contains("package \"cord\", channel \"stable\", CatalogSource olm/cat"), "{text}");
    assert!(matches!(of("Check", true), Decision::Held("DependenciesNotInstalled", _)));
    let Decision::Held("InvalidAnnotation", text) = of("install", false) else { panic!() };
    assert!(text.contains("set it to Install, Propose or Check"), "{text}");
}

#[test]
fn one_manual_subscription_makes_the_plan_manual() {
    let mut manual = new();
    manual.spec.install_plan_approval = Some("Manual".to_owned());
    assert_eq!(approval([&new(), &manual]), "Manual");
    assert_eq!(approval([&new()]), "Automatic");
}

#[test]
fn a_catalog_that_is_read_for_the_first_time_is_waited_for() {
    let error = |name: &str| crate::resolve::ResolveError::Catalog {
        namespace: "olm".to_owned(),
        name: name.to_owned(),
        cause: "c".to_owned(),
    };
    let part = |names: &[&str]| {
        let errors = names.iter().map(|name| error(name)).collect();
        Part { subscriptions: Vec::new(), outcome: Err(Unresolved::Errors(errors)) }
    };
    let coming = [("olm".to_owned(), "new".to_owned())].into();
    let wanted = "the content of CatalogSource olm/new is being read";
    assert_eq!(waits_for_catalogs(&part(&["new"]), &coming).as_deref(), Some(wanted));
    assert_eq!(waits_for_catalogs(&part(&["new", "broken"]), &coming), None);
    assert_eq!(waits_for_catalogs(&conflict(), &coming), None);
}
