use std::collections::BTreeSet;

use olm_fbc::{ChannelEntry, MetaReader};
use proptest::prelude::*;

use super::{Report, validate};
use crate::{DecodeError, Outline};

mod documented;
mod packages;
mod sample;

use sample::{bundle, channel, channel_of, entries, package, valid};

/// Stands in for the syntax of image references, which this crate leaves to its caller.
fn image_syntax(text: &str) -> Result<(), String> {
    if text.contains("://") { Err("invalid reference format".into()) } else { Ok(()) }
}

fn outline(text: &str) -> Result<Outline, DecodeError> {
    let mut outline = Outline::new(image_syntax);
    let mut reader = MetaReader::new(text.as_bytes());
    while let Some(meta) = reader.next_meta().expect("a stream of objects") {
        outline.push(&meta)?;
    }
    Ok(outline)
}

fn report(text: &str) -> Report {
    validate(&outline(text).expect("documents of the right form"))
}

fn message(text: &str) -> String {
    report(text).message().unwrap_or_default()
}

/// Compares without regard to the order of siblings, which opm leaves to chance.
fn assert_same_lines(found: &str, expected: &str, what: &str) {
    let set = |text: &str| -> BTreeSet<String> {
        text.lines().map(|line| line.trim_start_matches([' ', '│', '├', '└', '─']).to_owned()).collect()
    };
    assert_eq!(set(found), set(expected), "{what}\n{found}");
}

#[test]
fn a_valid_catalog_passes() {
    assert_eq!(message(&valid()), "");
    assert_eq!(message(""), "");
    let text = valid()
        + r#"{"schema":"olm.deprecations","package":"p","entries":[
            {"reference":{"schema":"olm.package"},"message":"first line\nsecond *line*"},
            {"reference":{"schema":"olm.channel","name":"ch"},"message":"use beta"},
            {"reference":{"schema":"olm.bundle","name":"p.v1.0.0"},"message":"bad"}]}"#;
    assert_eq!(message(&text), "");
}

