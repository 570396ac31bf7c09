//! Each rule with a catalog that breaks it.

use serde_json::json;

use super::{
    assert_same_lines, bundle, channel, channel_of, entries, message, outline, package,
    sample::with_properties, valid,
};

/// A catalog of one package and one channel with one bundle, with some documents replaced or added.
fn with(change: impl Fn(&mut [String; 3]) -> String) -> String {
    let mut documents = [
        package("p", "ch"),
        channel("p", "ch", &[r#"{"name":"p.v1.0.0"}"#]),
        bundle("p", "p.v1.0.0", "1.0.0", "quay.io/p:1"),
    ];
    let added = change(&mut documents);
    documents.concat() + &added
}

/// Changes nothing but adds documents.
fn and(added: &str) -> String {
    with(|_| added.to_owned())
}

fn with_entries(entries: &[&str]) -> String {
    with(|documents| {
        documents[1] = channel("p", "ch", entries);
        String::new()
    })
}

fn with_bundle(bundle: &str) -> String {
    with(|documents| {
        documents[2] = bundle.to_owned();
        String::new()
    })
}

#[test]
fn documents_that_do_not_fit_together_are_reported_in_opms_words() {
    let long = "a".repeat(64);
    let invalid_name = |name: &str, problem: &str| format!("invalid package name {name:?}: [{problem}]");
    let pattern = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
                   start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for \
                   validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
    let cases: Vec<(String, String)> = vec![
        // Packages.
        (package("", ""), "config contains package with no name".into()),
        (and(&package("p", "ch")), "duplicate package \"p\"".into()),
        (package("Bad_Name", ""), invalid_name("Bad_Name", pattern)),
        (package("a.b", ""), invalid_name("a.b", "must not contain dots")),
        (package(&long, ""), invalid_name(&long, "must be no more than 63 characters")),
        // Channels.
        (channel("zzz", "x", &[]), "unknown package \"zzz\" for channel \"x\"".into()),
        (and(&channel("p", "", &[])), "package \"p\" contains channel with no name".into()),
        (and(&channel("p", "ch", &[])), "package \"p\" has duplicate channel \"ch\"".into()),
        (
            with_entries(&[r#"{"name":"p.v1.0.0"}"#, r#"{"name":"p.v1.0.0"}"#]),
            "invalid package \"p\", channel \"ch\": duplicate entry \"p.v1.0.0\"".into(),
        ),
        // Bundles.
        (bundle("", "q", "1.0.0", ""), "package name must be set for bundle \"q\"".into()),
        (bundle("zz", "q", "1.0.0", ""), "unknown package \"zz\" for bundle \"q\"".into()),
        (
            and(&bundle("p", "p.v1.0.0", "1.0.0", "quay.io/p:1")),
            "package \"p\" has duplicate bundle \"p.v1.0.0\"".into(),
        ),
        (
            and(&bundle("p", "p.v2.0.0", "2.0.0", "quay.io/p:2")),
            "package \"p\", bundle \"p.v2.0.0\" not found in any channel entries".into(),
        ),
        (
            and(&bundle("p", "", "2.0.0", "quay.io/p:2")),
            "package \"p\", bundle \"\" not found in any channel entries".into(),
        ),
        (
            with_bundle(&bundle("p", "p.v1.0.0", "1.0.0", "docker://quay.io/p")),
            "package \"p\" bundle \"p.v1.0.0\" image: invalid image pull spec \"docker://quay.io/p\": invalid \
             reference format"
                .into(),
        ),
        (
            with_bundle(
                &bundle("p", "p.v1.0.0", "1.0.0", "quay.io/p:1")
                    .replace("\"image\"", "\"relatedImages\":[{\"image\":\"\"},{\"image\":\"x://\"}],\"image\""),
            ),
            "package \"p\" bundle \"p.v1.0.0\" relatedImages[1].image: invalid image pull spec \"x://\": invalid \
             reference format"
                .into(),
        ),
        (
            with_entries(&[r#"{"name":"p.v2.0.0","replaces":"p.v1.0.0"}"#, r#"{"name":"p.v1.0.0"}"#]),
            "no olm.bundle blobs found in package \"p\" for olm.channel entries [p.v2.0.0]".into(),
        ),
        (
            and(&channel("p", "last", &[r#"{"name":"p.v1.0.0"}"#, r#"{"replaces":"p.v1.0.0"}"#])),
            "no olm.bundle blobs found in package \"p\" for olm.channel entries []".into(),
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(message(&text), expected, "{text}");
    }
}

#[test]
fn properties_versions_and_releases_are_reported_in_opms_words() {
    let identity = |value: serde_json::Value| json!([{"type": "olm.package", "value": value}]);
    let versions = |version: &str| identity(json!({"packageName": "p", "version": version}));
    let released =
        |release: &str| identity(json!({"packageName": "p", "version": "1.0.0", "release": release}));
    let version =
        |text: &str, problem: &str| format!("error parsing bundle \"p.v1.0.0\" version {text:?}: {problem}");
    let cases = [
        (json!([]), "package \"p\" bundle \"p.v1.0.0\" must have exactly 1 \"olm.package\" property, found 0".into()),
        (
            json!([
                {"type": "olm.package", "value": {"packageName": "p", "version": "1.0.0"}},
                {"type": "olm.package", "value": {"packageName": "p", "version": "1.0.0"}},
            ]),
            "package \"p\" bundle \"p.v1.0.0\" must have exactly 1 \"olm.package\" property, found 2".into(),
        ),
        (
            identity(json!({"packageName": "q", "version": "1.0.0"})),
            "package \"p\" does not match \"olm.package\" property \"q\"".into(),
        ),
        (
            identity(json!({"version": "1.0.0"})),
            "package \"p\" does not match \"olm.package\" property \"\"".into(),
        ),
        (versions("1.0"), version("1.0", "No Major.Minor.Patch elements found")),
        (versions("v1.0.0"), version("v1.0.0", "Invalid character(s) found in major number \"v1\"")),
        (versions("01.0.0"), version("01.0.0", "Major number must not contain leading zeroes \"01\"")),
        (versions(""), version("", "Version string empty")),
        (
            released("01"),
            "error parsing bundle \"p.v1.0.0\" release version \"01\": invalid release \"01\": segment 0: Numeric \
             PreRelease version must not contain leading zeroes \"01\""
                .into(),
        ),
        (
            released("aaaaaaaaaaaaaaaaaaaaa"),
            "error parsing bundle \"p.v1.0.0\" release version \"aaaaaaaaaaaaaaaaaaaaa\": invalid release \
             \"aaaaaaaaaaaaaaaaaaaaa\": exceeds maximum length of 20 characters"
                .into(),
        ),
    ];
    assert_properties(&cases);
}

fn assert_properties(cases: &[(serde_json::Value, String)]) {
    for (properties, expected) in cases {
        let text = with_bundle(&with_properties("p", "p.v1.0.0", "quay.io/p:1", properties));
        assert_eq!(message(&text), *expected, "{properties}");
    }
}

#[test]
fn properties_of_another_form_are_reported_in_opms_words() {
    let parsing = |kind: &str, problem: &str| {
        format!("parse properties for bundle \"p.v1.0.0\": parse property[0] of type {kind:?}: {problem}")
    };
    let field = |kind: &str, value: serde_json::Value, found: &str, field: &str, wanted: &str| {
        let problem = format!("json: cannot unmarshal {found} into Go struct field {field} of type {wanted}");
        (json!([{"type": kind, "value": value}]), parsing(kind, &problem))
    };
    let cases = [
        field(
            "olm.package",
            json!({"packageName": "p", "version": 1}),
            "number",
            "Package.version",
            "string",
        ),
        (
            json!([{"type": "olm.package", "value": [1]}]),
            parsing("olm.package", "json: cannot unmarshal array into Go value of type property.Package"),
        ),
        (json!([{"type": "foo"}]), parsing("foo", "unexpected end of JSON input")),
        field(
            "olm.gvk",
            json!({"group": "g", "version": {}, "kind": "K"}),
            "object",
            "GVK.version",
            "string",
        ),
        field("olm.gvk.required", json!({"group": true}), "bool", "GVKRequired.group", "string"),
        field(
            "olm.package.required",
            json!({"versionRange": 1}),
            "number",
            "PackageRequired.versionRange",
            "string",
        ),
        field(
            "olm.csv.metadata",
            json!({"installModes": [{"supported": "yes"}]}),
            "string",
            "CSVMetadata.installModes.supported",
            "bool",
        ),
    ];
    assert_properties(&cases);
}

fn of_bundle(name: &str, problems: &str) -> String {
    of_package(&format!("invalid channel \"ch\":\ninvalid bundle {name:?}:\n{problems}"))
}

fn of_package(problems: &str) -> String {
    format!("invalid index:\ninvalid package \"p\":\n{problems}")
}

fn assert_trees(cases: &[(String, String)]) {
    for (text, expected) in cases {
        assert_same_lines(&message(text), expected, text);
    }
}

#[test]
fn bundles_that_are_not_right_are_reported_as_trees() {
    let released = |name: &str, version: &str| {
        with_properties(
            "p",
            name,
            "quay.io/p:1",
            &json!([{"type": "olm.package", "value": {"packageName": "p", "version": version, "release": "2"}}]),
        )
    };
    let one = |name: &str| channel("p", "ch", &[&format!("{{\"name\":{name:?}}}")]);
    let cases = [
        (
            with_bundle(&bundle("p", "p.v1.0.0", "1.0.0", "")),
            of_bundle("p.v1.0.0", "bundle image must be set"),
        ),
        (
            with_entries(&[r#"{"name":"p.v1.0.0","skips":["x",""]}"#]),
            of_bundle("p.v1.0.0", "skip[1] is empty"),
        ),
        (
            with_entries(&[r#"{"name":"p.v1.0.0","skipRange":"~1.0"}"#]),
            of_bundle(
                "p.v1.0.0",
                "invalid skipRange \"~1.0\": Could not parse Range \"~1.0\": Could not parse comparator \"~\" in \"~1.0\"",
            ),
        ),
        (
            package("p", "ch") + &one("p.v1.0.0") + &released("p.v1.0.0", "1.0.0"),
            of_bundle("p.v1.0.0", "name \"p.v1.0.0\" does not match normalized name \"p-v1.0.0-2\""),
        ),
        (
            package("p", "ch") + &one("p-v1.0.0+x-2") + &released("p-v1.0.0+x-2", "1.0.0+x"),
            of_bundle("p-v1.0.0+x-2", "cannot use build metadata in version with a release version"),
        ),
        (package("p", "ch") + &one("p-v1.0.0-2") + &released("p-v1.0.0-2", "1.0.0"), String::new()),
        // An entry without bundle in a channel that is not the last of its package.
        (
            [
                package("p", "ch"),
                channel(
                    "p",
                    "ch",
                    &[r#"{"name":"p.v2.0.0","replaces":"p.v1.0.0"}"#, r#"{"name":"p.v1.0.0"}"#],
                ),
                channel("p", "last", &[r#"{"name":"p.v1.0.0"}"#]),
                bundle("p", "p.v1.0.0", "1.0.0", "i"),
            ]
            .concat(),
            of_bundle(
                "p.v2.0.0",
                "must be exactly one property with type \"olm.package\"\nbundle image must be set",
            ),
        ),
    ];
    assert_trees(&cases);
}

#[test]
fn packages_and_channels_that_are_not_right_are_reported_as_trees() {
    let deprecated = |reference: &str| {
        format!(r#"{{"schema":"olm.deprecations","package":"p","entries":[{{"reference":{reference}}}]}}"#)
    };
    let no_message = "invalid deprecation: message must be set";
    let cases = [
        (
            package("p", ""),
            of_package("default channel must be set\npackage must contain at least one channel"),
        ),
        (
            package("p", "nope"),
            of_package("invalid channel \"nope\":\nchannel must contain at least one bundle"),
        ),
        (
            with(|_| channel_of("p", "empty", &json!(null))),
            of_package("invalid channel \"empty\":\nchannel must contain at least one bundle"),
        ),
        (
            [
                package("p", "ch"),
                channel("p", "ch", &[r#"{"name":"a","replaces":"b"}"#, r#"{"name":"b"}"#]),
                bundle("p", "a", "1.0.0", "i"),
                bundle("p", "b", "1.0.0", "i"),
            ]
            .concat(),
            of_package("duplicate versions found in bundles: [{1.0.0: [a, b]}]"),
        ),
        (and(&deprecated(r#"{"schema":"olm.package"}"#)), of_package(no_message)),
        (
            and(&deprecated(r#"{"schema":"olm.channel","name":"ch"}"#)),
            of_package(&format!("invalid channel \"ch\":\n{no_message}")),
        ),
        (and(&deprecated(r#"{"schema":"olm.bundle","name":"p.v1.0.0"}"#)), of_bundle("p.v1.0.0", no_message)),
    ];
    assert_trees(&cases);
}

#[test]
fn versions_that_differ_in_build_metadata_or_release_are_different() {
    let identity = |name: &str, value: serde_json::Value| {
        with_properties("p", name, "i", &json!([{"type": "olm.package", "value": value}]))
    };
    let list = entries(&[
        r#"{"name":"p-v1.0.0-1","replaces":"b"}"#,
        r#"{"name":"b","replaces":"c"}"#,
        r#"{"name":"c"}"#,
    ]);
    let text = [
        package("p", "ch"),
        channel_of("p", "ch", &json!(list)),
        identity("p-v1.0.0-1", json!({"packageName": "p", "version": "1.0.0", "release": "1"})),
        identity("b", json!({"packageName": "p", "version": "1.0.0"})),
        identity("c", json!({"packageName": "p", "version": "1.0.0+1"})),
    ]
    .concat();
    assert_eq!(message(&text), "");
}

#[test]
fn deprecations_are_checked_against_the_package() {
    let blob = |package: &str, entries: &str| {
        format!(r#"{{"schema":"olm.deprecations","package":{package:?},"entries":[{entries}]}}"#)
    };
    let entry = |reference: &str| format!(r#"{{"reference":{reference},"message":"m"}}"#);
    let of = |reference: &str| and(&blob("p", &entry(reference)));
    let twice = entry(r#"{"schema":"olm.package"}"#);
    let cases = [
        (and(&blob("", "")), "package name must be set for deprecation item 0"),
        (and(&blob("zz", "")), "cannot apply deprecations to an unknown package \"zz\""),
        (and(&(blob("p", "") + &blob("p", ""))), "expected a maximum of one deprecation per package: \"p\""),
        (of("{}"), "schema must be set for deprecation entry [0] for package \"p\""),
        (
            and(&blob("p", &format!("{twice},{twice}"))),
            "duplicate deprecation entry declcfg.PackageScopedReference{Schema:\"olm.package\", Name:\"\"} for \
             package \"p\"",
        ),
        (
            of(r#"{"schema":"olm.bundle","name":"zz"}"#),
            "cannot deprecate bundle \"zz\" for package \"p\": bundle not found",
        ),
        (
            of(r#"{"schema":"olm.bundle"}"#),
            "cannot deprecate bundle \"\" for package \"p\": bundle not found",
        ),
        (
            of(r#"{"schema":"olm.channel","name":"zz"}"#),
            "cannot deprecate channel \"zz\" for package \"p\": channel not found",
        ),
        (
            of(r#"{"schema":"olm.channel"}"#),
            "cannot deprecate channel \"\" for package \"p\": channel not found",
        ),
        (
            of(r#"{"schema":"olm.package","name":"p"}"#),
            "package name must be empty for deprecated package \"p\" (specified \"p\")",
        ),
        (
            of(r#"{"schema":"x","name":"y"}"#),
            "cannot deprecate object declcfg.PackageScopedReference{Schema:\"x\", Name:\"y\"} referenced by entry 0 \
             for package \"p\": object schema unknown",
        ),
        (and(&blob("p", "")), ""),
    ];
    for (text, expected) in cases {
        assert_eq!(message(&text), expected, "{text}");
    }
}

#[test]
fn what_the_original_does_not_check_passes() {
    let properties = json!([
        {"type": "olm.package", "value": {"packageName": "p", "version": "1.0.0"}},
        {"type": "olm.gvk", "value": {"group": "", "version": "", "kind": ""}},
        {"type": "olm.gvk", "value": {"group": "g.io", "version": "v1", "kind": "K"}},
        {"type": "olm.package.required", "value": {"packageName": "", "versionRange": "nonsense"}},
        {"type": "olm.constraint", "value": 7},
        {"type": "olm.maxOpenShiftVersion", "value": "4.18"},
        {"type": "color", "value": "red"},
        {"type": "shape", "value": ["square", {"side": 1.5}, null]},
        {"type": "nothing", "value": null},
        {"value": false},
    ]);
    let odd = json!({"schema": "olm.bundle", "package": "p", "name": "any name: no version", "image": "short:1",
        "properties": properties, "relatedImages": [{"image": ""}, {"name": "x", "image": "quay.io/x"}],
        "unknownField": {"a": 1}});
    let text = [
        json!({"schema": "olm.package", "name": "p", "defaultChannel": "any channel/name!",
            "icon": {"base64data": "bm8gaW1hZ2U=", "mediatype": "text/plain"}, "description": "any *text*"})
        .to_string(),
        json!({"schema": "olm.channel", "package": "p", "name": "any channel/name!", "entries": [
            {"name": "any name: no version", "replaces": "p.v9.9.9", "skips": ["gone"],
             "skipRange": "1.0.0 || || 2.0.0"}]})
        .to_string(),
        odd.to_string(),
        r#"{"schema":"olm.deprecations","package":"p","entries":[{"reference":{"schema":"olm.channel","name":"any channel/name!"},"message":"<b>{{.}}</b>\n"}]}"#.into(),
        r#"{"schema":"io.example.lifecycle.v1","package":"elsewhere","properties":7}"#.into(),
    ]
    .concat();
    assert_eq!(message(&text), "");
}

#[test]
fn a_bundle_that_carries_its_manifests_needs_no_image() {
    for data in ["{}", r#"{"data":"a2luZDogTmFtZXNwYWNl"}"#, r#"{"ref":"objects/csv.yaml"}"#] {
        let properties = format!(
            r#"[{{"type":"olm.package","value":{{"packageName":"p","version":"1.0.0"}}}},{{"type":"olm.bundle.object","value":{data}}}]"#
        );
        let properties = serde_json::from_str(&properties).expect("JSON");
        assert_eq!(message(&with_bundle(&with_properties("p", "p.v1.0.0", "", &properties))), "", "{data}");
    }
    let csv = r#"{"kind":"ClusterServiceVersion","spec":{"displayName":"The P"}}"#;
    let encoded = "eyJraW5kIjoiQ2x1c3RlclNlcnZpY2VWZXJzaW9uIiwic3BlYyI6eyJkaXNwbGF5TmFtZSI6IlRoZSBQIn19";
    assert_eq!(olm_go::base64::decode(encoded.as_bytes()).as_deref(), Ok(csv.as_bytes()));
    let properties = json!([{"type": "olm.bundle.object", "value": {"data": encoded}}]);
    let outline = outline(&with_properties("p", "p.v1.0.0", "", &properties)).expect("taken");
    assert_eq!(outline.bundles[0].display_name, "The P");
    assert_eq!(valid().matches("olm.bundle").count(), 2);
}
