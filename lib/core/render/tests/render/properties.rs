//! The annotation `olm.properties`.

use serde_json::json;

use crate::builder::{Bundle, bundle, find};

fn shipped(bundle: Bundle, text: &str) -> Bundle {
    bundle.set("/metadata/annotations", json!({"olm.properties": text}))
}

// Shows S001-182.
// Shows S001-183.
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
