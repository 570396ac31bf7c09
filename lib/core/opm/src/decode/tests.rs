use serde_json::json;

use super::{BUNDLE, CHANNEL, DEPRECATION, PACKAGE, Shape, check, property};

fn assert_refused(cases: &[(&Shape, serde_json::Value, &str)]) {
    for (shape, value, expected) in cases {
        assert_eq!(check(value, shape), Err((*expected).to_owned()), "{value}");
    }
}

#[test]
fn fields_of_another_type_are_named_as_the_original_names_them() {
    let cases: [(&Shape, serde_json::Value, &str); 6] = [
        // Shows S003-53, S003-56.
        (
            &PACKAGE,
            json!({"defaultChannel": 1.1}),
            "json: cannot unmarshal number into Go struct field Package.defaultChannel of type string",
        ),
        (
            &PACKAGE,
            json!({"description": ["x"]}),
            "json: cannot unmarshal array into Go struct field Package.description of type string",
        ),
        (
            &PACKAGE,
            json!({"DEFAULTchannel": true}),
            "json: cannot unmarshal bool into Go struct field Package.defaultChannel of type string",
        ),
        (&PACKAGE, json!({"icon": {"base64data": "!"}}), "illegal base64 data at input byte 0"),
        (
            &PACKAGE,
            json!({"icon": "x"}),
            "json: cannot unmarshal string into Go struct field Package.icon of type declcfg.Icon",
        ),
        (
            &PACKAGE,
            json!({"icon": {"mediatype": {}}}),
            "json: cannot unmarshal object into Go struct field Package.icon.mediatype of type string",
        ),
    ];
    assert_refused(&cases);
}

#[test]
fn fields_of_entries_properties_and_images_are_named_with_their_place() {
    let cases: [(&Shape, serde_json::Value, &str); 8] = [
        (
            &CHANNEL,
            json!({"entries": {}}),
            "json: cannot unmarshal object into Go struct field Channel.entries of type []declcfg.ChannelEntry",
        ),
        (
            &CHANNEL,
            json!({"entries": [{"name": 1}]}),
            "json: cannot unmarshal number into Go struct field Channel.entries.name of type string",
        ),
        (
            &CHANNEL,
            json!({"entries": [{"skips": "a"}]}),
            "json: cannot unmarshal string into Go struct field Channel.entries.skips of type []string",
        ),
        (
            &CHANNEL,
            json!({"entries": [{"skips": [1]}]}),
            "json: cannot unmarshal number into Go struct field Channel.entries.skips of type string",
        ),
        // Shows S003-78, S003-80.
        (
            &BUNDLE,
            json!({"properties": {}}),
            "json: cannot unmarshal object into Go struct field Bundle.properties of type []property.Property",
        ),
        (
            &BUNDLE,
            json!({"relatedImages": [{"image": 1}]}),
            "json: cannot unmarshal number into Go struct field Bundle.relatedImages.image of type string",
        ),
        (
            &DEPRECATION,
            json!({"entries": [{"message": false}]}),
            "json: cannot unmarshal bool into Go struct field Deprecation.entries.message of type string",
        ),
        (
            property("olm.csv.metadata"),
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
        assert_eq!(check(&value, &CHANNEL), Ok(()), "{value}");
    }
    assert_eq!(check(&json!({"base64data": [1, 255]}), property("olm.bundle.object")), Ok(()));
    assert!(check(&json!({"data": [1, 256]}), property("olm.bundle.object")).is_err());
}
