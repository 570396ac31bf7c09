//! Queries that have an answer.

use serde_json::{Value, json};

use super::{Lines, ask, catalog};

#[test]
fn every_schema_is_a_field_with_the_keys_that_its_documents_have() {
    let documents = catalog();
    for (query, data) in [
        (
            "{ olmpackages { name defaultChannel icon } }",
            json!({"olmpackages": [
                // Objects are JSON text.
                {"name": "a", "defaultChannel": "stable",
                 "icon": "{\"base64data\":\"eA==\",\"mediatype\":\"image/png\"}"},
                {"name": "b", "defaultChannel": null, "icon": null},
            ]}),
        ),
        (
            "{ olmbundles { name properties { type value } } }",
            json!({"olmbundles": [
                {"name": "a.v1", "properties": []},
                {"name": "a.v2", "properties": [
                    {"type": "olm.package", "value": "{\"packageName\":\"a\",\"version\":\"2.0.0\"}"},
                    {"type": "text", "value": "x"},
                ]},
            ]}),
        ),
        (
            "{ olmchannels { entries { name replaces skips } } }",
            json!({"olmchannels": [{"entries": [
                {"name": "a.v1", "replaces": null, "skips": null},
                {"name": "a.v2", "replaces": "a.v1", "skips": ["a.v0"]},
            ]}]}),
        ),
        (
            "{ myownschemas { count share big on tags mixed nothing empty moreWordsHere url field_3d deep { in } } }",
            json!({"myownschemas": [
                {"count": 7, "share": 0.5, "big": null, "on": true, "tags": ["x", "y"], "mixed": ["1", "x"],
                 "nothing": null, "empty": [], "moreWordsHere": "m", "url": "u", "field_3d": 1,
                 "deep": [{"in": "{\"side\":[1]}"}]},
                // What is not of the type that was met first has no value.
                {"count": null, "share": 2, "big": null, "on": null, "tags": null, "mixed": null,
                 "nothing": null, "empty": null, "moreWordsHere": "n", "url": null, "field_3d": null,
                 "deep": null},
            ]}),
        ),
        (
            "{ summary { totalSchemas schemas { name totalObjects totalFields } } }",
            json!({"summary": {"totalSchemas": 4, "schemas": [
                {"name": "my-own_Schema", "totalObjects": 2, "totalFields": 13},
                {"name": "olm.bundle", "totalObjects": 2, "totalFields": 5},
                {"name": "olm.channel", "totalObjects": 1, "totalFields": 4},
                {"name": "olm.package", "totalObjects": 2, "totalFields": 4},
            ]}}),
        ),
    ] {
        assert_eq!(ask(&documents, query), json!({"data": data}), "{query}");
    }
}

#[test]
fn pages_have_100_documents_at_most() {
    let documents = (0..250).map(|number| format!("{{\"schema\":\"x\",\"name\":\"{number}\"}}"));
    let documents = documents.collect::<Vec<_>>().join("\n");
    let documents = Lines::new(&[&documents]);
    for (arguments, first, count) in [
        ("", 0, 100),
        ("(limit: 3)", 0, 3),
        ("(limit: 0)", 0, 100),
        ("(limit: -1)", 0, 100),
        ("(limit: 101)", 0, 100),
        ("(limit: null, offset: null)", 0, 100),
        ("(offset: 240)", 240, 10),
        ("(offset: -5, limit: 2)", 0, 2),
        ("(limit: 1, offset: 249)", 249, 1),
        ("(offset: 250)", 0, 0),
        ("(offset: 2000000000)", 0, 0),
    ] {
        let answer = ask(&documents, &format!("{{ xs{arguments} {{ name }} }}"));
        let names: Vec<_> =
            answer["data"]["xs"].as_array().unwrap().iter().map(|x| x["name"].clone()).collect();
        let expected: Vec<_> = (first..first + count).map(|number| json!(number.to_string())).collect();
        assert_eq!(names, expected, "{arguments}");
    }
}

