//! Readers of definitions, rules, constraints and versions.

use olm_cel::{Budget, Patterns, Stop, Typing, Untyped, Value as Computed, evaluate, parse};
use olm_crd::{OBJECT_STEPS_MAX, Policy, Schema, Upgrade};
use olm_dependencies::{InstalledBundle, Work, is_met, requirements};
use olm_fbc::Property;
use olm_semver::{Constraint, SkipRange, Version};
use serde_json::Value;

use super::{json_lines, kind};

/// A definition, the one that is to replace it, and objects of it.
pub(super) fn crd(input: &[u8]) -> String {
    let values = json_lines(input);
    let [old, new, objects @ ..] = values.as_slice() else { return "too few lines".to_owned() };
    let compared = match olm_crd::compare(old, new, Policy::Ours) {
        Ok(report) => format!("refused {}", report.is_refused()),
        Err(error) => kind(&error),
    };
    let mut seen = match Schema::read(new, "v1") {
        Ok(schema) => {
            let verdicts =
                objects.iter().take(8).map(|object| format!("{:?}", schema.validate(object).is_valid()));
            verdicts.collect::<Vec<_>>().join(" ")
        }
        Err(error) => kind(&error),
    };
    if let Ok(upgrade) = Upgrade::new(old, new, &["v1".to_owned()]) {
        let lost =
            objects.iter().take(8).map(|object| upgrade.impact_on(object).lost.len().min(2)).sum::<usize>();
        seen = format!("{seen} {}", if lost > 0 { "lost" } else { "kept" });
    }
    format!("{compared} {seen}")
}

/// An expression, and behind its last line feed what it is evaluated on.
pub(super) fn rule(input: &[u8]) -> String {
    let text = String::from_utf8_lossy(input);
    let (rule, data) = text.rsplit_once('\n').unwrap_or((&text, "null"));
    let data: Value = serde_json::from_str(data).unwrap_or_default();
    let expression = match parse(rule, &mut Patterns::default()) {
        Ok(expression) => expression,
        Err(why) => return why.chars().filter(|c| !c.is_ascii_digit()).take(60).collect(),
    };
    let this = Untyped.value(&data).expect("any data are a value");
    match evaluate(&expression, vec![("self", this)], None, &mut Budget::new(OBJECT_STEPS_MAX)) {
        Ok(Computed::Bool(holds)) => format!("{holds}"),
        Ok(_) => "a value".to_owned(),
        Err(Stop::Failed(why)) => why.to_owned(),
        Err(Stop::Undecided(why)) => why.chars().take_while(|c| *c != '"').collect(),
        Err(Stop::Exhausted) => "exhausted".to_owned(),
    }
}

/// Properties of a bundle: what it requires, and whether it meets that itself.
pub(super) fn constraint(input: &[u8]) -> String {
    let properties: Vec<Property> = match serde_json::from_slice(input) {
        Ok(properties) => properties,
        Err(_) => return "no properties".to_owned(),
    };
    match requirements(&properties) {
        Ok(required) => {
            let present = [InstalledBundle { package: "p", version: None, properties: &properties }];
            let work = Work::default();
            let met = required.iter().filter(|one| is_met(one, &present, &|_| false, &work)).count();
            assert!(required.iter().all(|one| !one.to_string().is_empty()));
            format!("{} of {}", met.min(3), required.len().min(4))
        }
        Err(error) => kind(&error),
    }
}

/// A version, and on the next line a range: what parses says the same when it is written and read again.
pub(super) fn version(input: &[u8]) -> String {
    let text = String::from_utf8_lossy(input);
    let (version, range) = text.split_once('\n').unwrap_or((&text, ">=1.0.0"));
    let parsed: Result<Version, _> = version.parse();
    let seen = match &parsed {
        Ok(version) => {
            assert_eq!(version.to_string().parse::<Version>().ok().as_ref(), Some(version));
            "a version".to_owned()
        }
        Err(error) => kind(error),
    };
    let holds = |holds: bool| if holds { "inside" } else { "outside" };
    let in_range = match (range.parse::<SkipRange>(), &parsed) {
        (Ok(range), Ok(version)) => holds(range.contains(version)).to_owned(),
        (Ok(_), Err(_)) => "a range".to_owned(),
        (Err(error), _) => kind(&error),
    };
    let meets = match (range.parse::<Constraint>(), &parsed) {
        (Ok(constraint), Ok(version)) => holds(constraint.matches(version)).to_owned(),
        (Ok(_), Err(_)) => "a constraint".to_owned(),
        (Err(error), _) => kind(&error),
    };
    format!("{seen}, {in_range}, {meets}")
}
