mod queries;
mod refusals;

use std::{io, ops::Range};

use olm_fbc::{Index, MetaReader};
use serde_json::{Value, json};

use crate::{Documents, Query, QueryError, Schema, response};

/// A catalog in memory.
pub(super) struct Lines {
    index: Index,
    bytes: Vec<u8>,
}

impl Lines {
    pub(super) fn new(files: &[&str]) -> Self {
        let mut lines = Self { index: Index::default(), bytes: Vec::new() };
        for file in files {
            let mut reader = MetaReader::new(file.as_bytes());
            while let Some(meta) = reader.next_meta().unwrap() {
                lines.index.push_line(&meta.envelope, meta.line.len() + 1).unwrap();
                lines.bytes.extend_from_slice(meta.line);
                lines.bytes.push(b'\n');
            }
        }
        lines
    }
}

impl Documents for Lines {
    fn schemas(&self) -> Vec<&str> {
        self.index.schemas().collect()
    }

    fn lines<'a>(&'a self, schema: &'a str) -> Box<dyn ExactSizeIterator<Item = Range<u64>> + 'a> {
        Box::new(self.index.lines(schema))
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let start = usize::try_from(offset).unwrap();
        buffer.copy_from_slice(&self.bytes[start..start + buffer.len()]);
        Ok(())
    }
}

/// Two packages, their channels and bundles, and a schema of its own.
const FILES: &[&str] = &[
    r#"{"schema":"olm.package","name":"a","defaultChannel":"stable","icon":{"mediatype":"image/png","base64data":"eA=="}}
           {"schema":"olm.channel","package":"a","name":"stable","entries":[{"name":"a.v1"},{"name":"a.v2","replaces":"a.v1","skips":["a.v0"]}]}
           {"schema":"olm.bundle","package":"a","name":"a.v1","image":"q/a:1","properties":[]}
           {"schema":"olm.bundle","package":"a","name":"a.v2","image":"q/a:2","properties":[
             {"type":"olm.package","value":{"packageName":"a","version":"2.0.0"}},{"type":"text","value":"x"}]}"#,
    r#"{"schema":"olm.package","name":"b"}
           {"schema":"my-own_Schema","count":7,"share":0.5,"big":5000000000,"on":true,"tags":["x","y"],
            "mixed":[1,"x"],"nothing":null,"empty":[],"more_words-here":"m","URL":"u","3d":1,"deep":[{"in":{"side":[1]}}]}
           {"schema":"my-own_Schema","count":"seven","share":2,"tags":"none","moreWordsHere":"n"}
           {"no":"schema"}"#,
];

fn ask(documents: &Lines, query: &str) -> Value {
    let run = || {
        let query = Query::parse(query)?;
        let schema = Schema::derive(documents).map_err(|error| QueryError::plain(error.to_string()))?;
        query.answer(&schema, documents, &|| false)
    };
    let response = response(run());
    assert_eq!(response.last(), Some(&b'\n'));
    serde_json::from_slice(&response).unwrap()
}

fn catalog() -> Lines {
    Lines::new(FILES)
}

#[test]
fn schemas_that_would_have_one_name_make_no_types() {
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
        let documents = Lines::new(&[files]);
        let answer = ask(&documents, "{summary{totalSchemas}}");
        assert_eq!(answer["data"], Value::Null);
        assert_eq!(answer["errors"][0]["message"], problem);
    }
}

#[test]
fn of_keys_that_are_one_field_the_last_in_the_document_counts() {
    let documents = r#"{"schema":"x","fooBar":"b","foo-bar":"a"}{"schema":"x","foo-bar":"c"}{"schema":"x","foo_bar":"e","fooBar":"d"}"#;
    let documents = Lines::new(&[documents]);
    let answer = ask(&documents, "{xs{fooBar}}");
    assert_eq!(answer["data"], json!({"xs": [{"fooBar": "b"}, {"fooBar": "c"}, {"fooBar": "e"}]}));
}

#[test]
fn very_many_different_fields_make_no_types() {
    let fields: Vec<String> = (0..20_000).map(|number| format!("\"field{number}\":1")).collect();
    let document = format!("{{\"schema\":\"x\",{}}}", fields.join(","));
    let documents = Lines::new(&[&document]);
    let answer = ask(&documents, "{xs{field1}}");
    assert_eq!(
        answer["errors"][0]["message"],
        "the catalog has no GraphQL schema: its documents have too many different fields"
    );
}

#[test]
fn a_document_that_is_too_large_has_no_part_in_the_types_and_is_not_answered_with() {
    let long = format!("{{\"schema\":\"x\",\"long\":\"{}\"}}", "a".repeat(2 << 20));
    let dense = format!("{{\"schema\":\"x\",\"dense\":[1{}]}}", ",1".repeat(100_000));
    let fits = format!(
        "{{\"schema\":\"x\",\"fits\":[1{}],\"text\":\"{}\"}}",
        ",1".repeat(90_000),
        "[,".repeat(100_000)
    );
    let documents = Lines::new(&[&[long, dense, fits].concat()]);
    let fields = ask(&documents, "{__type(name:\"X\"){fields{name}}}");
    let named = |name: &str| json!({"name": name});
    assert_eq!(fields["data"]["__type"]["fields"], json!([named("fits"), named("schema"), named("text")]));
    let answer = ask(&documents, "{xs(limit:1){schema}}");
    assert_eq!(answer["data"], Value::Null);
    let message = answer["errors"][0]["message"].as_str().unwrap();
    assert!(message.starts_with("a document of the catalog is too large for GraphQL"), "{message}");
    assert_eq!(ask(&documents, "{xs(offset:1,limit:1){schema}}")["data"], Value::Null);
    assert_eq!(ask(&documents, "{xs(offset:2){schema}}")["data"], json!({"xs": [{"schema": "x"}]}));
}
