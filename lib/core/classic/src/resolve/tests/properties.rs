//! What holds of every world.

use std::collections::BTreeSet;

use serde_json::json;

use super::{
    reference::{Dice, Universe},
    world::{World, bundle},
};
use crate::{
    limits::RESOLUTION_STEPS_MAX,
    resolve::{
        Conflict, Part, Scope, Unresolved, conflict, installed,
        problem::Problem,
        search::{Verdict, search},
        universe,
    },
};
use olm_dependencies::Work;

/// The worlds that are compared with the reference.
const WORLDS: u64 = 10_000;

/// Catalog, channel and name of the bundles of parts that were all solved.
fn chosen(parts: &[Part]) -> Option<BTreeSet<(String, String, String)>> {
    let mut all = BTreeSet::new();
    for part in parts {
        let solution = part.outcome.as_ref().ok()?;
        all.extend(
            solution.bundles.iter().map(|one| (one.catalog.clone(), one.channel.clone(), one.name.clone())),
        );
    }
    Some(all)
}

#[test]
fn the_answer_is_that_of_a_search_without_any_refinement() {
    let mut solved = 0;
    for seed in 0..WORLDS {
        let universe = Universe::random(seed);
        let expected = universe.solve();
        let parts = universe.world.parts(Scope::Namespace);
        assert_eq!(chosen(&parts), expected, "seed {seed}: {universe:?}\n{parts:?}");
        solved += u64::from(expected.is_some());
        if let Some(has_solution) = universe.has_solution() {
            assert_eq!(expected.is_some(), has_solution, "seed {seed}");
        }
    }
    assert!((WORLDS / 4..WORLDS * 3 / 4).contains(&solved), "{solved} of {WORLDS} have a solution");
}

#[test]
fn parts_together_give_what_the_whole_gives() {
    for seed in 0..WORLDS / 4 {
        let world = Universe::random(seed).world;
        let (whole, parts) = (world.parts(Scope::Namespace), world.parts(Scope::Related));
        assert_eq!(chosen(&parts), chosen(&whole), "seed {seed}");
    }
}

fn conflict_of(parts: &[Part]) -> Option<&Conflict> {
    parts.iter().find_map(|part| match &part.outcome {
        Err(Unresolved::Conflict(conflict)) => Some(conflict),
        _ => None,
    })
}

/// Whether all constraints with these texts have a solution together.
fn is_solvable(world: &World, lines: &[&String]) -> bool {
    world.with_catalogs(|catalogs| {
        let request = world.request(Scope::Namespace);
        let subscriptions: Vec<_> = world.subscriptions.iter().collect();
        let universe = universe::Universe::new(&request, catalogs, &subscriptions);
        let problem = Problem::new(universe, subscriptions, &mut RESOLUTION_STEPS_MAX.clone());
        let numbers = 0..problem.constraints.len();
        let kept = numbers.filter(|one| lines.contains(&&conflict::text(&problem, *one)));
        let rules = kept.map(|one| (one, &problem.constraints[one].rule));
        matches!(search(rules, &Work::of(RESOLUTION_STEPS_MAX)), Ok(Verdict::Satisfied(..)))
    })
}

#[test]
fn of_a_conflict_nothing_can_be_left_out() {
    let mut conflicts = 0;
    for seed in 0..WORLDS / 4 {
        let world = Universe::random(seed).world;
        let parts = world.parts(Scope::Namespace);
        let Some(conflict) = conflict_of(&parts) else { continue };
        conflicts += 1;
        let lines: Vec<_> = conflict.lines.iter().collect();
        assert!(!is_solvable(&world, &lines), "seed {seed}: {lines:?} have a solution");
        for left_out in 0..lines.len() {
            let mut fewer = lines.clone();
            let line = fewer.remove(left_out);
            assert!(is_solvable(&world, &fewer), "seed {seed}: {line} is not needed in {lines:?}");
        }
        assert!(!conflict.explanation.is_empty() && !conflict.explanation.contains('\n'));
    }
    assert!(conflicts > 500, "{conflicts} conflicts");
}

fn shuffle<T>(items: &mut [T], dice: &mut Dice) {
    for at in (1..items.len()).rev() {
        items.swap(at, dice.below(at + 1));
    }
}

#[test]
fn the_order_of_the_input_does_not_matter() {
    for seed in 0..WORLDS / 4 {
        let world = Universe::random(seed).world;
        let mut shuffled = world.clone();
        let dice = &mut Dice(seed);
        shuffle(&mut shuffled.subscriptions, dice);
        shuffle(&mut shuffled.csvs, dice);
        shuffle(&mut shuffled.catalogs, dice);
        for catalog in &mut shuffled.catalogs {
            shuffle(&mut catalog.bundles, dice);
        }
        for scope in [Scope::Namespace, Scope::Related] {
            assert_eq!(world.parts(scope), shuffled.parts(scope), "seed {seed}");
        }
    }
}

/// An answer, with its explanation, stays what it is whatever else is subscribed to, installed or offered.
#[test]
fn what_is_unrelated_changes_no_answer() {
    for seed in 0..WORLDS / 4 {
        let world = Universe::random(seed).world;
        let mut more = world.clone();
        let unrelated = [
            bundle("more-things", "1.0.0").provides("More").needs("Others"),
            bundle("other-things", "1.0.0").provides("Others"),
        ];
        more.catalogs[0].bundles.extend(unrelated);
        let more = more.csv("x.v1.0.0", "1.0.0", None).subscribe("a-first", "more-things", &json!({}));
        let more = more.subscribe("nothing", "no-such-thing", &json!({}));
        let all = more.parts(Scope::Related);
        for part in world.parts(Scope::Related) {
            // What is needed may be anything but a certain package: such needs are met by what was added.
            let is_open = world.catalogs.iter().any(|catalog| format!("{catalog:?}").contains("not"));
            assert!(is_open || all.contains(&part), "seed {seed}: {part:?}\n{all:?}");
        }
        assert!(all.iter().any(|part| part.subscriptions == ["nothing"] && part.outcome.is_err()));
    }
}

/// A conflict is one of the Subscriptions that it names: without the others it is the same.
#[test]
fn a_conflict_is_about_the_subscriptions_that_it_names() {
    for seed in 0..WORLDS / 4 {
        let world = Universe::random(seed).world;
        for part in world.parts(Scope::Related) {
            let Some(conflict) = conflict_of(std::slice::from_ref(&part)) else { continue };
            let mut alone = world.clone();
            let is_named = |name: &Option<String>| {
                name.as_ref().is_some_and(|name| conflict.subscriptions.contains(name))
            };
            // What others have installed would be without a Subscription.
            if alone
                .subscriptions
                .iter()
                .any(|one| !is_named(&one.metadata.name) && installed::installed(one).is_some())
            {
                continue;
            }
            alone.subscriptions.retain(|one| is_named(&one.metadata.name));
            assert!(conflict_of(&alone.parts(Scope::Namespace)).is_some(), "seed {seed}: {conflict:?}");
        }
    }
}
