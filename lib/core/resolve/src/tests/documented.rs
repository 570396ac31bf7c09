//! The graphs that OLM's own documentation explains updates with.

use olm_fbc::ChannelEntry;

use super::case::Case;

#[test]
fn every_version_up_to_the_newest_is_traversed() {
    let step = |from: &str| {
        Case::new("chain")
            .package("p", ["1.0.0", "2.0.0 replaces 1.0.0", "3.0.0 replaces 2.0.0"])
            .installed(from)
    };
    step("1.0.0").resolves_to("2.0.0");
    step("2.0.0").resolves_to("3.0.0");
    step("3.0.0").resolves_to("3.0.0");
}

#[test]
fn channels_share_updates_and_are_entry_points() {
    let package = || {
        Case::new("example").package(
            "example",
            ["0.1.1 in alpha,beta", "0.1.2 replaces 0.1.1 in alpha,beta", "0.1.3 replaces 0.1.2 in beta"],
        )
    };
    package().channels(["alpha"]).resolves_to("0.1.2");
    package().channels(["beta"]).resolves_to("0.1.3");
    package().resolves_to("0.1.3");
    package().channels(["alpha"]).installed("0.1.1").resolves_to("0.1.2");
    package().channels(["beta"]).installed("0.1.2").resolves_to("0.1.3");
}

#[test]
fn a_minor_stream_keeps_to_its_minor() {
    let package = || {
        Case::new("streams")
            .package("p", ["1.2.0 in 1.2", "1.2.5 replaces 1.2.0 in 1.2,1.3", "1.3.0 replaces 1.2.5 in 1.3"])
    };
    package().channels(["1.2"]).installed("1.2.0").resolves_to("1.2.5");
    package().channels(["1.2"]).installed("1.2.5").resolves_to("1.2.5");
    package().channels(["1.3"]).installed("1.2.5").resolves_to("1.3.0");
}

#[test]
fn a_skipped_version_is_left_and_never_entered() {
    let etcd = || {
        Case::new("etcdoperator")
            .package("etcdoperator", ["0.9.0", "0.9.1 replaces 0.9.0", "0.9.2 replaces 0.9.0 skips 0.9.1"])
    };
    etcd().installed("0.9.0").resolves_to("0.9.2");
    etcd().installed("0.9.1").resolves_to("0.9.2");
    etcd().resolves_to("0.9.2");
}

#[test]
fn a_z_stream_release_follows_all_before_it() {
    let stream = |from: &str| {
        Case::new("elasticsearch")
            .package(
                "e",
                [
                    "4.1.0",
                    "4.1.1 replaces 4.1.0",
                    "4.1.2 range >=4.1.0,<4.1.2",
                    "4.2.0 range >=4.2.0-0,<4.2.0",
                ],
            )
            .installed(from)
    };
    stream("4.1.0").resolves_to("4.1.2");
    stream("4.1.1").resolves_to("4.1.2");
    stream("4.1.2").resolves_to("4.1.2");
}

#[test]
fn a_version_without_content_is_a_node_all_the_same() {
    let mut case = Case::new("virtual").package("p", ["1.2.0 replaces 1.1.0"]).installed("1.1.0");
    case.content().channels[0].entries.push(ChannelEntry {
        name: "p.v1.1.0".to_owned(),
        replaces: "p.v1.0.0".to_owned(),
        ..ChannelEntry::default()
    });
    case.resolves_to("1.2.0");
}
