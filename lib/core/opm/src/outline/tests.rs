use olm_fbc::{MetaReader, limits::DOCUMENT_NODES_MAX};

use super::Outline;

fn refused(text: &str) -> String {
    let mut outline = Outline::new(|_| Ok(()));
    let mut reader = MetaReader::new(text.as_bytes());
    while let Some(meta) = reader.next_meta().expect("objects") {
        if let Err(error) = outline.push(&meta) {
            return error.to_string();
        }
    }
    String::new()
}

#[test]
fn documents_that_are_not_what_their_schema_says_are_refused_in_opms_words() {
    let long = format!("{{\"a\":\"{}\"}}", "x".repeat(5_000));
    for (text, expected) in [
        ("{}", "object '{}\n' is missing root schema field".to_owned()),
        ("b: 1\na: [x]\n", "object '{\"a\":[\"x\"],\"b\":1}\n' is missing root schema field".to_owned()),
        ("schema: ''\n", "object '{\"schema\":\"\"}\n' is missing root schema field".to_owned()),
        (&long, format!("object '{}...' is missing root schema field", &long[..200])),
        (
            "schema: olm.package\ndefaultChannel: 1.10\n",
            "parse package: json: cannot unmarshal number into Go struct field Package.defaultChannel of type string"
                .to_owned(),
        ),
        (
            "schema: olm.package\nicon: {base64data: '*'}\n",
            "parse package: illegal base64 data at input byte 0".to_owned(),
        ),
        (
            "schema: olm.channel\nentries: x\n",
            "parse channel: json: cannot unmarshal string into Go struct field Channel.entries of type \
             []declcfg.ChannelEntry"
                .to_owned(),
        ),
        (
            "schema: olm.deprecations\nentries:\n- message: n\n",
            "parse deprecation: json: cannot unmarshal bool into Go struct field Deprecation.entries.message of type \
             string"
                .to_owned(),
        ),
        (
            "schema: olm.bundle\nimage: {}\n",
            "parse bundle: json: cannot unmarshal object into Go struct field Bundle.image of type string".to_owned(),
        ),
        (
            "schema: olm.bundle\npackage: p\nname: b\nproperties: [{type: x}, {type: olm.bundle.object}]\n",
            "read bundle objects: package \"p\", bundle \"b\": parse property at index 1 as bundle object: unexpected \
             end of JSON input"
                .to_owned(),
        ),
        (
            "schema: olm.bundle\npackage: p\nname: b\nproperties: [{type: olm.bundle.object, value: {data: YQ}}]\n",
            "read bundle objects: package \"p\", bundle \"b\": parse property at index 0 as bundle object: illegal \
             base64 data at input byte 0"
                .to_owned(),
        ),
        ("schema: anything\nname: x\nentries: 7\n", String::new()),
    ] {
        assert_eq!(refused(text), expected, "{text}");
    }
    // "a: [" is no manifest.
    let text = "schema: olm.bundle\npackage: p\nname: b\nproperties: [{type: olm.bundle.object, value: {data: YTogWw==}}]\n";
    let expected = "read bundle objects: package \"p\", bundle \"b\": convert bundle object property at index 0 to JSON: \
                    error converting YAML to JSON: yaml: line ";
    assert!(refused(text).starts_with(expected), "{}", refused(text));
}

#[test]
fn a_document_of_very_many_values_is_refused() {
    let numbers = |count: usize| format!("{{\"schema\":\"x\",\"a\":[{}0]}}", "0,".repeat(count));
    // Its text is no value of its own, whatever is in it.
    let text = format!("{{\"schema\":\"x\",\"a\":\"\\\"[{}\"}}", "0,".repeat(DOCUMENT_NODES_MAX));
    assert_eq!(refused(&text), "");
    assert_eq!(refused(&numbers(DOCUMENT_NODES_MAX / 2)), "");
    assert_eq!(refused(&numbers(DOCUMENT_NODES_MAX)), "parse object: it has more than 1048576 values");
}
