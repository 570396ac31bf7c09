use olm_bundle::typed::Kind;
use olm_fbc::ChannelEntry;
use olm_go::field::Fields;
use serde_json::json;

use super::check;
use crate::{
    registry_v1::csv_metadata,
    structures::{document, property},
};

const PACKAGE: &str = "olm.package";
const CHANNEL: &str = "olm.channel";
const BUNDLE: &str = "olm.bundle";
const DEPRECATION: &str = "olm.deprecations";

fn structure(schema: &str) -> Kind {
    document(schema).map_or_else(|| property(schema), |(_, kind)| kind)
}

/// Schema, document, the type found, the field and its type.
type Case = (&'static str, serde_json::Value, &'static str, &'static str, &'static str);

fn assert_refused(cases: &[Case]) {
    for (schema, value, found, field, wanted) in cases {
        let expected =
            format!("json: cannot unmarshal {found} into Go struct field {field} of type {wanted}");
        assert_eq!(check(value, &structure(schema)).unwrap_err().go, expected, "{value}");
    }
}

#[test]
fn fields_of_another_type_are_named_as_the_original_names_them() {
    assert_refused(&[
        (PACKAGE, json!({"defaultChannel": 1.1}), "number", "Package.defaultChannel", "string"),
        (PACKAGE, json!({"description": ["x"]}), "array", "Package.description", "string"),
        (PACKAGE, json!({"DEFAULTchannel": true}), "bool", "Package.defaultChannel", "string"),
        (PACKAGE, json!({"icon": "x"}), "string", "Package.icon", "declcfg.Icon"),
        (PACKAGE, json!({"icon": {"mediatype": {}}}), "object", "Package.icon.mediatype", "string"),
    ]);
    let icon = check(&json!({"icon": {"base64data": "!"}}), &structure(PACKAGE));
    assert_eq!(icon.unwrap_err().go, "illegal base64 data at input byte 0");
}

#[test]
fn fields_of_entries_properties_and_images_are_named_with_their_place() {
    assert_refused(&[
        (CHANNEL, json!({"entries": {}}), "object", "Channel.entries", "[]declcfg.ChannelEntry"),
        (CHANNEL, json!({"entries": [{"name": 1}]}), "number", "Channel.entries.name", "string"),
        (CHANNEL, json!({"entries": [{"skips": "a"}]}), "string", "Channel.entries.skips", "[]string"),
        (CHANNEL, json!({"entries": [{"skips": [1]}]}), "number", "Channel.entries.skips", "string"),
        (BUNDLE, json!({"properties": {}}), "object", "Bundle.properties", "[]property.Property"),
        (BUNDLE, json!({"relatedImages": [{"image": 1}]}), "number", "Bundle.relatedImages.image", "string"),
        (
            DEPRECATION,
            json!({"entries": [{"message": false}]}),
            "bool",
            "Deprecation.entries.message",
            "string",
        ),
        (
            "olm.csv.metadata",
            json!({"apiServiceDefinitions": {"owned": [{"containerPort": 1.5}]}}),
            "number",
            "CSVMetadata.apiServiceDefinitions.owned.containerPort",
            "int32",
        ),
    ]);
}

#[test]
fn unknown_fields_nulls_and_missing_fields_pass() {
    for value in [
        json!({}),
        json!({"unknown": {"name": 1}, "name": null, "entries": null}),
        json!({"entries": [null, {"skips": [null]}]}),
        json!({"properties": [{"type": "t", "value": 7}, {}]}),
    ] {
        assert_eq!(check(&value, &structure(CHANNEL)), Ok(()), "{value}");
    }
    assert_eq!(check(&json!({"base64data": [1, 255]}), &property("olm.bundle.object")), Ok(()));
    assert!(check(&json!({"data": [1, 256]}), &property("olm.bundle.object")).is_err());
}

#[test]
fn a_value_of_another_type_is_refused_with_its_place() {
    for (document, expected) in [
        (
            json!({"spec": {"links": [{"name": 1}]}}),
            r#"field "spec.links[0].name" is a number, expected a string"#,
        ),
        (
            json!({"metadata": {"labels": {"k": true}}}),
            r#"field "metadata.labels.k" is a boolean, expected a string"#,
        ),
        (
            json!({"spec": {"apiservicedefinitions": {"owned": [{"containerPort": 3_000_000_000_u32}]}}}),
            r#"field "spec.apiservicedefinitions.owned[0].containerPort" is a number, expected an integer of 32 bits"#,
        ),
        (json!({"spec": {"links": {}}}), r#"field "spec.links" is an object, expected a list"#),
        (json!({"spec": []}), r#"field "spec" is a list, expected an object"#),
        (json!(["spec"]), r#"field "" is a list, expected an object"#),
    ] {
        assert_eq!(csv_metadata(&document).unwrap_err().to_string(), expected);
    }
}

/// Reading for resolution and for validation gives the same answer.
#[test]
fn all_readers_find_the_same_value() {
    for (document, replaces, skips) in [
        (json!({"Replaces": "a", "replaces": "b"}), "b", 0),
        (json!({"REPLACES": "a", "Replaces": "b"}), "b", 0),
        (json!({"Replaces": "a", "replaces": null}), "a", 0),
        (json!({"replaces": "a", "replace\u{17f}": "b"}), "b", 0),
        (json!({"replaces": null}), "", 0),
        (json!({"Skips": ["a"], "skips": null}), "", 0),
        (json!({"Skips": null, "skips": ["a"]}), "", 1),
        (json!({"skips": ["a", null]}), "", 2),
    ] {
        let fields = Fields::of(&document);
        let resolved: ChannelEntry = serde_json::from_str(&document.to_string()).unwrap();
        let all = [
            (fields.text("replaces"), fields.list("skips").len()),
            (&resolved.replaces, resolved.skips.len()),
        ];
        assert_eq!(all, [(replaces, skips); 2], "{document}");
    }
}
