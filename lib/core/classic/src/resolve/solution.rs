//! What a solution means for a namespace: bundles to install, Subscriptions that move on, and Subscriptions to make.

use std::collections::BTreeSet;

use super::{
    Bundle, GeneratedSubscription, Solution,
    problem::{Problem, Subject, Variable},
    universe::Candidate,
};

/// Chosen variables, each with the constraint whose candidate it is, and whether each was the first candidate.
pub(super) type Chosen = (Vec<(Option<usize>, Variable)>, bool);

impl Solution {
    pub(super) fn of(problem: &Problem<'_>, chosen: &Chosen, csvs: &BTreeSet<&str>) -> Self {
        let mut solution = Self::default();
        for (_, variable) in &chosen.0 {
            if let Subject::Candidate(candidate) = problem.subjects[*variable] {
                solution.add(problem, *variable, candidate, csvs);
            }
        }
        solution
            .bundles
            .sort_by(|a, b| (&a.name, &a.package, &a.channel).cmp(&(&b.name, &b.package, &b.channel)));
        solution.updates.sort();
        solution.generated.sort_by(|a, b| a.name.cmp(&b.name));
        solution
    }

    fn add(
        &mut self,
        problem: &Problem<'_>,
        variable: Variable,
        candidate: Candidate<'_>,
        csvs: &BTreeSet<&str>,
    ) {
        let Some((bundle, entry)) = problem.universe.bundle(candidate) else { return };
        let Candidate::Bundle { catalog, package, channel, name } = candidate else { return };
        let source = problem.universe.catalogs[catalog];
        let matching = problem.subscriptions.iter().filter(|one| {
            let wanted = one.spec.channel.as_deref().unwrap_or_default();
            one.spec.name == package
                && (wanted.is_empty() || wanted == channel)
                && one.spec.source == source.name
                && one.spec.source_namespace == source.namespace
        });
        let matching: Vec<_> = matching.collect();
        let current = |one: &&olm_api_classic::Subscription| {
            one.status.as_ref().and_then(|status| status.current_csv.as_deref()) == Some(name)
        };
        if !matching.is_empty() && csvs.contains(name) && matching.iter().all(|one| current(one)) {
            return;
        }
        if matching.is_empty() {
            self.generated.push(GeneratedSubscription {
                name: format!("{package}-{channel}-{}-{}", source.name, source.namespace),
                package: package.to_owned(),
                channel: channel.to_owned(),
                catalog: source.name.to_owned(),
                catalog_namespace: source.namespace.to_owned(),
                starting_csv: name.to_owned(),
            });
        }
        let updates = matching.iter().filter(|one| !current(one));
        self.updates.extend(updates.map(|one| (super::name(one).to_owned(), name.to_owned())));
        let replaced = problem.replaced.get(&variable).map(|at| &problem.universe.installed[*at].name);
        self.bundles.push(Bundle {
            name: name.to_owned(),
            package: package.to_owned(),
            channel: channel.to_owned(),
            catalog: source.name.to_owned(),
            catalog_namespace: source.namespace.to_owned(),
            image: bundle.image.clone(),
            replaces: replaced.unwrap_or(&entry.replaces).clone(),
        });
    }
}
