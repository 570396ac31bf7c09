//! Tests of [`Schema::judge`] as a whole.

mod properties;
mod rules;

use serde_json::{Value, json};

use crate::{Judgement, Schema, SchemaError, Verdict};

fn schema_of(spec: &Value) -> Schema {
    Schema::of(&definition(&json!({"type": "object", "properties": {"spec": spec}})), "v1").unwrap()
}

fn definition(schema: &Value) -> Value {
    json!({
        "metadata": {"name": "foos.example.com"},
        "spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]},
    })
}

/// What is said of an object with this spec.
fn judge(schema: &Value, spec: &Value) -> Judgement {
    schema_of(schema).judge(&json!({
        "apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "a"}, "spec": spec,
    }))
}

/// Each row: a schema, specs that are valid, specs that are not.
fn assert_verdicts(rows: &[(Value, Value, Value)]) {
    for (schema, valid, invalid) in rows {
        for (specs, verdict) in [(valid, Verdict::Valid), (invalid, Verdict::Invalid)] {
            for spec in specs.as_array().unwrap() {
                let judged = judge(schema, spec);
                assert_eq!(judged.verdict(), verdict, "{spec} with {schema}: {judged:?}");
            }
        }
    }
}

#[test]
fn types_and_limits() {
    assert_verdicts(&[
        (json!({"type": "string"}), json!(["a", ""]), json!([1, true, [], {}])),
        (json!({"type": "boolean"}), json!([true]), json!(["true", 0])),
        (json!({"type": "integer"}), json!([1, -1, 1.0]), json!([1.5, "1"])),
        (json!({"type": "number"}), json!([1, 1.5]), json!(["1"])),
        (json!({"type": "array", "items": {"type": "string"}}), json!([[], ["a"]]), json!([{}, [1], [null]])),
        (
            json!({"type": "object", "additionalProperties": {"type": "integer"}}),
            json!([{}, {"a": 1}]),
            json!([[], {"a": "b"}]),
        ),
        (json!({"x-kubernetes-int-or-string": true}), json!([1, "a"]), json!([1.5, true, {}])),
        (json!({"x-kubernetes-preserve-unknown-fields": true}), json!([1, "a", {"a": [1]}]), json!([])),
        (json!({"type": "string", "minLength": 1, "maxLength": 2}), json!(["é", "ab"]), json!(["", "abc"])),
        (json!({"type": "string", "pattern": "^a"}), json!(["ab"]), json!(["ba"])),
        (json!({"type": "string", "format": "byte"}), json!(["QUJD", ["a list"]]), json!(["a", 1])),
        (json!({"type": "string", "enum": ["a", "b"]}), json!(["a"]), json!(["c"])),
        (json!({"type": "integer", "enum": [1, 2]}), json!([1, 2.0]), json!([3])),
        (
            json!({"type": "array", "items": {}, "minItems": 1, "maxItems": 2}),
            json!([[1], [1, 2]]),
            json!([[], [1, 2, 3]]),
        ),
        (
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "minProperties": 1, "maxProperties": 1}),
            json!([{"a": 1}]),
            json!([{}, {"a": 1, "b": 2}]),
        ),
        (
            json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}}),
            json!([{"a": ""}]),
            json!([{}, {"a": null}, {"b": 1}]),
        ),
    ]);
}

#[test]
fn combinations_of_schemas() {
    let fields = json!({"a": {"type": "string"}, "b": {"type": "string"}});
    let with = |member: &str, value: Value| json!({"type": "object", "properties": fields, member: value});
    let either = json!([{"required": ["a"]}, {"required": ["b"]}]);
    assert_verdicts(&[
        (with("anyOf", either.clone()), json!([{"a": ""}, {"a": "", "b": ""}]), json!([{}])),
        (with("oneOf", either.clone()), json!([{"a": ""}]), json!([{}, {"a": "", "b": ""}])),
        (with("allOf", either), json!([{"a": "", "b": ""}]), json!([{}, {"a": ""}])),
        (with("not", json!({"required": ["a"]})), json!([{}, {"b": ""}]), json!([{"a": ""}])),
    ]);
    // What is not understood decides only where it matters.
    let unknown = json!({"properties": {"a": {"pattern": "(?=x)"}}});
    let verdict = |schema: &Value, spec: Value| judge(schema, &spec).verdict();
    let any = with("anyOf", json!([unknown, {"required": ["b"]}]));
    assert_eq!(verdict(&any, json!({"a": "x"})), Verdict::Undecided);
    assert_eq!(verdict(&any, json!({"a": "x", "b": ""})), Verdict::Valid);
    assert_eq!(verdict(&with("not", unknown.clone()), json!({"a": "x"})), Verdict::Undecided);
    let one = with("oneOf", json!([unknown, {"required": ["a"]}, {"properties": {"a": {"minLength": 1}}}]));
    assert_eq!(verdict(&one, json!({"a": "x"})), Verdict::Invalid);
}

