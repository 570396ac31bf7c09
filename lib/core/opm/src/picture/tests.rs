use std::collections::BTreeSet;

use olm_fbc::MetaReader;

use super::{PictureError, UpgradeGraph, View, mermaid, svg};
use crate::Outline;

fn outline(text: &str) -> Outline {
    let mut outline = Outline::new(|_| Ok(()));
    let mut reader = MetaReader::new(text.as_bytes());
    while let Some(meta) = reader.next_meta().expect("objects") {
        outline.push(&meta).expect("taken");
    }
    outline
}

fn bundle(name: &str, version: &str) -> String {
    serde_json::json!({"schema": "olm.bundle", "package": "p", "name": name, "image": "i", "properties": [
        {"type": "olm.package", "value": {"packageName": "p", "version": version}}]})
    .to_string()
}

fn channel(name: &str, entries: &serde_json::Value) -> String {
    serde_json::json!({"schema": "olm.channel", "package": "p", "name": name, "entries": entries}).to_string()
}

/// The catalog whose graph the documentation of opm shows.
fn sample() -> String {
    let entries = serde_json::json!([{"name": "p.v1.0.0"},
        {"name": "p.v2.0.0", "replaces": "p.v1.0.0", "skips": ["p.v1.5.0"], "skipRange": ">=1.0.0 <2.0.0"}]);
    "{\"schema\":\"olm.package\",\"name\":\"p\"}".to_owned()
        + &channel("ch", &entries)
        + &bundle("p.v1.0.0", "1.0.0")
        + &bundle("p.v2.0.0", "2.0.0")
}

fn graph(text: &str) -> UpgradeGraph {
    UpgradeGraph::of(&outline(text), &View::default()).expect("a graph")
}

#[test]
fn mermaid_is_that_of_the_original() {
    let expected = r#"graph LR
  classDef deprecated fill:#E8960F
  classDef skipped stroke:#FF0000,stroke-width:4px
  classDef deprecatedskipped fill:#E8960F,stroke:#FF0000,stroke-width:4px
  %% package "p"
  subgraph "p"
    %% channel "ch"
    subgraph p-ch["ch"]
      p-ch-p.v2.0.0["p.v2.0.0"]
      p-ch-p.v1.5.0["p.v1.5.0"]-- skip --> p-ch-p.v2.0.0["p.v2.0.0"]
      p-ch-p.v1.0.0["p.v1.0.0"]-- "skipRange(>=1.0.0 <2.0.0)" --> p-ch-p.v2.0.0["p.v2.0.0"]
      p-ch-p.v1.0.0["p.v1.0.0"]-- replace --> p-ch-p.v2.0.0["p.v2.0.0"]
      p-ch-p.v1.0.0["p.v1.0.0"]
    end
  end
"#;
    assert_eq!(mermaid(&graph(&sample())), expected);
}

#[test]
fn what_is_deprecated_or_skipped_is_marked_in_its_own_package_only() {
    let deprecations = r#"{"schema":"olm.deprecations","package":"p","entries":[
        {"reference":{"schema":"olm.package"},"message":"m"},{"reference":{"schema":"olm.channel","name":"ch"},"message":"m"},
        {"reference":{"schema":"olm.bundle","name":"p.v1.0.0"},"message":"m"}]}"#;
    let text = sample()
        + deprecations
        + r#"{"schema":"olm.channel","package":"q","name":"ch","entries":[{"name":"p.v1.0.0"}]}"#;
    let drawn = mermaid(&graph(&text));
    let marks: Vec<&str> =
        drawn.lines().filter(|line| line.starts_with("  style") || line.starts_with("  class ")).collect();
    assert_eq!(
        marks,
        ["  style p fill:#989695", "  style p-ch fill:#DCD0FF", "  class p-ch-p.v1.0.0 deprecated"]
    );
    let skipping = serde_json::json!([{"name": "b", "skips": ["a"]}, {"name": "a"}]);
    let text = channel("c", &skipping) + &bundle("a", "1.0.0") + &bundle("b", "1.0.1");
    assert!(mermaid(&graph(&text)).contains("  class p-c-a skipped\n"));
}

/// The places of the boxes with these class attributes, as (x, y).
fn boxes(svg: &str) -> Vec<(usize, usize)> {
    let number = |text: &str, name: &str| {
        let rest = &text[text.find(name).expect("an attribute") + name.len()..];
        rest[..rest.find('"').expect("an end")].parse().expect("a number")
    };
    svg.split("<rect class=\"")
        .skip(1)
        .filter(|text| text.starts_with(['n', 'a']))
        .map(|text| (number(text, " x=\""), number(text, " y=\"")))
        .collect()
}

