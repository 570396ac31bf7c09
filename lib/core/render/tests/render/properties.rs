//! The annotation `olm.properties`.

use serde_json::json;

use crate::builder::{Bundle, bundle, find};

fn shipped(bundle: Bundle, text: &str) -> Bundle {
    bundle.set("/metadata/annotations", json!({"olm.properties": text}))
}

#[test]
fn properties_of_csv_and_file_are_merged() {
    for (annotation, file, wanted) in [
        (None, None, None),
        (
            Some(r#"[{"type":"a", "value": {"z":1.50, "a":2}}]"#),
            None,
            Some(r#"[{"type":"a", "value": {"z":1.50, "a":2}}]"#),
        ),
        (
            Some(r#"[ {"value": {"z" : 1.50, "a":"x \" y"}, "type":"a<", "other": 1} ]"#),
            Some("properties:\n- type: b\n  value: {z: 4.20, a: '<'}\n- value: 1\n"),
            Some(
                r#"[{"type":"a\u003c","value":{"z":1.50,"a":"x \" y"}},{"type":"b","value":{"a":"\u003c","z":4.2}},{"type":"","value":1}]"#,
            ),
        ),
        (
            None,
            Some("properties:\n- type: olm.kubeversion\n  value:\n    version: \"1.16.0\"\n"),
            Some(r#"[{"type":"olm.kubeversion","value":{"version":"1.16.0"}}]"#),
        ),
        (None, Some(""), None),
        (None, Some("properties: []\n"), Some("null")),
        (None, Some("# nothing\n"), Some("null")),
        (
            None,
            Some("properties: [{type: x, value: 12345678901234567890}]\n"),
            Some(r#"[{"type":"x","value":12345678901234567890}]"#),
        ),
        (Some("[]"), Some("properties: []\n"), Some("null")),
        (Some(r#"[ {"type" : "a"} ]"#), Some("properties: []\n"), Some(r#"[{"type":"a","value":null}]"#)),
        (
            Some(r#"[{"TYPE":"a","type":"b","Value":1,"value":2}, null]"#),
            Some("Properties:\n- Type: 5\n  Value: 1.0e-7\n-\n"),
            Some(
                r#"[{"type":"b","value":2},{"type":"","value":null},{"type":"5","value":1e-7},{"type":"","value":null}]"#,
            ),
        ),
        (Some("null"), Some("properties: [{type: a}]\n"), Some(r#"[{"type":"a","value":null}]"#)),
    ] {
        let mut sample = bundle();
        if let Some(text) = annotation {
            sample = shipped(sample, text);
        }
        if let Some(text) = file {
            sample = sample.file("metadata/properties.yaml", text);
        }
        let rendered = sample.render().unwrap();
        assert_eq!(rendered.olm_properties.as_deref(), wanted, "{annotation:?} {file:?}");
        let template =
            &find(&rendered, "Deployment", "manager")["spec"]["template"]["metadata"]["annotations"];
        assert_eq!(template["olm.properties"].as_str(), wanted);
    }
}

#[test]
fn malformed_properties_are_refused() {
    for text in ["", "{}", "[1]", "[{\"type\": 1}]", "[\"hunter2\"]"] {
        let refusal = shipped(bundle(), text).refusal();
        assert!(
            refusal.starts_with("failed to unmarshal csv.metadata.annotations['olm.properties']: "),
            "{refusal}"
        );
    }
    for text in ["- a\n", "properties: {}\n", "properties: [", "properties: [1]\n"] {
        let refusal = bundle().file("metadata/properties.yaml", text).refusal();
        assert!(refusal.starts_with("failed to unmarshal metadata/properties.yaml: "), "{refusal}");
    }
}

fn declared(bundle: &Bundle) -> Vec<String> {
    let text = |one: &serde_json::Value| format!("{} {}", one["type"].as_str().unwrap(), one["value"]);
    bundle.render().unwrap().declared.unwrap().iter().map(text).collect()
}

#[test]
fn what_a_bundle_needs_is_read_from_all_its_places() {
    let own = r#"olm.gvk {"group":"x.io","kind":"Sample","version":"v1"}"#;
    assert_eq!(declared(&bundle()), [own]);
    let properties =
        r#"[{"type":"olm.kubeversion","value":{"version":"1.20.0"}},{"type":"color","value":"red"}]"#;
    let first =
        r#"{"properties":[{"type":"olm.gvk.required","value":{"group":"c.io","version":"v1","kind":"C"}}]}"#;
    let dependencies = "dependencies:\n- type: olm.package\n  value: {packageName: db, version: '>=1.0.0'}\n\
        - type: olm.gvk\n  value: {group: d.io, version: v1, kind: D}\n\
        - type: olm.constraint\n  value: {cel: {rule: 'true'}}\n";
    let sample = bundle()
        .set(
            "/metadata/annotations",
            json!({"olm.properties": properties, "operatorframework.io/properties": first}),
        )
        .set(
            "/spec/customresourcedefinitions/required",
            json!([{"name": "as.a.io", "version": "v1", "kind": "A"}]),
        )
        .set(
            "/spec/apiservicedefinitions",
            json!({"required": [{"group": "b.io", "version": "v2", "kind": "B"}]}),
        )
        .file("metadata/dependencies.yaml", dependencies);
    assert_eq!(
        declared(&sample),
        [
            own,
            r#"olm.gvk.required {"group":"a.io","kind":"A","version":"v1"}"#,
            r#"olm.gvk.required {"group":"b.io","kind":"B","version":"v2"}"#,
            r#"olm.package.required {"packageName":"db","versionRange":">=1.0.0"}"#,
            r#"olm.gvk.required {"group":"d.io","kind":"D","version":"v1"}"#,
            r#"olm.constraint {"cel":{"rule":"true"}}"#,
            r#"olm.kubeversion {"version":"1.20.0"}"#,
            r#"olm.gvk.required {"group":"c.io","kind":"C","version":"v1"}"#,
        ]
    );
    for wrong in ["- a", "dependencies: 1", "dependencies: [1]", "dependencies: [{value: 1}]", "{"] {
        let rendered = bundle().file("metadata/dependencies.yaml", wrong).render().unwrap();
        let error = rendered.declared.unwrap_err();
        assert!(error.starts_with("metadata/dependencies.yaml: "), "{error}");
    }
}

#[test]
fn the_platform_limit_is_read_from_three_places() {
    let limit = |value: &str| format!(r#"{{"type":"olm.maxOpenShiftVersion","value":{value}}}"#);
    let other = r#"{"type":"a","value":1}"#;
    for (current, first, file, wanted) in [
        (Some(format!("[{}]", limit("\"4.18\""))), None, None, Some(format!("[{}]", limit("\"4.18\"")))),
        (Some(format!("[{}]", limit("4.20"))), None, None, Some(format!("[{}]", limit("4.20")))),
        (None, Some(limit("\"4.18\"")), None, Some(format!("[{}]", limit("\"4.18\"")))),
        (None, Some(limit("4.20")), None, Some(format!("[{}]", limit("4.20")))),
        (
            Some(format!("[{other}]")),
            Some(limit("\"4.18\"")),
            None,
            Some(format!("[{other},{}]", limit("\"4.18\""))),
        ),
        (Some("[ ]".to_owned()), Some(limit("\"4.18\"")), None, Some(format!("[{}]", limit("\"4.18\"")))),
        (Some("null".to_owned()), Some(limit("\"4.18\"")), None, Some(format!("[{}]", limit("\"4.18\"")))),
        // The annotation of this generation counts where both have it.
        (
            Some(format!("[{}]", limit("\"4.19\""))),
            Some(limit("\"4.18\"")),
            None,
            Some(format!("[{}]", limit("\"4.19\""))),
        ),
        (
            None,
            None,
            Some("properties:\n- type: olm.maxOpenShiftVersion\n  value: '4.18'\n"),
            Some(format!("[{}]", limit("\"4.18\""))),
        ),
        (None, None, None, None),
    ] {
        let mut annotations = serde_json::Map::new();
        annotations.extend(current.map(|text| ("olm.properties".to_owned(), json!(text))));
        annotations.extend(first.map(|entry| {
            (
                "operatorframework.io/properties".to_owned(),
                json!(format!(r#"{{"properties":[{other},{entry}]}}"#)),
            )
        }));
        let mut sample = bundle().set("/metadata/annotations", annotations.into());
        if let Some(text) = file {
            sample = sample.file("metadata/properties.yaml", text);
        }
        assert_eq!(sample.render().unwrap().olm_properties, wanted);
    }
}
