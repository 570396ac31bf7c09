use std::io::Read;

use flate2::read::GzDecoder;
use olm_fbc::Query;
use proptest::prelude::*;

use crate::{
    Generation,
    testing::{ONE, TWO, TestStore},
};

/// Two packages, each with runs of one and of several lines, and lines without a schema.
const FILES: &[(&str, &str)] = &[(
    "c.json",
    r#"{"schema":"olm.package","name":"a"}
       {"schema":"olm.bundle","package":"a","name":"a.v1"}{"schema":"olm.bundle","package":"a","name":"a.v2"}
       {"package":"a","name":"a.v2"}
       {"schema":"olm.package","name":"b"}{"schema":"x","package":"b","name":"a.v1"}"#,
)];

fn query<'a>(schema: &'a str, package: &'a str, name: &'a str) -> Query<'a> {
    Query { schema: Some(schema), package: Some(package), name: Some(name) }
}

fn plain(generation: &Generation, query: &Query<'_>) -> Vec<u8> {
    let mut text = Vec::new();
    for range in generation.find(query) {
        let at = text.len();
        text.resize(at + usize::try_from(range.end - range.start).unwrap(), 0);
        generation.read_lines(&mut text[at..], range.start).unwrap();
    }
    text
}

/// The member of a query, unpacked by a decoder that stops after the first member.
fn unpacked(generation: &Generation, query: &Query<'_>) -> Option<Vec<u8>> {
    let segments = generation.segments().unwrap();
    let member = segments.member(&generation.find(query))?;
    let mut bytes = super::GzipMember::HEAD.to_vec();
    for range in &member.ranges {
        let at = bytes.len();
        bytes.resize(at + usize::try_from(range.end - range.start).unwrap(), 0);
        segments.read(&mut bytes[at..], range.start).unwrap();
    }
    bytes.extend_from_slice(&member.tail);
    assert_eq!(bytes.len() as u64, member.bytes());
    let mut text = Vec::new();
    let mut decoder = GzDecoder::new(bytes.as_slice());
    decoder.read_to_end(&mut text).unwrap();
    assert!(decoder.into_inner().is_empty(), "one member and nothing behind it");
    Some(text)
}

#[test]
fn whole_runs_make_one_member_and_single_lines_none() {
    let test = TestStore::new();
    let generation = test.install("c", ONE, FILES);
    assert!(test.store.compress("c", &|| false).unwrap());
    for asked in [
        query("", "", ""),
        query("olm.package", "", ""),
        query("olm.bundle", "", ""),
        query("", "a", ""),
        query("olm.bundle", "a", ""),
        query("", "b", ""),
        query("olm.package", "", "b"),
        query("", "", "b"),
        query("none", "", ""),
    ] {
        assert_eq!(unpacked(&generation, &asked), Some(plain(&generation, &asked)), "{asked:?}");
    }
    for asked in [query("", "", "a.v1"), query("olm.bundle", "a", "a.v2")] {
        assert_eq!(unpacked(&generation, &asked), None, "{asked:?}");
    }
}

#[test]
fn pieces_are_found_again_after_a_restart_and_go_with_their_content() {
    let test = TestStore::new();
    let content = test.install("c", ONE, FILES);
    assert!(test.store.compress("c", &|| false).unwrap());
    let before = unpacked(&content, &Query::default());
    let file = content.folder().join(super::SEGMENTS_FILE);
    drop(content);
    let test = test.restarted();
    let content = test.store.generation("c").unwrap();
    assert_eq!(unpacked(&content, &Query::default()), before);

    test.install("c", TWO, &[("c.json", r#"{"schema":"y"}"#)]);
    assert!(!file.exists());
    assert_eq!(unpacked(&content, &Query::default()), before, "who reads it still can");
    assert!(test.store.generation("c").unwrap().segments().is_none());
}

#[test]
fn damaged_pieces_are_made_anew() {
    let test = TestStore::new();
    let content = test.install("c", ONE, FILES);
    assert!(test.store.compress("c", &|| false).unwrap());
    let whole = plain(&content, &Query::default());
    let file = content.folder().join(super::SEGMENTS_FILE);
    let stored = std::fs::read(&file).unwrap();
    drop(content);
    let mut test = test;
    let mut damages: Vec<Vec<u8>> = (0..stored.len())
        .map(|at| {
            let mut damaged = stored.clone();
            damaged[at] ^= 0x10;
            damaged
        })
        .collect();
    damages.extend([Vec::new(), stored[1..].to_vec(), stored[..stored.len() - 1].to_vec()]);
    for damaged in damages {
        std::fs::write(&file, damaged).unwrap();
        test = test.restarted();
        assert!(test.store.generation("c").unwrap().segments().is_none());
    }
    assert!(test.store.compress("c", &|| false).unwrap());
    assert_eq!(unpacked(&test.store.generation("c").unwrap(), &Query::default()), Some(whole));
    assert_eq!(std::fs::read(&file).unwrap(), stored);
}

#[test]
fn making_pieces_breaks_off_and_leaves_nothing() {
    let test = TestStore::new();
    test.install("c", ONE, FILES);
    let staging = test.folder.path().join("catalogs/.staging");
    assert!(!test.store.compress("none", &|| false).unwrap());
    assert!(!test.store.compress("c", &|| true).unwrap());
    assert!(test.store.generation("c").unwrap().segments().is_none());
    // The content becomes another while its segments are made.
    let replaced = std::cell::Cell::new(false);
    let made = test.store.compress("c", &|| {
        if !replaced.replace(true) {
            test.install("c", TWO, FILES);
        }
        false
    });
    assert!(!made.unwrap());
    assert!(test.store.generation("c").unwrap().segments().is_none());
    assert_eq!(std::fs::read_dir(staging).unwrap().count(), 0);
}

#[test]
fn a_disk_that_cannot_be_written_leaves_the_content_as_it_is() {
    let test = TestStore::new();
    let generation = test.install("c", ONE, FILES);
    // Nothing can be created where a file is in the place of the folder.
    let staging = test.folder.path().join("catalogs/.staging");
    std::fs::remove_dir(&staging).unwrap();
    std::fs::write(&staging, "").unwrap();
    let error = test.store.compress("c", &|| false).unwrap_err().to_string();
    assert!(error.starts_with("creating ") && error.contains(".segments"), "{error}");
    assert!(generation.segments().is_none());
    assert!(!plain(&generation, &Query::default()).is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_query_by_schema_and_package_has_a_member_with_its_lines(
        documents in prop::collection::vec((0_usize..3, 0_usize..3, 0_usize..200_000), 0..20),
    ) {
        let values = ["", "a", "b"];
        let content: Vec<String> = documents
            .iter()
            .enumerate()
            .map(|(at, (schema, package, length))| {
                // Of all lengths, mostly short; those beyond a buffer are what is interesting.
                let text = "text ".repeat(length / (at + 1) / 5);
                let (schema, package) = (values[*schema], values[*package]);
                format!(r#"{{"schema":"{schema}","package":"{package}","name":"{at}","text":"{text}"}}"#)
            })
            .collect();
        let test = TestStore::new();
        let generation = test.install("c", ONE, &[("c.json", &content.concat())]);
        prop_assert!(test.store.compress("c", &|| false).unwrap());
        for schema in values {
            for package in values {
                let asked = query(schema, package, "");
                prop_assert!(unpacked(&generation, &asked) == Some(plain(&generation, &asked)));
            }
        }
        let test = { drop(generation); test.restarted() };
        prop_assert!(test.store.generation("c").unwrap().segments().is_some());
    }
}
