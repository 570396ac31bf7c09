use olm_fbc::MetaReader;
use serde_json::{Value, json};

use super::*;

fn package(name: &str) -> Value {
    json!({"schema": "olm.package", "name": name, "defaultChannel": "stable"})
}

fn channel(package: &str, name: &str, entries: &Value) -> Value {
    json!({"schema": "olm.channel", "package": package, "name": name, "entries": entries})
}

fn bundle(package: &str, version: &str, metadata: &Value) -> Value {
    json!({"schema": "olm.bundle", "package": package, "name": format!("{package}.v{version}"), "properties": [
        {"type": "olm.package", "value": {"packageName": package, "version": version}},
        {"type": "olm.csv.metadata", "value": metadata},
    ]})
}

fn index(documents: &[Value]) -> SearchIndex {
    let text = documents.iter().map(Value::to_string).collect::<Vec<_>>().join("\n");
    let (mut index, mut reader) = (SearchIndex::default(), MetaReader::new(text.as_bytes()));
    while let Some(meta) = reader.next_meta().unwrap() {
        index.push(&meta);
    }
    index
}

/// One package with one version.
fn small(name: &str, metadata: &Value) -> [Value; 3] {
    let entries = json!([{"name": format!("{name}.v1.0.0")}]);
    [package(name), channel(name, "stable", &entries), bundle(name, "1.0.0", metadata)]
}

fn names(index: &SearchIndex, words: &[&str]) -> Vec<String> {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    index.search(&words).into_iter().map(|hit| hit.name).collect()
}

#[test]
fn names_come_before_keywords_display_names_and_descriptions() {
    let index = index(
        &[
            small("a-text", &json!({"description": "Works with Argo."})),
            small("b-short", &json!({"annotations": {"description": "Like argo"}})),
            small("c-display", &json!({"displayName": "The Argo"})),
            small("d-keyword", &json!({"keywords": ["ARGO"]})),
            small("e-argocd", &json!({})),
            small("argo-operator", &json!({})),
            small("argo", &json!({})),
            small("other", &json!({})),
        ]
        .concat(),
    );
    let expected = ["argo", "argo-operator", "e-argocd", "d-keyword", "c-display", "b-short", "a-text"];
    assert_eq!(names(&index, &["argo"]), expected);
}

#[test]
fn every_word_has_to_be_found_somewhere() {
    let index = index(
        &[
            small("kafka", &json!({"keywords": ["streaming"], "provider": {"name": "Strimzi"}})),
            small("kafka-other", &json!({})),
        ]
        .concat(),
    );
    assert_eq!(names(&index, &["Kafka", "strimzi"]), ["kafka"]);
    assert_eq!(names(&index, &[]), ["kafka", "kafka-other"]);
    assert_eq!(names(&index, &["kafka", "nothing"]), Vec::<String>::new());
}

#[test]
fn a_package_is_shown_as_the_head_of_its_default_channel_in_any_order_of_documents() {
    let metadata = |name: &str| json!({"displayName": name});
    let mut documents = vec![
        package("p"),
        channel("p", "alpha", &json!([{"name": "p.v3.0.0"}])),
        channel("p", "stable", &json!([{"name": "p.v2.0.0", "replaces": "p.v1.0.0"}, {"name": "p.v1.0.0"}])),
        bundle("p", "1.0.0", &metadata("one")),
        bundle("p", "2.0.0", &metadata("two")),
        bundle("p", "3.0.0", &metadata("three")),
    ];
    for _ in 0..2 {
        let hits = index(&documents).search(&["p".to_owned()]);
        let [hit] = &hits[..] else { panic!("{hits:?}") };
        assert_eq!((hit.version.as_str(), hit.display_name.as_str()), ("2.0.0", "two"));
        assert_eq!((hit.bundle.as_str(), hit.channel.as_str()), ("p.v2.0.0", "stable"));
        documents.reverse();
    }
}

#[test]
fn of_a_channel_without_a_single_head_the_highest_version_is_shown() {
    let entries = json!([{"name": "p.v1.9.0"}, {"name": "p.v1.10.0"}]);
    let index = index(&[
        package("p"),
        channel("p", "stable", &entries),
        bundle("p", "1.10.0", &json!({})),
        bundle("p", "1.9.0", &json!({})),
    ]);
    assert_eq!(index.search(&[])[0].version, "1.10.0");
}

#[test]
fn the_csv_of_an_older_bundle_is_read_too() {
    let csv = json!({"kind": "ClusterServiceVersion", "metadata": {"annotations": {"description": "short"}},
        "spec": {"displayName": "Old", "installModes": [
            {"type": "AllNamespaces", "supported": true}, {"type": "OwnNamespace", "supported": false}],
            "customresourcedefinitions": {"owned": [{"name": "as.b.c", "kind": "A", "version": "v1"}]}}});
    let data: Vec<u8> = csv.to_string().into_bytes();
    let bundle = json!({"package": "p", "name": "b", "properties": [
        {"type": "olm.bundle.object", "value": {"data": data}}]});
    let profile = Profile::of(Fields::of(&bundle)).unwrap();
    assert_eq!((profile.display_name.as_str(), profile.summary.as_str()), ("Old", "short"));
    assert_eq!(profile.install_modes, ["AllNamespaces"]);
    assert_eq!(profile.provided_apis[0].name, "as.b.c");
}

#[test]
fn texts_and_lists_have_limits() {
    use crate::limits::{KEYWORDS_MAX, TEXT_CHARACTERS_MAX};
    let metadata =
        json!({"description": "ä".repeat(TEXT_CHARACTERS_MAX + 1), "keywords": vec!["k"; KEYWORDS_MAX + 1]});
    let profile = Profile::of(Fields::of(&bundle("p", "1.0.0", &metadata))).unwrap();
    assert_eq!(profile.description.chars().count(), TEXT_CHARACTERS_MAX);
    assert_eq!(profile.keywords.len(), KEYWORDS_MAX);
}

#[test]
fn documents_that_cannot_be_read_are_skipped() {
    let wrong = [
        json!({"schema": "olm.channel", "package": "p", "name": "c", "entries": 3}),
        json!({"schema": "olm.bundle", "package": "p", "name": "b", "properties": "x"}),
        json!({"schema": "olm.bundle", "name": "b"}),
    ];
    let index = index(&[&wrong[..], &small("p", &json!({}))].concat());
    assert_eq!(names(&index, &["p"]), ["p"]);
}
