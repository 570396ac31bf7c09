//! Our answers beside those of the reference implementation, on data that lies outside the project.
//!
//! Where a decision of ours changes an answer on purpose, the case is counted under that decision's name: the
//! decision is a predicate on the input, and the changed answer is checked too. Any other difference fails.

mod catalogs;
mod crd_objects;
mod crd_upgrades;
mod data;
mod ranges;
mod rendered;
mod resolutions;

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
fn rendered_after_changes() {
    rendered::check_changed();
}
