mod queries;
mod refusals;

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};

use super::Graphql;
use crate::{
    Generation,
    testing::{ONE, TWO, TestStore},
};

/// Two packages, their channels and bundles, and a schema of its own.
const FILES: &[(&str, &str)] = &[
    (
        "a/catalog.json",
        r#"{"schema":"olm.package","name":"a","defaultChannel":"stable","icon":{"mediatype":"image/png","base64data":"eA=="}}
           {"schema":"olm.channel","package":"a","name":"stable","entries":[{"name":"a.v1"},{"name":"a.v2","replaces":"a.v1","skips":["a.v0"]}]}
           {"schema":"olm.bundle","package":"a","name":"a.v1","image":"q/a:1","properties":[]}
           {"schema":"olm.bundle","package":"a","name":"a.v2","image":"q/a:2","properties":[
             {"type":"olm.package","value":{"packageName":"a","version":"2.0.0"}},{"type":"text","value":"x"}]}"#,
    ),
    (
        "b/catalog.json",
        r#"{"schema":"olm.package","name":"b"}
           {"schema":"my-own_Schema","count":7,"share":0.5,"big":5000000000,"on":true,"tags":["x","y"],
            "mixed":[1,"x"],"nothing":null,"empty":[],"more_words-here":"m","URL":"u","3d":1,"deep":[{"in":{"side":[1]}}]}
           {"schema":"my-own_Schema","count":"seven","share":2,"tags":"none","moreWordsHere":"n"}
           {"no":"schema"}"#,
    ),
];

async fn ask(generation: &Arc<Generation>, query: &str) -> Value {
    ask_through(&Graphql::new(), generation, query).await
}

async fn ask_through(graphql: &Graphql, generation: &Arc<Generation>, query: &str) -> Value {
    let answer = graphql.answer("c".into(), Arc::clone(generation), query.into());
    let answer = tokio::time::timeout(Duration::from_mins(1), answer).await.unwrap();
    assert_eq!(answer.last(), Some(&b'\n'));
    serde_json::from_slice(&answer).unwrap()
}

fn catalog() -> (TestStore, Arc<Generation>) {
    let test = TestStore::new();
    let generation = test.install("c", ONE, FILES);
    (test, generation)
}

#[tokio::test]
async fn types_are_found_once_for_each_content() {
    let (test, first) = catalog();
    let graphql = Graphql::new();
    let query = "{summary{totalSchemas}}";
    let total = |schemas: usize| json!({"data": {"summary": {"totalSchemas": schemas}}});
    assert_eq!(ask_through(&graphql, &first, query).await, total(4));
    let known = graphql.known("c", &first).unwrap();
    assert!(Arc::ptr_eq(&known, &graphql.known("c", &first).unwrap()));
    let second = test.install("c", TWO, &[("c.json", r#"{"schema":"x"}"#)]);
    assert_eq!(ask_through(&graphql, &second, query).await, total(1));
    assert!(!Arc::ptr_eq(&known, &graphql.known("c", &second).unwrap()));
    drop((first, second));
    test.store.remove("c").unwrap();
    let other = test.install("d", ONE, &[("c.json", r#"{"schema":"y"}"#)]);
    graphql.known("d", &other).unwrap();
    let catalogs = graphql.catalogs.lock().unwrap();
    assert_eq!(catalogs.keys().collect::<Vec<_>>(), ["d"], "what nobody serves is forgotten");
}

#[tokio::test]
async fn schemas_that_would_have_one_name_make_no_types() {
    let test = TestStore::new();
    for (files, problem) in [
        (
            r#"{"schema":"a.b"}{"schema":"ab"}"#,
            "the catalog has no GraphQL schema: schemas \"a.b\" and \"ab\" would both be the field abs",
        ),
        (
            r#"{"schema":"string"}"#,
            "the catalog has no GraphQL schema: two of its types would be named String",
        ),
        (r#"{"schema":"query"}"#, "the catalog has no GraphQL schema: two of its types would be named Query"),
    ] {
        let generation = test.install("c", ONE, &[("c.json", files)]);
        let answer = ask(&generation, "{summary{totalSchemas}}").await;
        assert_eq!(answer["data"], Value::Null);
        assert_eq!(answer["errors"][0]["message"], problem);
    }
}

#[tokio::test]
async fn of_keys_that_are_one_field_the_last_in_the_document_counts() {
    let test = TestStore::new();
    let documents = r#"{"schema":"x","fooBar":"b","foo-bar":"a"}{"schema":"x","foo-bar":"c"}{"schema":"x","foo_bar":"e","fooBar":"d"}"#;
    let generation = test.install("c", ONE, &[("c.json", documents)]);
    let answer = ask(&generation, "{xs{fooBar}}").await;
    assert_eq!(answer["data"], json!({"xs": [{"fooBar": "b"}, {"fooBar": "c"}, {"fooBar": "e"}]}));
}

#[tokio::test]
async fn very_many_different_fields_make_no_types() {
    let test = TestStore::new();
    let fields: Vec<String> = (0..20_000).map(|number| format!("\"field{number}\":1")).collect();
    let document = format!("{{\"schema\":\"x\",{}}}", fields.join(","));
    let generation = test.install("c", ONE, &[("c.json", &document)]);
    let answer = ask(&generation, "{xs{field1}}").await;
    assert_eq!(
        answer["errors"][0]["message"],
        "the catalog has no GraphQL schema: its documents have too many different fields"
    );
}

#[tokio::test]
async fn a_document_that_is_too_large_has_no_part_in_the_types_and_is_not_answered_with() {
    let test = TestStore::new();
    let long = format!("{{\"schema\":\"x\",\"long\":\"{}\"}}", "a".repeat(2 << 20));
    let dense = format!("{{\"schema\":\"x\",\"dense\":[1{}]}}", ",1".repeat(100_000));
    let fits = format!(
        "{{\"schema\":\"x\",\"fits\":[1{}],\"text\":\"{}\"}}",
        ",1".repeat(90_000),
        "[,".repeat(100_000)
    );
    let generation = test.install("c", ONE, &[("c.json", &[long, dense, fits].concat())]);
    let fields = ask(&generation, "{__type(name:\"X\"){fields{name}}}").await;
    let named = |name: &str| json!({"name": name});
    assert_eq!(fields["data"]["__type"]["fields"], json!([named("fits"), named("schema"), named("text")]));
    let answer = ask(&generation, "{xs(limit:1){schema}}").await;
    assert_eq!(answer["data"], Value::Null);
    let message = answer["errors"][0]["message"].as_str().unwrap();
    assert!(message.starts_with("a document of the catalog is too large for GraphQL"), "{message}");
    assert_eq!(ask(&generation, "{xs(offset:1,limit:1){schema}}").await["data"], Value::Null);
    assert_eq!(ask(&generation, "{xs(offset:2){schema}}").await["data"], json!({"xs": [{"schema": "x"}]}));
}