#[test]
fn nulls_defaults_and_unknown_fields() {
    let schema = json!({"type": "object", "required": ["a", "c"], "properties": {
        "a": {"type": "string", "default": "x", "minLength": 1},
        "b": {"type": "string", "nullable": true},
        "c": {"type": "object", "default": {}, "properties": {"d": {"type": "integer", "default": 7}}},
        "e": {"type": "array", "items": {"type": "string", "default": "y"}},
    }});
    let judged = judge(&schema, &json!({"a": null, "b": null, "z": {"y": 1}, "c": {"q": 1}, "e": [null]}));
    assert_eq!(judged.verdict(), Verdict::Valid, "{judged:?}");
    assert_eq!(judged.dropped, ["spec.c.q", "spec.z"]);
    assert_eq!(judge(&schema, &json!({})).verdict(), Verdict::Valid);
    assert_eq!(judge(&schema, &json!({"a": ""})).verdict(), Verdict::Invalid);
    // Kept where the schema says so, except below fields that it knows.
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true,
        "properties": {"a": {"type": "object", "properties": {"b": {"type": "string"}}}}});
    assert_eq!(judge(&open, &json!({"z": {"y": 1}, "a": {"c": 1}})).dropped, ["spec.a.c"]);
    let anything = json!({"type": "object", "additionalProperties": true});
    assert_eq!(judge(&anything, &json!({"a": {"b": 1}, "c": 1})).dropped, ["spec.a.b"]);
}

#[test]
fn sets_and_maps_have_nothing_twice() {
    let items = json!({"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "l": {"type": "string"}}});
    let map = |keys: Value| json!({"type": "array", "items": items, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys});
    assert_verdicts(&[
        (
            json!({"type": "array", "items": {"type": "integer"}, "x-kubernetes-list-type": "set"}),
            json!([[1, 2], []]),
            json!([[1, 1]]),
        ),
        (map(json!(["k"])), json!([[{"k": "a"}, {"k": "b"}]]), json!([[{"k": "a"}, {"k": "a", "l": "x"}]])),
        (
            map(json!(["k", "l"])),
            json!([[{"k": "a"}, {"k": "a", "l": "x"}]]),
            json!([[{"k": "a", "l": "x"}, {"l": "x", "k": "a"}]]),
        ),
    ]);
}

#[test]
fn embedded_objects_are_objects() {
    let schema = json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true});
    let with = |metadata: Value| json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata});
    assert_verdicts(&[(
        schema.clone(),
        json!([
            {"apiVersion": "v1", "kind": "Pod"},
            with(json!({"name": "a", "labels": {"example.com/a": "b"}, "annotations": {"a": "b c"}})),
        ]),
        json!([
            {}, {"apiVersion": "v1"}, {"apiVersion": "", "kind": "Pod"}, {"apiVersion": "a/b/c", "kind": "Pod"},
            {"apiVersion": "v1", "kind": "a b"}, with(json!(1)), with(json!({"name": "a/b"})),
            with(json!({"labels": {"a": "b c"}})), with(json!({"namespace": "A"})),
        ]),
    )]);
    let owned = judge(&schema, &with(json!({"ownerReferences": []})));
    assert_eq!(owned.verdict(), Verdict::Undecided);
}

#[test]
fn what_is_no_schema_is_refused() {
    let of = |schema: &Value| Schema::of(&definition(schema), "v1").map(drop).unwrap_err();
    assert_eq!(
        of(&json!({"properties": {"a": {"$ref": "b"}}})),
        SchemaError::NotStructural { at: "^.a".to_owned(), member: "$ref" }
    );
    assert_eq!(
        of(&json!({"minLength": "1"})),
        SchemaError::Malformed { at: "^".to_owned(), member: "minLength", expected: "a whole number" }
    );
    let mut deep = json!({});
    for _ in 0..200 {
        deep = json!({"items": deep});
    }
    assert!(matches!(of(&deep), SchemaError::TooDeep { .. }));
    let missing = Schema::of(&definition(&json!({})), "v2").map(drop).unwrap_err();
    assert_eq!(missing.to_string(), "custom resource definition \"foos.example.com\" has no version \"v2\"");
    Schema::of(&json!({"spec": {"versions": [{"name": "v1"}]}}), "v1").unwrap();
}

/// Each is small and would take gigabytes.
#[test]
fn an_object_that_takes_too_much_is_undecided() {
    let names: Vec<String> = (0..2_000).map(|i| format!("v{i}")).collect();
    let defaulted = json!({"type": "array", "items": {"type": "object", "properties": {
        "list": {"type": "array", "items": {"type": "string"}, "default": names},
    }}});
    let elements = |count: usize| json!((0..count).map(|_| json!({})).collect::<Vec<_>>());
    assert_eq!(judge(&defaulted, &elements(10)).verdict(), Verdict::Valid);
    assert_eq!(judge(&defaulted, &elements(1_000)).verdict(), Verdict::Undecided);

    let unknown: serde_json::Map<_, _> = (0..5_000).map(|i| (format!("f{i}"), json!(1))).collect();
    let long = json!({"n".repeat(100_000): unknown});
    let judged = judge(&json!({"type": "object", "additionalProperties": {"type": "object"}}), &long);
    assert_eq!(judged.verdict(), Verdict::Undecided);
    assert_eq!(judged.dropped.len(), crate::DROPPED_MAX + 1);
    assert!(judged.dropped.iter().all(|path| path.len() <= crate::PATH_BYTES_MAX + 3));

    let many: Vec<Value> = (0..3_000).map(|i| json!({"type": "integer", "maximum": i})).collect();
    let compared = json!({"type": "array", "items": {"type": "integer", "anyOf": many}});
    assert_eq!(judge(&compared, &json!([1, 2])).verdict(), Verdict::Valid);
    assert_eq!(judge(&compared, &json!(vec![1; 3_000])).verdict(), Verdict::Undecided);
    let matched = json!({"type": "array", "items": {"type": "string", "pattern": "^(a|b|ab)*$"}});
    assert_eq!(judge(&matched, &json!(vec!["a".repeat(10_000); 600])).verdict(), Verdict::Undecided);
}
