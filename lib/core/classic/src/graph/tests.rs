//! The order of channels against upstream's texts, and snapshots made of answers of the registry API.

use olm_object::GroupVersionKind;
use proptest::prelude::*;

use super::*;
use crate::{
    limits::SNAPSHOT_BYTES_MAX,
    registry_model::{self, Property},
};

fn channel(entries: &[(&str, &str, &[&str])]) -> Channel {
    let entries = entries.iter().map(|(name, replaces, skips)| {
        let entry = Entry {
            name: (*name).to_owned(),
            replaces: (*replaces).to_owned(),
            skips: skips.iter().map(|skip| (*skip).to_owned()).collect(),
            skip_range: String::new(),
        };
        ((*name).to_owned(), entry)
    });
    Channel { entries: entries.collect(), ..Channel::default() }
}

fn order(entries: &[(&str, &str, &[&str])]) -> Result<Vec<String>, String> {
    let channel = channel(entries);
    let order = channel.order("p", "c").map_err(|error| error.to_string())?;
    Ok(order.into_iter().map(|entry| entry.name.clone()).collect())
}

#[test]
fn entries_are_ordered_from_the_head_without_the_skipped_ones() {
    let names = |names: &[&str]| Ok(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
    assert_eq!(order(&[("c", "b", &[]), ("a", "", &[]), ("b", "a", &[])]), names(&["c", "b", "a"]));
    assert_eq!(order(&[("c", "b", &["b"]), ("b", "a", &[]), ("a", "gone", &[])]), names(&["c", "a"]));
    assert_eq!(order(&[("c", "gone", &["b", "a"]), ("b", "a", &[]), ("a", "", &[])]), names(&["c"]));
    assert_eq!(order(&[]), names(&[]));
}

/// The text of the error for these chains.
fn several(chains: &[&str]) -> String {
    format!(
        "a unique replacement chain within a channel is required to determine the relative order between channel entries, \
         but {} replacement chains were found in channel \"c\" of package \"p\": {}",
        chains.len(),
        chains.join(", ")
    )
}

#[test]
fn channels_without_an_order_are_told_apart_in_upstreams_words() {
    let heads =
        "no channel heads (entries not replaced by another entry) found in channel \"c\" of package \"p\"";
    assert_eq!(order(&[("a", "b", &[]), ("b", "a", &[])]), Err(heads.to_owned()));
    assert_eq!(order(&[("a", "a", &[])]), Err(heads.to_owned()));
    let cycle =
        "a cycle exists in the chain of replacement beginning with \"h\" in channel \"c\" of package \"p\"";
    assert_eq!(order(&[("h", "a", &[]), ("a", "b", &[]), ("b", "a", &[])]), Err(cycle.to_owned()));
    let entries: &[(&str, &str, &[&str])] =
        &[("z", "y", &[]), ("y", "", &[]), ("m", "", &[]), ("d", "c", &[]), ("c", "b", &[]), ("b", "", &[])];
    assert_eq!(order(entries), Err(several(&["d...b", "m", "z...y"])));
}

#[test]
fn the_default_channel_is_preferred_then_names() {
    let mut package = Package { default_channel: "m".to_owned(), ..Package::default() };
    for name in ["z", "m", "a"] {
        package.channels.insert(name.to_owned(), Channel::default());
    }
    let names = |package: &Package| {
        package.by_preference().map(|(name, _)| name.to_owned()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names(&package), "m a z");
    package.default_channel = "gone".to_owned();
    assert_eq!(names(&package), "a m z");
}

fn property(kind: &str, value: &str) -> Property {
    Property { kind: kind.to_owned(), value: value.to_owned() }
}

fn lamp() -> registry_model::Bundle {
    registry_model::Bundle {
        csv_name: "lamp.v1.2.3".to_owned(),
        package_name: "lamp".to_owned(),
        channel_name: "stable".to_owned(),
        version: "1.2.3".to_owned(),
        skip_range: "<1.0.0".to_owned(),
        replaces: "lamp.v1.2.2".to_owned(),
        bundle_path: "example.com/lamp:1.2.3".to_owned(),
        deprecation: Some("too bright".to_owned()),
        ..registry_model::Bundle::default()
    }
}

#[test]
fn dependencies_become_properties_beside_those_that_say_the_same() {
    let gvk = r#"{"group":"g","kind":"K","version":"v1"}"#;
    let bundle = registry_model::Bundle {
        properties: vec![property("olm.gvk.required", gvk)],
        dependencies: vec![
            property("olm.gvk", gvk),
            property("olm.package", r#"{"packageName":"socket","version":">1"}"#),
            property("olm.label", "\"l\""),
            property("other", "1"),
        ],
        ..lamp()
    };
    let facts = Bundle::of(&bundle).unwrap();
    let properties: Vec<String> =
        facts.properties.iter().map(|one| format!("{} {}", one.kind, one.value)).collect();
    assert_eq!(
        properties,
        [
            format!("olm.gvk.required {gvk}"),
            r#"olm.gvk.required {"group":"g","version":"v1","kind":"K"}"#.to_owned(),
            r#"olm.package.required {"packageName":"socket","versionRange":"\u003e1"}"#.to_owned(),
            r#"olm.label.required "l""#.to_owned(),
            r#"olm.package {"packageName":"lamp","version":"1.2.3"}"#.to_owned(),
        ]
    );
    let broken = registry_model::Bundle { dependencies: vec![property("olm.gvk", "{")], ..lamp() };
    assert_eq!(Bundle::of(&broken), None);
}

#[test]
fn kinds_become_properties_where_there_are_none() {
    let kind = |name: &str| GroupVersionKind {
        group: "g".to_owned(),
        version: "v1".to_owned(),
        kind: name.to_owned(),
    };
    let bundle =
        registry_model::Bundle { provided_apis: vec![kind("P")], required_apis: vec![kind("R")], ..lamp() };
    let facts = Bundle::of(&bundle).unwrap();
    let kinds: Vec<&str> = facts.properties.iter().map(|one| one.kind.as_str()).collect();
    assert_eq!(kinds, ["olm.gvk", "olm.gvk.required", "olm.package"]);
    assert_eq!(facts.provided, [kind("P")].into());
}

fn package() -> registry_model::Package {
    let channel = registry_model::Channel {
        name: "stable".to_owned(),
        csv_name: "lamp.v1.2.3".to_owned(),
        deprecation: None,
    };
    registry_model::Package {
        name: "lamp".to_owned(),
        channels: vec![channel],
        default_channel_name: "stable".to_owned(),
        deprecation: Some("old".to_owned()),
    }
}

#[test]
fn a_snapshot_is_made_of_answers() {
    let mut snapshot = Snapshot::default();
    assert_eq!(snapshot.push_bundle(&lamp()), Ok(false), "its package is not known");
    snapshot.push_package(&package()).unwrap();
    assert_eq!(snapshot.push_bundle(&lamp()), Ok(true));
    assert_eq!(
        snapshot.push_bundle(&registry_model::Bundle { csv_name: String::new(), ..lamp() }),
        Ok(false)
    );
    let lamp = &snapshot.packages["lamp"];
    assert_eq!(lamp.graph.deprecation.as_deref(), Some("old"));
    assert_eq!(lamp.graph.deprecated_bundles["lamp.v1.2.3"], "too bright");
    let entry = &lamp.graph.channels["stable"].entries["lamp.v1.2.3"];
    assert_eq!((entry.replaces.as_str(), entry.skip_range.as_str()), ("lamp.v1.2.2", "<1.0.0"));
    assert_eq!(lamp.bundles["lamp.v1.2.3"].version.as_ref().unwrap().to_string(), "1.2.3");
}

#[test]
fn a_snapshot_ends_where_its_memory_does() {
    let mut snapshot = Snapshot::default();
    snapshot.push_package(&package()).unwrap();
    let text = "x".repeat(SNAPSHOT_BYTES_MAX / 4);
    let result = (0..8).try_for_each(|number| {
        let bundle = registry_model::Bundle {
            csv_name: number.to_string(),
            properties: vec![property("p", &text)],
            ..lamp()
        };
        snapshot.push_bundle(&bundle).map(drop)
    });
    assert_eq!(result, Err(SnapshotError));
}

proptest! {
    #[test]
    fn any_channel_has_an_order_or_a_reason(edges in prop::collection::vec((0..8_u8, 0..8_u8, prop::collection::vec(0..8_u8, 0..3)), 0..9)) {
        let name = |number: u8| if number == 0 { String::new() } else { format!("b{number}") };
        let entries = edges.iter().filter(|(one, ..)| *one > 0).map(|(one, replaces, skips)| {
            let skips = skips.iter().map(|skip| name(*skip)).collect();
            (name(*one), Entry { name: name(*one), replaces: name(*replaces), skips, skip_range: String::new() })
        });
        let channel = Channel { entries: entries.collect(), ..Channel::default() };
        if let Ok(order) = channel.order("p", "c") {
            for pair in order.windows(2) {
                prop_assert!(pair[0].name != pair[1].name);
            }
            prop_assert_eq!(order.is_empty(), channel.entries.is_empty());
        }
    }
}
