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

fn assert_refused(cases: &[(&str, serde_json::Value, &str)]) {
    for (schema, value, expected) in cases {
        assert_eq!(check(value, &structure(schema)).unwrap_err().go, *expected, "{value}");
    }
}

#[test]
fn fields_of_another_type_are_named_as_the_original_names_them() {
    let cases: [(&str, serde_json::Value, &str); 6] = [
        (
            PACKAGE,
            json!({"defaultChannel": 1.1}),
            "json: cannot unmarshal number into Go struct field Package.defaultChannel of type string",
        ),
        (
            PACKAGE,
            json!({"description": ["x"]}),
            "json: cannot unmarshal array into Go struct field Package.description of type string",
        ),
        (
            PACKAGE,
            json!({"DEFAULTchannel": true}),
            "json: cannot unmarshal bool into Go struct field Package.defaultChannel of type string",
        ),
        (PACKAGE, json!({"icon": {"base64data": "!"}}), "illegal base64 data at input byte 0"),
        (
            PACKAGE,
            json!({"icon": "x"}),
            "json: cannot unmarshal string into Go struct field Package.icon of type declcfg.Icon",
        ),
        (
            PACKAGE,
            json!({"icon": {"mediatype": {}}}),
            "json: cannot unmarshal object into Go struct field Package.icon.mediatype of type string",
        ),
    ];
    assert_refused(&cases);
}

#[test]
fn fields_of_entries_properties_and_images_are_named_with_their_place() {
    let cases: [(&str, serde_json::Value, &str); 8] = [
        (
            CHANNEL,
            json!({"entries": {}}),
            "json: cannot unmarshal object into Go struct field Channel.entries of type []declcfg.ChannelEntry",
        ),
        (
            CHANNEL,
            json!({"entries": [{"name": 1}]}),
            "json: cannot unmarshal number into Go struct field Channel.entries.name of type string",
        ),
        (
            CHANNEL,
            json!({"entries": [{"skips": "a"}]}),
            "json: cannot unmarshal string into Go struct field Channel.entries.skips of type []string",
        ),
        (
            CHANNEL,
            json!({"entries": [{"skips": [1]}]}),
            "json: cannot unmarshal number into Go struct field Channel.entries.skips of type string",
        ),
        (
            BUNDLE,
            json!({"properties": {}}),
            "json: cannot unmarshal object into Go struct field Bundle.properties of type []property.Property",
        ),
        (
            BUNDLE,
            json!({"relatedImages": [{"image": 1}]}),
            "json: cannot unmarshal number into Go struct field Bundle.relatedImages.image of type string",
        ),
        (
            DEPRECATION,
            json!({"entries": [{"message": false}]}),
            "json: cannot unmarshal bool into Go struct field Deprecation.entries.message of type string",
        ),
        (
            "olm.csv.metadata",
            json!({"apiServiceDefinitions": {"owned": [{"containerPort": 1.5}]}}),
            "json: cannot unmarshal number into Go struct field CSVMetadata.apiServiceDefinitions.owned.containerPort of type int32",
        ),
    ];
    assert_refused(&cases);
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
