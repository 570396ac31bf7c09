//! Our answers beside upstream's: on the sample in the tree always, and on the large data where they are present.
//!
//! Where a decision of ours changes an answer on purpose, the case is counted under the decision's row of the page of
//! differences: the decision is a predicate on the input, and the changed answer is checked too. Any other difference
//! fails, and so does a difference of the sample that `test/data/differences.json` does not list, or that it lists and
//! that has vanished.

mod catalogs;
mod classic_crds;
mod classic_plans;
mod classic_resolutions;
mod classic_states;
mod classic_taken_over;
mod crd_decisions;
mod crd_objects;
mod crd_upgrades;
mod data;
mod ranges;
mod registry;
mod rendered;
mod resolutions;
mod validated;

#[test]
fn classic_crds() {
    classic_crds::check();
}

#[test]
fn classic_plans() {
    classic_plans::check();
}

#[test]
fn classic_resolutions() {
    classic_resolutions::check();
}

#[test]
fn classic_resolutions_of_a_real_catalog() {
    classic_resolutions::check_real();
}

#[test]
fn classic_states() {
    classic_states::check();
}

#[tokio::test(flavor = "multi_thread")]
async fn registry_answers() -> anyhow::Result<()> {
    registry::check().await
}

#[test]
fn classic_taken_over() {
    classic_taken_over::check();
}

#[test]
fn ranges() {
    ranges::check();
}

#[test]
fn resolutions() {
    resolutions::check();
}

#[test]
fn crd_objects() {
    crd_objects::check();
}

#[test]
fn crd_upgrades() {
    crd_upgrades::check();
}

#[test]
fn rendered() {
    rendered::check();
}

#[test]
fn configured() {
    rendered::check_configured();
}

#[test]
fn validated() {
    validated::check();
}

#[test]
fn rendered_after_changes() {
    rendered::check_changed();
}