#[test]
fn the_picture_has_a_box_for_each_bundle_and_newer_ones_stand_to_the_right() {
    let entries = serde_json::json!([{"name": "v3", "replaces": "v2", "skips": ["v1"]}, {"name": "v2", "replaces": "v1"},
        {"name": "v1"}, {"name": "beside"}]);
    let bundles = [("v3", "3.0.0"), ("v2", "2.0.0"), ("v1", "1.0.0"), ("beside", "0.1.0")];
    let text = channel("c", &entries) + &bundles.map(|(name, version)| bundle(name, version)).concat();
    let drawn = svg(&graph(&text));
    let places = boxes(&drawn);
    assert_eq!(places.len(), 4);
    let different: BTreeSet<_> = places.iter().collect();
    assert_eq!(different.len(), 4, "no two bundles in one place");
    let (v3, v2, v1) = (places[0], places[1], places[2]);
    assert!(v1.0 < v2.0 && v2.0 < v3.0, "{places:?}");
    assert!(v1.1 == v2.1 && v2.1 == v3.1, "the chain is a line: {places:?}");
    assert_eq!(svg(&graph(&text)), drawn);
}

#[test]
fn a_skip_range_leads_from_every_version_in_it() {
    let entries = serde_json::json!([{"name": "v4.1.2", "skipRange": ">=4.1.0 <4.1.2"}, {"name": "v4.1.1"},
        {"name": "v4.1.0"}, {"name": "v4.0.9"}]);
    let bundles = ["4.1.2", "4.1.1", "4.1.0", "4.0.9"].map(|version| bundle(&format!("v{version}"), version));
    let drawn = mermaid(&graph(&(channel("c", &entries) + &bundles.concat())));
    let skipped: Vec<&str> =
        drawn.lines().filter(|line| line.contains("skipRange(")).map(str::trim).collect();
    assert_eq!(
        skipped,
        [
            "p-c-v4.1.1[\"v4.1.1\"]-- \"skipRange(>=4.1.0 <4.1.2)\" --> p-c-v4.1.2[\"v4.1.2\"]",
            "p-c-v4.1.0[\"v4.1.0\"]-- \"skipRange(>=4.1.0 <4.1.2)\" --> p-c-v4.1.2[\"v4.1.2\"]",
        ]
    );
}

#[test]
fn cycles_and_repeated_entries_are_drawn_too() {
    let entries = serde_json::json!([{"name": "a", "replaces": "b"}, {"name": "b", "replaces": "a"},
        {"name": "a"}, {"name": "c", "replaces": "c", "skips": ["c", ""]}]);
    let text = channel("c", &entries) + &bundle("a", "1.0.0") + &bundle("b", "2.0.0");
    let graph = graph(&text);
    assert_eq!(boxes(&svg(&graph)).len(), 4);
    assert!(mermaid(&graph).contains("p-c-b[\"b\"]-- replace --> p-c-a[\"a\"]"));
}

#[test]
fn names_cannot_break_out_of_a_picture() {
    let name = "</text><script>alert(1)</script>\"]-->\u{1b}x&'";
    let entries = serde_json::json!([{"name": name, "replaces": "\"]; end", "skipRange": "<script>"}]);
    let text =
        serde_json::json!({"schema": "olm.channel", "package": name, "name": name, "entries": entries})
            .to_string();
    let graph = graph(&text);
    assert_eq!(graph.ignored.len(), 1);
    let drawn = svg(&graph);
    assert!(!drawn.contains("<script") && !drawn.contains('\u{1b}') && !drawn.contains("\"]--"), "{drawn}");
    assert!(drawn.contains("&lt;script&gt;"));
    let text = mermaid(&graph);
    assert!(!text.contains('\u{1b}'), "{text}");
    assert!(text.lines().all(|line| !line.trim().starts_with("end\"")), "{text}");
    assert!(!text.contains("\"]; end[\""), "{text}");
}

#[test]
fn what_cannot_be_drawn_is_named() {
    let of = |text: &str, packages: &[&str], channels: &[&str]| {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let view = View { packages: owned(packages), channels: owned(channels) };
        UpgradeGraph::of(&outline(text), &view).map(|_| ()).map_err(|error: PictureError| error.to_string())
    };
    assert_eq!(of(&sample(), &["p"], &["ch"]), Ok(()));
    assert_eq!(of(&sample(), &["nope"], &[]), Err("package \"nope\" not found".into()));
    assert_eq!(of(&sample(), &["p"], &["nope"]), Err("channel \"nope\" not found".into()));
    let none = r#"{"schema":"olm.bundle","package":"p","name":"x","image":"i"}"#;
    assert_eq!(
        of(none, &[], &[]),
        Err("bundle \"x\" has multiple \"olm.package\" properties, expected exactly 1".into())
    );
    assert_eq!(
        of(&bundle("x", "1.0"), &[], &[]),
        Err("bundle \"x\" has invalid version \"1.0\": No Major.Minor.Patch elements found".into())
    );
    let many: Vec<_> =
        (0..450).map(|n| serde_json::json!({"name": format!("b{n}"), "skipRange": ">=0.0.0"})).collect();
    let bundles: String = (0..450).map(|n| bundle(&format!("b{n}"), &format!("1.0.{n}"))).collect();
    let text = channel("c", &serde_json::json!(many)) + &bundles;
    assert_eq!(
        of(&text, &[], &[]),
        Err("the graph has more than 100000 edges: choose packages or channels".into())
    );
}
