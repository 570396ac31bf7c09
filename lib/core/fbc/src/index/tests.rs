use std::borrow::Cow;

use proptest::prelude::*;

use super::{Index, Memory, Query};
use crate::Envelope;

fn envelope<'a>(schema: &'a str, package: &'a str, name: &'a str) -> Envelope<'a> {
    Envelope { schema: Cow::Borrowed(schema), package: Cow::Borrowed(package), name: Cow::Borrowed(name) }
}

fn index(lines: &[(&str, &str, &str)]) -> Index {
    let mut index = Index::default();
    for (schema, package, name) in lines {
        index.push_line(&envelope(schema, package, name), 10).unwrap();
    }
    index
}

fn query<'a>(schema: &'a str, package: &'a str, name: &'a str) -> Query<'a> {
    Query { schema: Some(schema), package: Some(package), name: Some(name) }
}

#[test]
fn queries_are_exact_and_answers_in_file_order() {
    let index = index(&[
        ("olm.package", "", "foo"),
        ("olm.bundle", "foo", "foo.v1"),
        ("", "foo", "no schema"),
        ("olm.bundle", "foo", "foo.v2"),
        ("olm.bundle", "bar", "foo.v1"),
        ("olm.channel", "foo", "stable"),
    ]);
    let one = |range: std::ops::Range<u64>| std::iter::once(range).collect::<Vec<_>>();
    for (asked, found) in [
        (query("", "", ""), one(0..60)),
        (query("olm.bundle", "", ""), vec![10..20, 30..50]),
        // The package's own document carries its name as name.
        (query("", "foo", ""), vec![10..20, 30..40, 50..60]),
        (query("olm.package", "", "foo"), one(0..10)),
        (query("", "", "foo.v1"), vec![10..20, 40..50]),
        (query("olm.bundle", "foo", "foo.v1"), one(10..20)),
        (query("", "", "no schema"), vec![]),
        (query("olm.Bundle", "", ""), vec![]),
        (query("olm.bundle", "none", ""), vec![]),
    ] {
        assert_eq!(index.find(&asked), found, "{asked:?}");
    }
}

/// As many schemas as documents: each document found is asked for its schema.
#[test]
fn a_query_without_schema_looks_at_each_document_once() {
    let names: Vec<String> = (0..200_000).map(|i| format!("s{i}")).collect();
    let lines: Vec<_> = names.iter().map(|name| (name.as_str(), "p", "")).collect();
    let index = index(&lines);
    assert_eq!(index.find(&query("", "p", "")), std::iter::once(0..2_000_000).collect::<Vec<_>>());
    let read = Index::from_bytes(&index.to_bytes()).unwrap();
    assert_eq!(read, index);
}

/// Whatever is different in the documents: a process of 256 MiB holds several catalogs.
#[test]
fn the_memory_of_an_index_is_limited() {
    let long = "x".repeat(1_000);
    let push = |index: &mut Index, kind: &str, count: usize| {
        (0..count).find_map(|number| {
            let number = number.to_string();
            let text = [long.as_str(), &number].concat();
            let envelope = match kind {
                "schema" => envelope(&number, "p", ""),
                "name" => envelope("s", "p", &number),
                _ => envelope("s", &text, ""),
            };
            index.push_line(&envelope, 10).err()
        })
    };
    for (kind, fits) in [("schema", 200_000), ("name", 200_000), ("long package", 25_000)] {
        let mut index = Index::default();
        assert!(push(&mut index, kind, fits).is_none(), "{kind}");
        assert_eq!(Index::from_bytes(&index.to_bytes()).unwrap(), index);
        let mut larger = Index::default();
        let error = push(&mut larger, kind, 2 * fits).map(|error| error.to_string()).unwrap_or_default();
        assert!(error.ends_with("their index takes more than 32 MiB"), "{kind}: {error}");
    }
    // As it was written when larger ones were accepted.
    let mut old = Index::default();
    for kind in ["schema", "long package"] {
        old.memory = Memory::default();
        assert!(push(&mut old, kind, 20_000).is_none());
    }
    assert!(Index::from_bytes(&old.to_bytes()).is_ok());
    old.memory = Memory::default();
    assert!(push(&mut old, "name", 200_000).is_none());
    assert!(Index::from_bytes(&old.to_bytes()).is_err());
}

#[test]
fn a_run_ends_where_schema_or_package_become_others() {
    let index = index(&[
        ("a", "p", "1"),
        ("a", "p", "2"),
        ("b", "p", "3"),
        ("b", "q", "4"),
        ("", "q", "5"),
        ("", "", "6"),
        ("b", "", "7"),
        ("b", "", "8"),
    ]);
    assert_eq!(index.runs(), [0..20, 20..30, 30..40, 40..50, 50..60, 60..80]);
    assert_eq!(index.schemas().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(index.lines("b").collect::<Vec<_>>(), [20..30, 30..40, 60..70, 70..80]);
    assert_eq!(index.lines("none").len(), 0);
    assert!(Index::default().runs().is_empty());
}

#[test]
fn an_empty_catalog_has_no_ranges() {
    assert!(Index::default().find(&Query::default()).is_empty());
}

#[test]
fn a_damaged_index_is_refused() {
    let mut stored = index(&[("a", "b", "c"), ("a", "", "d")]);
    stored.push_record("b", 7).unwrap();
    let bytes = stored.to_bytes();
    assert_eq!(Index::from_bytes(&bytes).unwrap(), stored);
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        assert!(Index::from_bytes(&damaged).is_err(), "byte {at}");
        assert!(Index::from_bytes(&bytes[..at]).is_err(), "cut at {at}");
    }
}

proptest! {
    #[test]
    fn a_query_finds_what_a_filter_finds(
        lines in prop::collection::vec((0_usize..3, 0_usize..3, 0_usize..3, 1_usize..9), 0..30),
        asked in (0_usize..3, 0_usize..3, 0_usize..3),
    ) {
        let values = ["", "a", "b"];
        let mut index = Index::default();
        let mut expected = Vec::new();
        let mut position = 0_u64;
        for &(schema, package, name, length) in &lines {
            index.push_line(&envelope(values[schema], values[package], values[name]), length).unwrap();
            let end = position + length as u64;
            let fits = |asked: usize, own: usize| asked == 0 || asked == own;
            let all = asked == (0, 0, 0);
            if all || (schema != 0 && fits(asked.0, schema) && fits(asked.1, package) && fits(asked.2, name)) {
                expected.extend(position..end);
            }
            position = end;
        }
        let stored = Index::from_bytes(&index.to_bytes()).unwrap();
        let found: Vec<u64> =
            stored.find(&query(values[asked.0], values[asked.1], values[asked.2])).into_iter().flatten().collect();
        prop_assert_eq!(found, expected);
    }
}
