//! The large catalog of the test data: what is served is what went in.

use std::{
    fs::File,
    io::{self, Read},
    path::PathBuf,
    time::Instant,
};

use axum::{body::Body, http::Request};
use http_body_util::BodyExt;
use olm_test_programs::data::find;
use serde_json::Value;
use tower::ServiceExt;

use super::routes;
use crate::{
    CatalogFiles,
    testing::{ONE, TestStore, at},
};

struct OneFile(PathBuf);

impl CatalogFiles for OneFile {
    fn paths(&self) -> Vec<String> {
        vec!["configs/catalog.json".into()]
    }

    fn open<'a>(&'a self, _: &str) -> io::Result<Box<dyn Read + Send + 'a>> {
        Ok(Box::new(zstd::Decoder::new(File::open(&self.0)?)?))
    }
}

const DATA: &str = "community.jsonl.zst";

async fn body(test: &TestStore, uri: &str) -> Vec<u8> {
    let request = Request::get(uri).body(Body::empty()).unwrap();
    let response = routes(test).oneshot(request).await.unwrap();
    assert!(response.status().is_success(), "{uri}: {}", response.status());
    response.into_body().collect().await.unwrap().to_bytes().to_vec()
}

fn field<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

#[tokio::test]
async fn the_lines_of_a_large_catalog_are_the_documents_of_its_files() {
    let Some(file) = find(DATA) else { return };
    let mut original = String::new();
    zstd::Decoder::new(File::open(&file).unwrap()).unwrap().read_to_string(&mut original).unwrap();

    let test = TestStore::new();
    let started = Instant::now();
    let generation = test.store.install("community", ONE, at(1), &OneFile(file)).unwrap();
    println!("ingested {} bytes in {:?}", generation.bytes(), started.elapsed());

    let all = String::from_utf8(body(&test, "/catalogs/community/api/v1/all").await).unwrap();
    assert_eq!(all.lines().count(), original.lines().count());
    assert_eq!(all.lines().count(), generation.documents());
    for (line, source) in all.lines().zip(original.lines()) {
        let value: Value = serde_json::from_str(source).unwrap();
        // The test's own writer: sorted keys, compact, and the two separators escaped.
        let expected = serde_json::to_string(&value).unwrap();
        let expected = expected.replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029");
        assert_eq!(line, expected);
    }
}

#[test]
fn records_resolve_as_whole_documents_do() {
    let Some(file) = find(DATA) else { return };
    let mut original = String::new();
    zstd::Decoder::new(File::open(&file).unwrap()).unwrap().read_to_string(&mut original).unwrap();
    let test = TestStore::new();
    let generation = test.store.install("community", ONE, at(1), &OneFile(file)).unwrap();
    let mut contents = std::collections::BTreeMap::<String, olm_fbc::PackageContent>::new();
    for line in original.lines() {
        let value: Value = serde_json::from_str(line).unwrap();
        let package = if field(&value, "schema") == "olm.package" { "name" } else { "package" };
        contents.entry(field(&value, package).to_owned()).or_default().push_json(line.as_bytes()).unwrap();
    }
    assert_eq!(generation.packages().collect::<Vec<_>>(), contents.keys().collect::<Vec<_>>());
    for (package, mut expected) in contents {
        for bundle in &mut expected.bundles {
            bundle.properties.retain(|property| property.kind != "olm.csv.metadata");
        }
        assert_eq!(generation.package(&package).unwrap(), expected, "{package}");
    }
}
