use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use olm_api::v1alpha1::{Concurrency, UpdatePolicy, UpdatePolicySpec, WINDOWS_MAX};

use super::described;
use crate::{Policy, in_force, selects};

fn labels(all: &[(&str, &str)]) -> BTreeMap<String, String> {
    all.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn on(labels_wanted: &[(&str, &str)]) -> LabelSelector {
    LabelSelector { match_labels: Some(labels(labels_wanted)), ..LabelSelector::default() }
}

fn policy(name: &str, priority: i32, selector: LabelSelector) -> UpdatePolicy {
    UpdatePolicy::new(name, UpdatePolicySpec { selector, priority, ..UpdatePolicySpec::default() })
}

#[test]
fn the_highest_priority_then_the_first_name_is_in_force() {
    let policies = [
        policy("c", 5, on(&[("team", "a")])),
        policy("b", 5, on(&[("team", "a")])),
        policy("a", 0, LabelSelector::default()),
        policy("z", 9, on(&[("team", "b")])),
    ];
    let name = |all: &[(&str, &str)]| in_force(&policies, &labels(all)).and_then(|p| p.metadata.name.clone());
    assert_eq!(name(&[("team", "a")]).as_deref(), Some("b"));
    assert_eq!(name(&[("team", "b")]).as_deref(), Some("z"));
    assert_eq!(name(&[]).as_deref(), Some("a"), "an empty selector selects all");
    assert!(in_force(&policies[..2], &labels(&[])).is_none());
}

#[test]
fn a_selector_that_is_wrong_selects_nothing_and_is_reported() {
    for (operator, values) in [("In", None), ("Exists", Some(vec!["a".to_owned()])), ("Like", None)] {
        let requirement = LabelSelectorRequirement { key: "team".into(), operator: operator.into(), values };
        let selector =
            LabelSelector { match_expressions: Some(vec![requirement]), ..LabelSelector::default() };
        assert!(!selects(&selector, &labels(&[("team", "a")])), "{operator}");
        let spec = UpdatePolicySpec { selector, ..UpdatePolicySpec::default() };
        let wrong = Policy::parse("p", &spec).unwrap_err();
        assert!(
            wrong[0].starts_with(&format!("spec.selector: the operator {operator:?} of key \"team\"")),
            "{wrong:?}"
        );
    }
}

#[test]
fn everything_that_is_wrong_is_named() {
    let spec = UpdatePolicySpec {
        windows: vec![
            described("Allow 0 2 * * 9 4h Europe/Berlin"),
            described("Allow 0 2 * * 0 4h Europe/Atlantis"),
            described("Allow 0 2 * * 0 169h UTC"),
            described("Allow 0 2 * * 0 30s UTC"),
        ],
        minimum_age: Some("9000h".to_owned()),
        versions: Some("<".to_owned()),
        concurrency: Some(Concurrency { max: 0, halt_on_failure: false }),
        ..UpdatePolicySpec::default()
    };
    let wrong = Policy::parse("p", &spec).unwrap_err();
    for (found, wanted) in wrong.iter().zip([
        "spec.windows[0]: schedule \"0 2 * * 9\" day of the week \"9\"",
        "spec.windows[1]: timeZone \"Europe/Atlantis\"",
        "spec.windows[2]: duration \"169h\"",
        "spec.windows[3]: duration \"30s\"",
        "spec.minimumAge \"9000h\"",
        "spec.versions \"<\"",
        "spec.concurrency.max 0",
    ]) {
        assert!(found.starts_with(wanted), "{found}");
    }
    assert_eq!(wrong.len(), 7);
}

#[test]
fn more_than_a_policy_may_have_is_refused() {
    let window = described("Allow 0 2 * * 0 4h UTC");
    let with =
        |count| UpdatePolicySpec { windows: vec![window.clone(); count], ..UpdatePolicySpec::default() };
    assert!(Policy::parse("p", &with(WINDOWS_MAX)).is_ok());
    assert!(Policy::parse("p", &with(WINDOWS_MAX + 1)).is_err());
    let named =
        |count| UpdatePolicySpec { catalogs: vec!["c".to_owned(); count], ..UpdatePolicySpec::default() };
    assert!(Policy::parse("p", &named(64)).is_ok() && Policy::parse("p", &named(65)).is_err());
    let mut long = described("Allow 0 2 * * 0 4h UTC");
    long.schedule = format!("0 2 * * {}", vec!["0"; 200].join(","));
    let spec = UpdatePolicySpec { windows: vec![long], ..UpdatePolicySpec::default() };
    assert!(Policy::parse("p", &spec).unwrap_err()[0].contains("too long"));
}
