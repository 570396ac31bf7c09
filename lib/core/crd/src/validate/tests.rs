//! Tests of [`Schema::validate`] as a whole.

mod properties;
mod rules;

use serde_json::{Value, json};

use crate::{
    CrdError, Schema, Tristate, Validation,
    limits::{DROPPED_MAX, PATH_BYTES_MAX},
};

fn schema_of(spec: &Value) -> Schema {
    Schema::read(&definition(&json!({"type": "object", "properties": {"spec": spec}})), "v1").unwrap()
}

fn definition(schema: &Value) -> Value {
    json!({
        "metadata": {"name": "foos.example.com"},
        "spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]},
    })
}

/// Validates an object with this spec.
fn validate(schema: &Value, spec: &Value) -> Validation {
    schema_of(schema).validate(&json!({
        "apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "a"}, "spec": spec,
    }))
}

/// Each row: a schema, specs that are valid, specs that are not.
fn assert_validity(rows: &[(Value, Value, Value)]) {
    for (schema, valid, invalid) in rows {
        for (specs, is_valid) in [(valid, Tristate::Yes), (invalid, Tristate::No)] {
            for spec in specs.as_array().unwrap() {
                let validation = validate(schema, spec);
                assert_eq!(validation.is_valid(), is_valid, "{spec} with {schema}: {validation:?}");
            }
        }
    }
}

#[test]
fn types_and_limits() {
    assert_validity(&[
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
    assert_validity(&[
        (with("anyOf", either.clone()), json!([{"a": ""}, {"a": "", "b": ""}]), json!([{}])),
        (with("oneOf", either.clone()), json!([{"a": ""}]), json!([{}, {"a": "", "b": ""}])),
        (with("allOf", either), json!([{"a": "", "b": ""}]), json!([{}, {"a": ""}])),
        (with("not", json!({"required": ["a"]})), json!([{}, {"b": ""}]), json!([{"a": ""}])),
    ]);
    // A part that is not understood makes a value undecided only where it could decide.
    let unknown = json!({"properties": {"a": {"pattern": "(?=x)"}}});
    let is_valid = |schema: &Value, spec: Value| validate(schema, &spec).is_valid();
    let any = with("anyOf", json!([unknown, {"required": ["b"]}]));
    assert_eq!(is_valid(&any, json!({"a": "x"})), Tristate::Undecided);
    assert_eq!(is_valid(&any, json!({"a": "x", "b": ""})), Tristate::Yes);
    assert_eq!(is_valid(&with("not", unknown.clone()), json!({"a": "x"})), Tristate::Undecided);
    let one = with("oneOf", json!([unknown, {"required": ["a"]}, {"properties": {"a": {"minLength": 1}}}]));
    assert_eq!(is_valid(&one, json!({"a": "x"})), Tristate::No);
}

#[test]
fn nulls_defaults_and_unknown_fields() {
    let schema = json!({"type": "object", "required": ["a", "c"], "properties": {
        "a": {"type": "string", "default": "x", "minLength": 1},
        "b": {"type": "string", "nullable": true},
        "c": {"type": "object", "default": {}, "properties": {"d": {"type": "integer", "default": 7}}},
        "e": {"type": "array", "items": {"type": "string", "default": "y"}},
    }});
    let validation =
        validate(&schema, &json!({"a": null, "b": null, "z": {"y": 1}, "c": {"q": 1}, "e": [null]}));
    assert_eq!(validation.is_valid(), Tristate::Yes, "{validation:?}");
    assert_eq!(validation.dropped, ["spec.c.q", "spec.z"]);
    assert_eq!(validate(&schema, &json!({})).is_valid(), Tristate::Yes);
    assert_eq!(validate(&schema, &json!({"a": ""})).is_valid(), Tristate::No);
    // Kept where the schema says so, except below fields that it knows.
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true,
        "properties": {"a": {"type": "object", "properties": {"b": {"type": "string"}}}}});
    assert_eq!(validate(&open, &json!({"z": {"y": 1}, "a": {"c": 1}})).dropped, ["spec.a.c"]);
    let anything = json!({"type": "object", "additionalProperties": true});
    assert_eq!(validate(&anything, &json!({"a": {"b": 1}, "c": 1})).dropped, ["spec.a.b"]);
}

#[test]
fn sets_and_maps_have_nothing_twice() {
    let items = json!({"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "l": {"type": "string"}}});
    let map = |keys: Value| json!({"type": "array", "items": items, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys});
    assert_validity(&[
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
    assert_validity(&[(
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
    let owned = validate(&schema, &with(json!({"ownerReferences": []})));
    assert_eq!(owned.is_valid(), Tristate::Undecided);
}

#[test]
fn malformed_schemas_are_rejected() {
    let error = |schema: &Value| Schema::read(&definition(schema), "v1").map(drop).unwrap_err();
    assert_eq!(
        error(&json!({"properties": {"a": {"$ref": "b"}}})).to_string(),
        "custom resource definition \"foos.example.com\" is not structural: ^.a in version v1 has $ref, which the API server rejects"
    );
    assert_eq!(
        error(&json!({"minLength": "1"})).to_string(),
        "custom resource definition \"foos.example.com\" is malformed: minLength of ^ in version v1 must be an integer"
    );
    let mut deep = json!({});
    for _ in 0..200 {
        deep = json!({"items": deep});
    }
    assert!(matches!(error(&deep), CrdError::TooLarge { unit: "levels", .. }));
    let missing = Schema::read(&definition(&json!({})), "v2").map(drop).unwrap_err();
    assert_eq!(missing.to_string(), "custom resource definition \"foos.example.com\" has no version \"v2\"");
    Schema::read(&json!({"spec": {"versions": [{"name": "v1"}]}}), "v1").unwrap();
}

/// Each is small and would take gigabytes.
#[test]
fn an_object_that_takes_too_much_is_undecided() {
    let names: Vec<String> = (0..2_000).map(|i| format!("v{i}")).collect();
    let defaulted = json!({"type": "array", "items": {"type": "object", "properties": {
        "list": {"type": "array", "items": {"type": "string"}, "default": names},
    }}});
    let elements = |count: usize| json!((0..count).map(|_| json!({})).collect::<Vec<_>>());
    assert_eq!(validate(&defaulted, &elements(10)).is_valid(), Tristate::Yes);
    assert_eq!(validate(&defaulted, &elements(1_000)).is_valid(), Tristate::Undecided);

    let unknown: serde_json::Map<_, _> = (0..5_000).map(|i| (format!("f{i}"), json!(1))).collect();
    let long = json!({"n".repeat(100_000): unknown});
    let validation = validate(&json!({"type": "object", "additionalProperties": {"type": "object"}}), &long);
    assert_eq!(validation.is_valid(), Tristate::Undecided);
    assert_eq!(validation.dropped.len(), DROPPED_MAX + 1);
    assert!(validation.dropped.iter().all(|path| path.len() <= PATH_BYTES_MAX + 3));

    let many: Vec<Value> = (0..3_000).map(|i| json!({"type": "integer", "maximum": i})).collect();
    let compared = json!({"type": "array", "items": {"type": "integer", "anyOf": many}});
    assert_eq!(validate(&compared, &json!([1, 2])).is_valid(), Tristate::Yes);
    assert_eq!(validate(&compared, &json!(vec![1; 3_000])).is_valid(), Tristate::Undecided);
    let matched = json!({"type": "array", "items": {"type": "string", "pattern": "^(a|b|ab)*$"}});
    assert_eq!(validate(&matched, &json!(vec!["a".repeat(10_000); 600])).is_valid(), Tristate::Undecided);
}
