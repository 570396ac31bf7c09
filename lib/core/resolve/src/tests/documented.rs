//! The update graphs that the product was ordered with, followed step by step.

use super::case::Case;

/// Follows the edges from `installed` as automatic updates do, one at a time, to their end.
fn followed(bundles: &[&str], channels: &[&'static str], installed: &'static str) -> Vec<String> {
    let mut path = vec![installed.to_owned()];
    loop {
        let at = path.last().cloned().unwrap_or_default();
        let case = Case::new("step").package("etcd", bundles.iter().copied());
        let next = case.channels(channels.iter().copied()).installed(&at).resolve().expect("a bundle");
        let next = next.bundle.trim_start_matches("etcd.v").to_owned();
        if next == at {
            return path;
        }
        path.push(next);
    }
}

// Shows S001-157, S004-11, S004-12, S004-22: `replaces` makes a graph, and every version of it is passed through.
#[test]
fn every_version_up_to_the_newest_is_passed_through() {
    let bundles = ["0.1.0", "0.1.1 replaces 0.1.0", "0.1.2 replaces 0.1.1", "0.1.3 replaces 0.1.2"];
    assert_eq!(followed(&bundles, &[], "0.1.0"), ["0.1.0", "0.1.1", "0.1.2", "0.1.3"]);
}

// Shows S001-094, S001-154, S001-222, S001-223, S004-05, S004-06, S004-13, S004-14, S004-15: channels are entry points
// into one graph and may share its updates.
#[test]
fn channels_are_entry_points_that_share_updates() {
    let bundles =
        ["0.1.1 in alpha,beta", "0.1.2 replaces 0.1.1 in alpha,beta", "0.1.3 replaces 0.1.2 in beta"];
    assert_eq!(followed(&bundles, &["alpha"], "0.1.1"), ["0.1.1", "0.1.2"]);
    assert_eq!(followed(&bundles, &["beta"], "0.1.1"), ["0.1.1", "0.1.2", "0.1.3"]);
    // A switch goes on from where it is.
    assert_eq!(followed(&bundles, &["beta"], "0.1.2"), ["0.1.2", "0.1.3"]);
}

// Shows S001-162, S001-163, S001-165, S004-23, S004-24, S004-25, S004-27, S004-28, S004-29, S004-32, S003-134: 0.9.2
// replaces 0.9.0 and skips the bad 0.9.1, for clusters with and without it.
#[test]
fn a_bad_version_is_left_and_never_entered() {
    let bundles = ["0.9.0", "0.9.1", "0.9.2 replaces 0.9.0 skips 0.9.1"];
    assert_eq!(followed(&bundles, &[], "0.9.0"), ["0.9.0", "0.9.2"]);
    assert_eq!(followed(&bundles, &[], "0.9.1"), ["0.9.1", "0.9.2"]);
    // Bundles that are no longer in the catalog are left the same way.
    assert_eq!(followed(&["0.9.2 replaces 0.9.0 skips 0.9.1"], &[], "0.9.1"), ["0.9.1", "0.9.2"]);
}

// Shows S001-166, S004-33, S003-73: one release takes over from many by a range, and from the one before by name.
#[test]
fn one_release_skips_many_by_a_range() {
    let bundles = ["1.0.0", "1.0.1 replaces 1.0.0", "1.1.0", "1.2.0 replaces 1.1.0 range >=1.0.0,<1.2.0"];
    for installed in ["1.0.0", "1.0.1", "1.1.0"] {
        assert_eq!(followed(&bundles, &[], installed), [installed, "1.2.0"]);
    }
}

// Shows S001-169, S001-170, S001-171, S004-41, S004-42, S004-45, S004-46: every old z-stream leads to the newest one
// of the new catalog, also by way of versions whose content is not there; only edges count.
#[test]
fn every_z_stream_leads_to_the_newest_one() {
    let bundles = ["3.1.3 replaces 3.0.0 skips 3.1.0,3.1.1,3.1.2 range >=3.0.0,<3.1.3"];
    for installed in ["3.0.0", "3.0.7", "3.1.0", "3.1.1", "3.1.2"] {
        assert_eq!(followed(&bundles, &[], installed), [installed, "3.1.3"]);
    }
    let unconnected = ["3.1.2", "3.1.3"];
    assert_eq!(followed(&unconnected, &[], "3.1.2"), ["3.1.2"], "a higher version alone is no update");
}
