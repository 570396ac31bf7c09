use std::collections::BTreeSet;

use olm_fbc::MetaReader;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn outline(documents: &[Value]) -> Outline {
    let text = documents.iter().map(Value::to_string).collect::<Vec<_>>().join("\n");
    let (mut outline, mut reader) = (Outline::new(|_| Ok(())), MetaReader::new(text.as_bytes()));
    while let Some(meta) = reader.next_meta().unwrap() {
        outline.push(&meta).unwrap();
    }
    outline
}

/// A package `p` with a channel: each version with the entry's edges.
fn package(entries: &[(&str, Value)]) -> Vec<Value> {
    let in_channel: Vec<Value> = entries
        .iter()
        .map(|(version, edges)| {
            let mut entry = edges.clone();
            entry["name"] = format!("p.v{version}").into();
            entry
        })
        .collect();
    let bundle = |(version, _): &(&str, Value)| {
        json!({"schema": "olm.bundle", "package": "p", "name": format!("p.v{version}"), "image": format!("r.io/p:{version}"),
            "properties": [{"type": "olm.package", "value": {"packageName": "p", "version": version}}]})
    };
    let mut all = vec![
        json!({"schema": "olm.package", "name": "p", "defaultChannel": "c"}),
        json!({"schema": "olm.channel", "package": "p", "name": "c", "entries": in_channel}),
    ];
    all.extend(entries.iter().map(bundle));
    all
}

fn difference(old: &[Value], new: &[Value]) -> CatalogDifference {
    CatalogDifference::of(&outline(old), &outline(new))
}

#[test]
fn each_kind_of_change_is_in_its_list() {
    let old = package(&[("1.0.0", json!({})), ("1.1.0", json!({"replaces": "p.v1.0.0"}))]);
    let mut new =
        package(&[("1.0.0", json!({})), ("2.0.0", json!({"replaces": "p.v1.0.0", "skips": ["p.v1.1.0"]}))]);
    new[2]["image"] = "r.io/p:other".into();
    new[0]["defaultChannel"] = "d".into();
    new.push(json!({"schema": "olm.channel", "package": "p", "name": "d", "entries": []}));
    new.push(json!({"schema": "olm.deprecations", "package": "p", "entries": [
        {"reference": {"schema": "olm.channel", "name": "c"}, "message": "old\nchannel"}]}));
    new.push(json!({"schema": "olm.package", "name": "q", "defaultChannel": "c"}));
    let found = difference(&old, &new);
    let text: Vec<String> = found.packages.iter().map(ToString::to_string).collect();
    assert_eq!(
        text.join("\n"),
        "~ package p\n    ~ default channel c -> d\n    + channel d\n    + bundle p.v2.0.0\n    - bundle p.v1.1.0\n    \
         ~ bundle p.v1.0.0\n    + edge c: p.v2.0.0 replaces p.v1.0.0\n    + edge c: p.v2.0.0 skips p.v1.1.0\n    \
         - edge c: p.v1.1.0 replaces p.v1.0.0\n    + deprecation olm.channel c: old channel\n+ package q"
    );
    assert_eq!(found.stranded(), 0);
    assert_eq!(difference(&old, &old), CatalogDifference::default());
    let removed = difference(&new, &old);
    assert_eq!(removed.packages[1].change, PackageChange::Removed);
}

#[test]
fn a_version_is_stranded_when_its_upgrades_vanish_and_newer_versions_exist() {
    let old = package(&[
        ("1.0.0", json!({})),
        ("1.1.0", json!({"replaces": "p.v1.0.0"})),
        ("1.2.0", json!({"replaces": "p.v1.1.0"})),
    ]);
    let gap = package(&[("1.0.0", json!({})), ("1.2.0", json!({"replaces": "p.v1.1.0"}))]);
    assert_eq!(difference(&old, &gap).packages[0].stranded, ["p.v1.0.0"]);
    let ranged = package(&[("1.2.0", json!({"skipRange": "<1.2.0"}))]);
    assert_eq!(difference(&old, &ranged).stranded(), 0);
    // The newest was taken back: there is nothing that the installed one misses.
    let back = package(&[("1.0.0", json!({})), ("1.1.0", json!({"replaces": "p.v1.0.0"}))]);
    assert_eq!(difference(&old, &back).stranded(), 0);
    // Without the package nobody gets an upgrade.
    assert_eq!(difference(&old, &[]).packages[0].stranded, ["p.v1.0.0", "p.v1.1.0"]);
}

fn entries() -> impl Strategy<Value = Vec<(&'static str, Value)>> {
    let versions = ["1.0.0", "1.1.0", "1.2.0", "2.0.0", "2.1.0"];
    let edges = prop_oneof![
        Just(json!({})),
        prop::sample::select(versions.to_vec()).prop_map(|v| json!({"replaces": format!("p.v{v}")})),
        prop::sample::select(versions.to_vec()).prop_map(|v| json!({"skips": [format!("p.v{v}")]})),
        Just(json!({"skipRange": ">=1.0.0 <2.0.0"})),
    ];
    prop::sample::subsequence(versions.to_vec(), 0..=versions.len()).prop_flat_map(move |some| {
        some.into_iter().map(|v| edges.clone().prop_map(move |e| (v, e))).collect::<Vec<_>>()
    })
}

proptest! {
    /// What is added one way is removed the other way, and nobody is stranded by a catalog that only grows.
    #[test]
    fn both_ways_fit_together(old in entries(), new in entries()) {
        let (there, back) = (difference(&package(&old), &package(&new)), difference(&package(&new), &package(&old)));
        prop_assert_eq!(there.packages.len(), back.packages.len());
        for (one, other) in there.packages.iter().zip(&back.packages) {
            prop_assert_eq!(&one.bundles.added, &other.bundles.removed);
            prop_assert_eq!(&one.edges.removed, &other.edges.added);
            let listed: BTreeSet<String> = old.iter().map(|(version, _)| format!("p.v{version}")).collect();
            prop_assert!(one.stranded.iter().all(|bundle| listed.contains(bundle)));
            if one.edges.removed.is_empty() {
                prop_assert!(one.stranded.is_empty());
            }
        }
    }
}