/// The example of the specification of the tree's form.
#[test]
fn findings_about_packages_are_a_tree() {
    let text = [
        package("p", "ch"),
        channel("p", "ch", &[r#"{"name":"p.v1.0.0","skipRange":"~1"}"#, r#"{"name":"p.v2.0.0"}"#]),
        bundle("p", "p.v1.0.0", "1.0.0", ""),
        bundle("p", "p.v2.0.0", "1.0.0", "quay.io/p:2"),
        r#"{"schema":"olm.deprecations","package":"p","entries":[{"reference":{"schema":"olm.package"}}]}"#
            .into(),
    ]
    .concat();
    let expected = r#"invalid index:
└── invalid package "p":
    ├── invalid channel "ch":
    │   ├── multiple channel heads found in graph: p.v1.0.0, p.v2.0.0
    │   └── invalid bundle "p.v1.0.0":
    │       ├── invalid skipRange "~1": Could not parse Range "~1": Could not parse comparator "~" in "~1"
    │       └── bundle image must be set
    ├── duplicate versions found in bundles: [{1.0.0: [p.v1.0.0, p.v2.0.0]}]
    └── invalid deprecation: message must be set"#;
    assert_eq!(message(&text), expected);
    let leaves = report(&text).tree.expect("a tree").leaves().iter().map(Vec::len).collect::<Vec<_>>();
    assert_eq!(leaves, [4, 5, 5, 3, 3]);
}

fn graph_entries(text: &str) -> Vec<ChannelEntry> {
    let named = |list: &str| list.split('+').filter(|name| !name.is_empty()).map(str::to_owned).collect();
    text.split(' ')
        .map(|entry| {
            let mut parts = entry.split(['>', '!', '~']);
            let part = |sign| {
                entry.split_once(sign).map_or("", |(_, rest): (&str, &str)| {
                    rest.split(['>', '!', '~']).next().unwrap_or_default()
                })
            };
            ChannelEntry {
                name: parts.next().unwrap_or_default().to_owned(),
                replaces: part('>').to_owned(),
                skips: named(part('!')),
                skip_range: part('~').to_owned(),
            }
        })
        .collect()
}

#[test]
fn graphs_are_validated_as_opm_does() {
    // name>replaces!skips~skipRange
    for (entries, expected) in [
        ("3>2 2>1 1", ""),
        ("1 2", "multiple channel heads found in graph: 1, 2"),
        ("1 2~<2.0.0", "multiple channel heads found in graph: 1, 2"),
        ("2!1 1", ""),
        ("1>2 2>1", "no channel head found in graph"),
        ("3>2 2>1 1>2", "detected cycle in replaces chain of upgrade graph: 2 -> 1 -> 2"),
        ("1>1", "no channel head found in graph"),
        ("2>1 1>1", "detected cycle in replaces chain of upgrade graph: 1 -> 1"),
        ("1!1", "no channel head found in graph"),
        ("3>2 2!1 1>0.1 0.1", "channel contains one or more stranded bundles: 0.1"),
        ("3>2!2 2>1 1", "channel contains one or more stranded bundles: 1"),
        ("1>0.9", ""),
        ("1>2 2", ""),
        // The same name replaced and skipped, absent names skipped, a head skipped from below.
        ("2>1!1 1", ""),
        ("2!0.8+0.9 2.1>2", ""),
        ("2>1 1!2", "no channel head found in graph"),
        // A cycle off the chain is stranded or gives other heads, but is no cycle.
        ("5 2>1 1>2", "channel contains one or more stranded bundles: 1, 2"),
        ("5 4 2>1 1>2", "multiple channel heads found in graph: 4, 5"),
        ("0.9.2>0.9.0!0.9.1 0.9.1>0.9.0 0.9.0", ""),
    ] {
        let found = super::graph::check(&graph_entries(entries))
            .map_or_else(|error| error.to_string(), |()| String::new());
        assert_eq!(found, expected, "{entries}");
    }
}

#[test]
fn the_newest_z_stream_has_to_lead_on_from_all_earlier_ones() {
    let validated =
        |entries: &str| super::graph::check(&graph_entries(entries)).map_err(|error| error.to_string());
    // 1.1.2 replaces the version before the stream, and skips the streams that came between.
    assert_eq!(validated("1.1.2>1.0.0!1.1.0+1.1.1 1.1.1>1.0.0!1.1.0 1.1.0>1.0.0 1.0.0"), Ok(()));
    assert_eq!(
        validated("1.1.2>1.0.0 1.1.1>1.0.0!1.1.0 1.1.0>1.0.0 1.0.0"),
        Err("multiple channel heads found in graph: 1.1.1, 1.1.2".to_owned())
    );
    // A skip range alone leaves the versions in it as heads of their own; with replaces they stay installable.
    assert_eq!(
        validated("1.2.0~<1.2.0 1.1.0~<1.1.0 1.0.0"),
        Err("multiple channel heads found in graph: 1.0.0, 1.1.0, 1.2.0".to_owned())
    );
    assert_eq!(validated("1.2.0>1.1.0~<1.2.0 1.1.0>1.0.0~<1.1.0 1.0.0"), Ok(()));
    // Only the graph counts: a version may be replaced by a lower one.
    assert_eq!(validated("1.0.0>2.0.0 2.0.0"), Ok(()));
}

#[test]
fn metadata_alone_promotes_a_bundle_adds_an_edge_and_changes_the_default_channel() {
    let bundles: String = ["1.2.3", "1.3.0", "1.2.4"]
        .map(|version| bundle("p", &format!("p.v{version}"), version, "quay.io/p:1"))
        .concat();
    let alpha = channel(
        "p",
        "alpha",
        &[
            r#"{"name":"p.v1.3.0","replaces":"p.v1.2.3","skips":["p.v1.2.4"]}"#,
            r#"{"name":"p.v1.2.4","replaces":"p.v1.2.3"}"#,
            r#"{"name":"p.v1.2.3"}"#,
        ],
    );
    let promoted = channel("p", "stable", &[r#"{"name":"p.v1.2.3"}"#]);
    for text in [
        package("p", "alpha") + &alpha + &bundles,
        package("p", "alpha") + &alpha + &promoted + &bundles,
        package("p", "stable") + &alpha + &promoted + &bundles,
    ] {
        assert_eq!(message(&text), "");
    }
    // Without the added edge 1.2.4 is a head of its own.
    let unlinked = alpha.replace(r#","skips":["p.v1.2.4"]"#, "");
    let expected = "multiple channel heads found in graph: p.v1.2.4, p.v1.3.0";
    assert!(message(&(package("p", "alpha") + &unlinked + &bundles)).contains(expected));
}

#[test]
fn every_finding_of_the_first_step_is_listed_and_the_first_is_opms() {
    let text = [
        package("p", "ch"),
        package("p", "ch"),
        channel("nowhere", "x", &[]),
        channel("p", "ch", &[r#"{"name":"p.v1.0.0"}"#]),
        bundle("p", "p.v1.0.0", "1.0", "http://x"),
        // Nothing is said about what only follows: the second step leaves p out, but not q.
        package("q", "ch"),
        channel("q", "ch", &[r#"{"name":"q.v1.0.0"}"#]),
        bundle("q", "q.v1.0.0", "1.0.0", ""),
    ]
    .concat();
    let report = report(&text);
    let messages: Vec<&str> = report.findings.iter().map(|finding| finding.message.as_str()).collect();
    assert_eq!(
        messages,
        [
            "duplicate package \"p\"",
            "unknown package \"nowhere\" for channel \"x\"",
            "package \"p\" bundle \"p.v1.0.0\" image: invalid image pull spec \"http://x\": invalid reference format",
            "error parsing bundle \"p.v1.0.0\" version \"1.0\": No Major.Minor.Patch elements found",
        ]
    );
    assert_eq!(report.message().as_deref(), Some("duplicate package \"p\""));
    let tree = report.tree.expect("the second step of q").to_string();
    assert_same_lines(
        &tree,
        "invalid index:\ninvalid package \"q\":\ninvalid channel \"ch\":\ninvalid bundle \"q.v1.0.0\":\nbundle image must be set",
        "q",
    );
}

/// Documents of a catalog with all kinds of mistakes.
fn documents() -> impl Strategy<Value = Vec<String>> {
    let name = prop_oneof![Just(""), Just("p"), Just("q"), Just("Bad"), Just("x.y")];
    let bundle_name = prop_oneof![Just(""), Just("a"), Just("b"), Just("c"), Just("d\n\"")];
    let version = prop_oneof![Just("1.0.0"), Just("1.0.1"), Just("2.0.0-a+1"), Just("1"), Just("")];
    let entry = (bundle_name.clone(), bundle_name.clone(), prop::collection::vec(bundle_name.clone(), 0..3))
        .prop_map(|(name, replaces, skips)| {
            serde_json::json!({"name": name, "replaces": replaces, "skips": skips, "skipRange": replaces})
        });
    let document = prop_oneof![
        (name.clone(), name.clone())
            .prop_map(|(name, default)| serde_json::json!({"schema": "olm.package", "name": name, "defaultChannel": default})),
        (name.clone(), name.clone(), prop::collection::vec(entry, 0..5)).prop_map(|(package, name, entries)| {
            serde_json::json!({"schema": "olm.channel", "name": name, "package": package, "entries": entries})
        }),
        (name.clone(), bundle_name.clone(), version, any::<bool>()).prop_map(|(package, name, version, image)| {
            serde_json::json!({"schema": "olm.bundle", "name": name, "package": package,
                "image": if image { "quay.io/x" } else { "" },
                "properties": [{"type": "olm.package", "value": {"packageName": package, "version": version}}]})
        }),
        (name, bundle_name, prop_oneof![Just("olm.bundle"), Just("olm.channel"), Just("olm.package"), Just("")])
            .prop_map(|(package, name, schema)| {
                serde_json::json!({"schema": "olm.deprecations", "package": package,
                    "entries": [{"reference": {"schema": schema, "name": name}, "message": name}]})
            }),
    ];
    prop::collection::vec(document.prop_map(|document| document.to_string()), 0..14)
}

proptest! {
    #[test]
    fn the_order_of_documents_does_not_change_the_verdict(documents in documents(), seed in any::<u64>()) {
        let mut shuffled = documents.clone();
        let mut state = seed | 1;
        for at in (1..shuffled.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            shuffled.swap(at, (state >> 33) as usize % (at + 1));
        }
        prop_assert_eq!(report(&documents.concat()).passed(), report(&shuffled.concat()).passed());
    }

    #[test]
    fn any_object_is_taken_or_refused_and_never_panics(text in "\\{\"schema\":\"olm\\.(package|channel|bundle|deprecations)\",\"(name|entries|properties|icon|image)\":(null|1|true|\"[a-z:/@.]{0,6}\"|\\[(null|1|\\{\\}|\\{\"type\":\"olm\\.(package|gvk|bundle\\.object|csv\\.metadata)\",\"value\":(null|1|\\{\"data\":\"[A-Za-z=]{0,5}\"\\})\\})?\\]|\\{\\})\\}") {
        let mut reader = MetaReader::new(text.as_bytes());
        let mut outline = Outline::new(image_syntax);
        if let Ok(Some(meta)) = reader.next_meta()
            && outline.push(&meta).is_ok()
        {
            let report = validate(&outline);
            prop_assert_eq!(report.passed(), report.message().is_none());
        }
    }
}
