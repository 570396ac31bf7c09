//! Catalogs that are made to take long. Each ends, and takes nothing from Subscriptions that have nothing to do with them.

use serde_json::{Value, json};

use super::world::{TestBundle, World, bundle};
use crate::resolve::{ResolveError, Scope, Unresolved};

/// Whether a Subscription of something else is solved beside these bundles, and what becomes of `hostile`.
fn beside(bundles: impl IntoIterator<Item = TestBundle>, hostile: &[&str]) -> Vec<Result<usize, Unresolved>> {
    let mut world = World::of(bundles).catalog("olm", "honest", 0, [bundle("zebra", "1.0.0")]);
    for (at, package) in hostile.iter().enumerate() {
        world = world.subscribe(&format!("s{at:03}"), package, &json!({}));
    }
    let parts = world.subscribe("zebra", "zebra", &json!({"source": "honest"})).parts(Scope::Related);
    let honest = parts.iter().find(|part| part.subscriptions == ["zebra"]).unwrap();
    assert_eq!(honest.outcome.as_ref().map(|solution| solution.bundles.len()), Ok(1));
    let others = parts.into_iter().filter(|part| part.subscriptions != ["zebra"]);
    others.map(|part| part.outcome.map(|solution| solution.bundles.len())).collect()
}

fn too_much() -> Result<usize, Unresolved> {
    Err(Unresolved::Errors(vec![ResolveError::Work]))
}

#[test]
fn a_deep_chain_of_requirements_is_followed_to_its_end() {
    let name = |at: usize| format!("p{at}");
    let chain = (0..3000).map(|at| bundle(&name(at), "1.0.0").needs_package(&name(at + 1), ">=1.0.0"));
    let end = [bundle("p3000", "1.0.0")];
    assert_eq!(beside(chain.chain(end), &["p0"]), [Ok(3001)]);
}

#[test]
fn thousands_of_bundles_that_require_each_other_end() {
    let versions = |package: usize| {
        (0..20).map(move |version| {
            let mut one = bundle(&format!("p{package}"), &format!("{version}.0.0"));
            if version > 0 {
                one = one.replaces(&format!("{}.0.0", version - 1));
            }
            (0..100).fold(one, |one, other| one.needs_package(&format!("p{other}"), ">=0.0.0"))
        })
    };
    let answers = beside((0..100).flat_map(versions), &["p0"]);
    assert!(answers == [Ok(100)] || answers == [too_much()], "{answers:?}");
}

/// Eleven packages of which each needs one of ten kinds for itself: there is no short proof that they cannot have them.
#[test]
fn a_search_without_end_is_ended_with_an_error_that_says_so() {
    let packages: Vec<String> = (0..11).map(|at| format!("pigeon{at}")).collect();
    let bundles = packages.iter().flat_map(|package| {
        (0..10).map(move |hole| {
            let one = bundle(package, &format!("{hole}.0.0")).provides(&format!("Hole{hole}"));
            if hole > 0 { one.replaces(&format!("{}.0.0", hole - 1)) } else { one }
        })
    });
    let hostile: Vec<_> = packages.iter().map(String::as_str).collect();
    let answers = beside(bundles, &hostile);
    assert_eq!(answers, [too_much()]);
    let text = answers[0].as_ref().unwrap_err().to_string();
    assert!(text.starts_with("resolution takes more than 20000000 steps: "), "{text}");
}

#[test]
fn expressions_that_explode_end() {
    let nested =
        "properties.all(a, properties.all(b, properties.all(c, properties.all(d, a == a && d == d))))";
    let property = |at: usize| bundle("bulb", &format!("{at}.0.0")).channels(&[&format!("c{at}")]);
    let bulbs = (0..300).map(|at| {
        (0..40).fold(property(at), |one, number| one.property(&format!("t{number}"), &json!(number)))
    });
    let lamps =
        (0..50).map(|at| bundle(&format!("lamp{at}"), "1.0.0").needs_rule(&format!("{nested} && {at} >= 0")));
    let hostile: Vec<String> = (0..50).map(|at| format!("lamp{at}")).collect();
    let answers = beside(bulbs.chain(lamps), &hostile.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(answers.iter().all(Result::is_err) && answers.contains(&too_much()), "{answers:?}");
    let bomb = format!("['aaaaaaaaaaaaaaaa']{}.size() > 0", ".map(x, x + x)".repeat(100));
    let answers =
        beside((0..500).map(|at| bundle(&format!("lamp{at}"), "1.0.0").needs_rule(&bomb)), &["lamp0"]);
    let text = answers[0].as_ref().unwrap_err().to_string();
    assert!(text.contains("cel.rule takes too many steps"), "{text}");
}

#[test]
fn properties_of_any_form_are_read() {
    let odd: [Value; 6] =
        [json!(null), json!(1), json!("x"), json!([]), json!({}), json!({"packageName": 1})];
    for (at, value) in odd.iter().enumerate() {
        for kind in ["olm.gvk", "olm.package", "olm.label"] {
            let answers = beside([bundle("lamp", "1.0.0").property(kind, value)], &["lamp"]);
            assert_eq!(answers, [Ok(1)], "{kind} {at}");
        }
        for kind in ["olm.gvk.required", "olm.package.required", "olm.constraint", "olm.label.required"] {
            let answers = beside([bundle("lamp", "1.0.0").property(kind, value)], &["lamp"]);
            assert!(answers[0].is_err(), "{kind} {at}");
        }
    }
}

#[test]
fn a_long_conflict_is_cut() {
    let package = |at: usize| bundle("lamp", &format!("{at}.0.0")).needs(&format!("Kind{at}"));
    let bundles = (0..400)
        .map(|at| if at > 0 { package(at).replaces(&format!("{}.0.0", at - 1)) } else { package(at) });
    let answers = beside(bundles, &["lamp"]);
    let text = answers[0].as_ref().unwrap_err().to_string();
    assert!(text.len() < 33_000 && text.ends_with('…'), "{}", text.len());
}
