//! What people write by hand and Kubernetes' parser takes, although YAML 1.2 is stricter.

use olm_yaml::one;
use serde_json::{Value, json};

#[test]
fn odd_but_accepted_texts_are_read() {
    let mut different = Vec::new();
    for (text, wanted) in [
        ("a: [\n  b,\n  c\n]\n", json!({"a": ["b", "c"]})),
        ("a:\n  b: [\n    c\n  ]\n  d: 1\n", json!({"a": {"b": ["c"], "d": 1}})),
        ("a: {\n  b: 1,\n}\nc: 2\n", json!({"a": {"b": 1}, "c": 2})),
        ("a: [b,\nc]\n", json!({"a": ["b", "c"]})),
        ("- [a,\n b]\n- c\n", json!([["a", "b"], "c"])),
        ("a: {b: [c, {d: e}], 'f': \"g\"} # h\n", json!({"a": {"b": ["c", {"d": "e"}], "f": "g"}})),
        ("a: 1\t\n", json!({"a": 1})),
        ("a:\t1\n", json!({"a": 1})),
        ("a: x\t# c\nb: 2\n", json!({"a": "x", "b": 2})),
        ("a: 'x'\t\nb: 2\n", json!({"a": "x", "b": 2})),
        ("a: |\n  x\n # c\nb: 1\n", json!({"a": "x\n", "b": 1})),
        ("a: |\n  x\n# c\nb: 1\n", json!({"a": "x\n", "b": 1})),
        ("a: |  \n  x\n", json!({"a": "x\n"})),
        ("a: |- # c\n  x\n", json!({"a": "x"})),
        ("a: >\n\n  x\n  y\n", json!({"a": "\nx y\n"})),
        ("a: \"x\n\ty\"\n", json!({"a": "x y"})),
        ("a: \"x \t\n \t\n\ty\tz\"\nb: 'x\n\ty'\n", json!({"a": "x\ny\tz", "b": "x y"})),
        ("a: |2\n    x\n", json!({"a": "  x\n"})),
        ("a: |2+\n  x\n\n", json!({"a": "x\n\n"})),
        ("a:\n- b\n-\n  c: d\n- - e\n  - f\n", json!({"a": ["b", {"c": "d"}, ["e", "f"]]})),
        ("\"a\" : 1\n'b' : 2\nc : 3\n", json!({"a": 1, "b": 2, "c": 3})),
        ("a b: 1\nc-d e: 2\n", json!({"a b": 1, "c-d e": 2})),
        ("f:metadata: 1\n", json!({"f:metadata": 1})),
        ("a: b#c\n", json!({"a": "b#c"})),
        ("a: http://x:1/y\n", json!({"a": "http://x:1/y"})),
        ("a: \"x\\\n  y\"\n", json!({"a": "xy"})),
        ("a: x\r\nb: z\r\n", json!({"a": "x", "b": "z"})),
        ("a: |\r\n  x\r\n  y\r\n", json!({"a": "x\ny\n"})),
        ("---\r\na: 1\r\n", json!({"a": 1})),
        ("--- # c\na: 1\n", json!({"a": 1})),
        ("a: 1\n...\n", json!({"a": 1})),
        ("# c\n\n---\n# d\na: 1\n", json!({"a": 1})),
        ("a: 'b\n\n\n  c'\n", json!({"a": "b\n\nc"})),
        ("a: 'b\nc'\nd: 1\n", json!({"a": "b c", "d": 1})),
        ("a: b\n\n  c\n", json!({"a": "b\nc"})),
        ("? a\n: b\n", json!({"a": "b"})),
        ("a: !!str 5\n", json!({"a": "5"})),
        ("a: &x {b: 1}\nc: *x\n", json!({"a": {"b": 1}, "c": {"b": 1}})),
        ("a:\n  - b\n  # c\n\n  - d\n # e\nf: 1\n", json!({"a": ["b", "d"], "f": 1})),
        ("a:   \n  b: 1\n", json!({"a": {"b": 1}})),
        ("a: # c\n  b: 1\n", json!({"a": {"b": 1}})),
        ("-\n  a: 1\n-\n  - 2\n", json!([{"a": 1}, [2]])),
        ("-   a: 1\n    b: 2\n", json!([{"a": 1, "b": 2}])),
        ("a: 'x' \n", json!({"a": "x"})),
        ("a: \"\u{1f600} ü\"\n", json!({"a": "\u{1f600} ü"})),
    ] {
        let wanted = if wanted.is_null() { json!({"a": null}) } else { wanted };
        match one(text) {
            Ok(found) if found == wanted => {}
            found => different.push(format!("{text:?}: wanted {wanted}, got {found:?}")),
        }
    }
    assert!(different.is_empty(), "{} differences:\n{}", different.len(), different.join("\n"));
    assert_eq!(one("").unwrap(), Value::Null);
}
