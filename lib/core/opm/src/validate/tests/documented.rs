//! Each rule that is only documented, with a document that breaks it.

use serde_json::{Value, json};

use super::{outline, report, valid};

fn warnings(document: &Value) -> Vec<String> {
    let outline = outline(&document.to_string()).expect("taken");
    outline.warnings.iter().map(|warning| warning.message.clone()).collect()
}

fn bundle(change: &Value) -> Value {
    let mut bundle = json!({"schema": "olm.bundle", "package": "p", "name": "b", "image": "i"});
    for (key, value) in change.as_object().expect("an object") {
        bundle[key] = value.clone();
    }
    bundle
}

fn property(kind: &str, value: &Value) -> Value {
    bundle(&json!({"properties": [{"type": kind, "value": value}]}))
}

#[test]
fn rules_that_are_only_documented_give_warnings() {
    let cases = [
        (
            json!({"schema": "x.io/a", "package": ""}),
            vec!["package is empty: remove the field or name a package"],
        ),
        (json!({"schema": "x.io/a", "properties": {}}), vec!["properties is not a list"]),
        (
            json!({"schema": "x.io/a", "properties": [7]}),
            vec!["properties[0] is not an object with type and value"],
        ),
        (bundle(&json!({"properties": [{"value": 1}]})), vec!["properties[0].type is missing or empty"]),
        (property("t", &json!(null)), vec!["properties[0].value is missing or null"]),
        (
            property("olm.mine", &json!(1)),
            vec!["properties[0].type \"olm.mine\" has OLM's own prefix: use a prefix of your own"],
        ),
        (
            json!({"schema": "olm.mine"}),
            vec!["schema \"olm.mine\" has OLM's own prefix: use a prefix of your own"],
        ),
        (
            json!({"schema": "olm.package", "name": "p", "icon": {}}),
            vec!["icon.base64data is missing", "icon.mediatype is missing"],
        ),
        (json!({"schema": "olm.channel", "package": "p", "name": "c"}), vec!["entries is missing"]),
        (
            json!({"schema": "olm.channel", "package": "p", "name": "c", "entries": [
                {}, {"name": "b", "replaces": "", "skipRange": ""}, {"name": "c", "skipRange": "1.0.0 || || 2.0.0"}]}),
            vec![
                "entries[0].name is missing or empty",
                "entries[1].replaces is empty: remove the field",
                "entries[1].skipRange is empty: remove the field",
                "entries[2].skipRange \"1.0.0 || || 2.0.0\" has nothing between two \"||\": that part never matches",
            ],
        ),
        (bundle(&json!({"image": ""})), vec!["image is missing or empty"]),
        (
            bundle(&json!({"relatedImages": [{"name": "n"}, {"name": "", "image": "i"}, {"image": "i"},
                {"name": "", "image": "i"}]})),
            vec![
                "relatedImages[0].image is missing or empty",
                "relatedImages[1].name is empty: remove the field or set a name (and 1 more)",
            ],
        ),
        (
            json!({"schema": "olm.deprecations", "package": "p", "name": "d", "entries": []}),
            vec!["name is set: deprecations belong to a package and have no name"],
        ),
    ];
    assert_warnings(&cases);
}

fn assert_warnings(cases: &[(Value, Vec<&str>)]) {
    for (document, expected) in cases {
        assert_eq!(warnings(document), *expected, "{document}");
    }
}

#[test]
fn documented_rules_for_apis_and_required_packages_give_warnings() {
    let gvk = json!({"group": "g.io", "version": "v1", "kind": "K"});
    let cases = [
        (property("olm.gvk", &gvk), vec![]),
        (
            property("olm.gvk", &json!({"group": "-.io", "version": "1"})),
            vec![
                "properties[0].value.group \"-.io\" of type olm.gvk is not a DNS subdomain",
                "properties[0].value.version \"1\" of type olm.gvk is not a DNS label that begins with a letter",
                "properties[0].value.kind \"\" of type olm.gvk is not a DNS label that begins with a letter, in any case",
            ],
        ),
        (
            property("olm.gvk.required", &json!({"group": "", "version": "v1", "kind": "A b"})),
            vec![
                "properties[0].value.group \"\" of type olm.gvk.required is not a DNS subdomain",
                "properties[0].value.kind \"A b\" of type olm.gvk.required is not a DNS label that begins with a letter, in any case",
            ],
        ),
        (
            property("olm.package.required", &json!({"versionRange": "^1"})),
            vec![
                "properties[0].value.packageName of type olm.package.required is missing or empty",
                "properties[0].value.versionRange \"^1\" of type olm.package.required is not a range: Could not parse Range \"^1\": Could not parse comparator \"^\" in \"^1\"",
            ],
        ),
        (
            property("olm.package.required", &json!({"packageName": "q", "versionRange": ">=1.0.0 <2.0.0"})),
            vec![],
        ),
    ];
    assert_warnings(&cases);
}

#[test]
fn warnings_name_the_document_and_do_not_make_a_catalog_invalid() {
    let text = valid() + &json!({"schema": "olm.mine", "package": "p", "name": "n"}).to_string();
    assert!(report(&text).passed());
    let outline = outline(&text).expect("taken");
    let warning = &outline.warnings[0];
    assert_eq!(
        (warning.schema.as_str(), warning.package.as_str(), warning.name.as_str()),
        ("olm.mine", "p", "n")
    );
}