#[test]
fn the_language_is_understood() {
    let documents = catalog();
    let b = json!([{"name": "b"}]);
    for (query, data) in [
        ("query Q { olmpackages(offset: 1) { name } }", json!({"olmpackages": b})),
        ("# comment\n{,olmpackages(offset:1,){,name,},}", json!({"olmpackages": b})),
        ("\u{feff}{ x: olmpackages(offset: 1) { y: name } }", json!({"x": [{"y": "b"}]})),
        ("{ olmpackages(offset: 1) { ...F } } fragment F on OlmPackage { name }", json!({"olmpackages": b})),
        (
            "{ olmpackages(offset: 1) { ... on OlmPackage { name } ... { name } ... @include(if: false) { icon } } }",
            json!({"olmpackages": b}),
        ),
        // Fields of one name are one field.
        (
            "{ olmpackages(offset: 1) { name } olmpackages(offset: 1) { name icon } }",
            json!({"olmpackages": [{"name": "b", "icon": null}]}),
        ),
        (
            "{ olmpackages(offset: 1) { name @skip(if: true) schema @include(if: true) } }",
            json!({"olmpackages": [{"schema": "olm.package"}]}),
        ),
        // Values for variables are not taken, so their defaults count, or what stands for nothing.
        ("query ($n: Int = 1) { olmpackages(offset: $n) { name } }", json!({"olmpackages": b})),
        (
            "query ($n: Int) { olmpackages(limit: $n) { name } }",
            json!({"olmpackages": [{"name": "a"}, {"name": "b"}]}),
        ),
        (
            "{ __typename olmpackages(limit: 1) { __typename } }",
            json!({"__typename": "Query", "olmpackages": [{"__typename": "OlmPackage"}]}),
        ),
    ] {
        assert_eq!(ask(&documents, query), json!({"data": data}), "{query}");
    }
}

#[test]
fn types_describe_themselves() {
    let documents = catalog();
    let query = r#"{ __schema { queryType { name } mutationType { name } types { name kind } directives { name locations args { name type { kind ofType { name } } } } }
        bundle: __type(name: "OlmBundle") { kind name fields(includeDeprecated: true) { name isDeprecated args { name } type { kind name ofType { name kind } } } interfaces { name } enumValues { name } }
        query: __type(name: "Query") { fields { name args { name defaultValue description type { name } } } }
        kinds: __type(name: "__TypeKind") { enumValues { name isDeprecated } }
        none: __type(name: "Nothing") { name } }"#;
    let answer = ask(&documents, query);
    let data = &answer["data"];
    assert_eq!(data["__schema"]["queryType"], json!({"name": "Query"}), "{answer}");
    assert_eq!(data["__schema"]["mutationType"], Value::Null);
    let types = data["__schema"]["types"].as_array().unwrap();
    for kind in [
        json!({"name": "OlmBundle", "kind": "OBJECT"}),
        json!({"name": "OlmBundleProperties", "kind": "OBJECT"}),
        json!({"name": "CatalogSummary", "kind": "OBJECT"}),
        json!({"name": "Boolean", "kind": "SCALAR"}),
        json!({"name": "__TypeKind", "kind": "ENUM"}),
    ] {
        assert!(types.contains(&kind), "{kind}");
    }
    assert_eq!(data["__schema"]["directives"][0]["args"][0]["type"]["kind"], "NON_NULL");
    let fields = data["bundle"]["fields"].as_array().unwrap();
    let properties = fields.iter().find(|field| field["name"] == "properties").unwrap();
    assert_eq!(
        properties["type"],
        json!({"kind": "LIST", "name": null, "ofType": {"name": "OlmBundleProperties", "kind": "OBJECT"}})
    );
    assert_eq!((&data["bundle"]["interfaces"], &data["bundle"]["enumValues"]), (&json!([]), &Value::Null));
    let fields = data["query"]["fields"].as_array().unwrap();
    let bundles = fields.iter().find(|field| field["name"] == "olmbundles").unwrap();
    assert_eq!(
        bundles["args"][0],
        json!({"name": "limit", "defaultValue": "100", "description": "Maximum number of items to return",
               "type": {"name": "Int"}})
    );
    assert!(data["kinds"]["enumValues"].as_array().unwrap().len() == 8);
    assert_eq!(data["none"], Value::Null);
}
