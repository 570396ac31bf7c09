//! Our answers beside those of the reference implementation, on data that lies outside the project.
//!
//! Where a decision of ours changes an answer on purpose, the case is counted under that decision's name: the
//! decision is a predicate on the input, and the changed answer is checked too. Any other difference fails.

#[cfg(test)]
#[path = "conformance/catalogs.rs"]
mod catalogs;
#[cfg(test)]
#[path = "conformance/crd_objects.rs"]
mod crd_objects;
#[cfg(test)]
#[path = "conformance/crd_upgrades.rs"]
mod crd_upgrades;
#[cfg(test)]
#[path = "conformance/data.rs"]
mod data;
#[cfg(test)]
#[path = "conformance/ranges.rs"]
mod ranges;
#[cfg(test)]
#[path = "conformance/rendered.rs"]
mod rendered;
#[cfg(test)]
#[path = "conformance/resolutions.rs"]
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
