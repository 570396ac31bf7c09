//! GraphQL requests to catalogs.

use std::{
    cell::RefCell,
    io::{self, Read},
    sync::Arc,
};

use catalogd::{CatalogFiles, CatalogStore, Generation, answer_graphql};
use jiff::Timestamp;
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::kind;

/// A catalog of packages, channels and bundles, for requests without one.
const CATALOG: &str = r#"{"schema":"olm.package","name":"a","defaultChannel":"s"}
{"schema":"olm.channel","package":"a","name":"s","entries":[{"name":"a.v1","skips":["a.v0"]}]}
{"schema":"olm.bundle","package":"a","name":"a.v1","image":"q/a:1","properties":[{"type":"t","value":{"x":1}}]}"#;
const REFERENCE: &str =
    "fuzz.example/a@sha256:1111111111111111111111111111111111111111111111111111111111111111";

/// The only file of a catalog.
struct File(String);

impl CatalogFiles for File {
    fn paths(&self) -> Vec<String> {
        vec!["catalog.yaml".to_owned()]
    }

    fn open<'a>(&'a self, _: &str) -> io::Result<Box<dyn Read + Send + 'a>> {
        Ok(Box::new(self.0.as_bytes()))
    }
}

/// A store, and what asks it.
struct Store {
    catalogs: CatalogStore,
    runtime: Runtime,
    _folder: TempDir,
}

impl Store {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let store = CatalogStore::open(folder.path()).expect("a store");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        Self { catalogs: store, runtime, _folder: folder }
    }

    fn answer(&self, generation: &Arc<Generation>, body: &str) -> Result<Vec<u8>, &'static str> {
        self.runtime.block_on(answer_graphql(Arc::clone(generation), body.as_bytes()))
    }
}

/// The body of a request, and behind a line `---` the catalog that is asked: the answer is JSON, and the same when the
/// same is asked again.
pub(super) fn graphql(input: &[u8]) -> String {
    thread_local!(static STORE: RefCell<Store> = RefCell::new(Store::new()));
    let text = String::from_utf8_lossy(input);
    let (body, catalog) = text.split_once("\n---\n").unwrap_or((&text, CATALOG));
    STORE.with_borrow(|store| {
        let file = File(catalog.to_owned());
        let generation = match store.catalogs.install("a", REFERENCE, Timestamp::UNIX_EPOCH, &file) {
            Ok(generation) => generation,
            Err(error) => return kind(&error),
        };
        let answer = match store.answer(&generation, body) {
            Ok(answer) => answer,
            Err(problem) => return problem.to_owned(),
        };
        let json: Value = serde_json::from_slice(&answer).expect("an answer is JSON");
        assert_eq!(store.answer(&generation, body).as_deref(), Ok(answer.as_slice()));
        match (&json["data"], &json["errors"]) {
            (Value::Object(data), Value::Null) => format!("{} fields", data.len().min(3)),
            (Value::Null, Value::Array(errors)) => kind(&errors[0]["message"].as_str().expect("a text")),
            _ => panic!("neither data nor errors: {json}"),
        }
    })
}
