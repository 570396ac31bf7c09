//! What is read here is what the full parser reads.

use proptest::prelude::*;

use super::read;
use crate::{Limits, RepairBudget, loader::parsed};

/// `true` if the text was read here. It must be read as the full parser reads it.
fn agrees(text: &str) -> bool {
    let limits = Limits::default();
    let Some(ours) = read(text, &limits) else { return false };
    match parsed(text, &limits, &RepairBudget::default()) {
        Ok(theirs) => assert_eq!(ours, theirs, "{text:?}"),
        // The full parser is stricter than Kubernetes' where tabs indent what is quoted.
        Err(error) if text.contains('\t') && error.to_string().contains("tab") => {}
        Err(error) => panic!("{text:?} is read as {ours}, but: {error}"),
    }
    true
}

#[test]
fn what_tools_write_is_read_here() {
    for text in [
        "a: 1\n",
        "---\na: 1\nb:\n- x\n- y: 1\n  z: 2\n-\n- - p\n  - q\nc: {}\nd: []\n",
        "# head\na: # none\n\n  b: yes # said\n  'c': \"d\"\n  \"y\": it's\n# foot\n",
        "a: one\n  two\n\n  three\n  - no list\nb: 0644\nc: 1e3\nd: ~\ne:\nf: 12:30\n",
        "a: |\n  one\n   two\n\n  three\nb: |-\n  x\n\n\nc: |+\n  y\n\nd: >\n  one\n  two\n\n  three\n    more\n  four\ne: >-\n  x\n",
        "a: 'one\n  two\n\n  it''s'\nb: \"one\n  two\\nthree \\\" \\\\ \"\n",
        "a: x#y\nb: x # y\nc: http://x/y\nd: -1\ne: -x\nf: ?x\ng: :x\n",
        "- a\n- |\n  b\n- 'c'\n-   d: 1\n    e: 2\n",
        "a:\n  - 1\n  -\n    b: 2\n  # c\n  - 3\nz: 1\n",
        "é: 1\na: ünï\n".trim_start_matches("é: 1\n"),
        "a: 1\na: 2\n",
        "y: 1\n1: 2\n",
        "a: b",
        "a: \"x\\ty \\u00e9 \\\n  \\  z \\n\n  w\"\nb: 'one\ntwo\n three'\n",
        "a: |\n\n  x\n  \t y\n",
    ] {
        assert!(agrees(text), "{text:?} is not read here");
    }
}

#[test]
fn what_is_doubtful_is_left_to_the_full_parser() {
    for text in [
        "",
        "# nothing\n",
        "just text\n",
        "a: &x 1\nb: *x\n",
        "a: !!str 1\n",
        "a: [1]\n",
        "{a: 1}\n",
        "? a\n: b\n",
        "<<: {}\n",
        "a: \"x\\ay\"\n",
        "a:\t1\n",
        "a: b: c\n",
        "a: b\n c\n  d: e\n",
        "a: 1\n b: 2\n",
        "a: |2\n   x\n",
        "a: 'x\n",
        "a: 'x' y\n",
        "a: 1\n---\nb: 2\n",
        "a: 1\n...\n",
        "%YAML 1.1\n---\na: 1\n",
        "a: @x\n",
        "null: 1\n",
        "a: .inf\n",
        "a: x\u{85}y\n",
        "a: x\r\n",
        "a: x\n  # c\n  y\n",
        "a: |\n  x",
        "a: |\n    \n  x\n",
        "- a\nb: 1\n",
        "a:\n- b\n c: 1\n",
        "a: - b\n",
        "a: 'x\n---\n  y'\n",
    ] {
        assert!(!agrees(text), "{text:?} is read here");
    }
}

#[test]
fn limits_are_for_the_full_parser() {
    let text = "a:\n- b\n- c: d\n";
    let limits = Limits::default();
    assert!(read(text, &limits).is_some());
    for small in
        [Limits { depth: 2, ..limits }, Limits { nodes: 5, ..limits }, Limits { expanded_bytes: 3, ..limits }]
    {
        assert_eq!(read(text, &small), None);
        assert!(parsed(text, &small, &RepairBudget::default()).is_err());
    }
    // Both count the same.
    let nodes = (1..20)
        .find(|nodes| parsed(text, &Limits { nodes: *nodes, ..limits }, &RepairBudget::default()).is_ok())
        .unwrap();
    assert!(read(text, &Limits { nodes, ..limits }).is_some());
    assert!(read(text, &Limits { nodes: nodes - 1, ..limits }).is_none());
    let deep = (0..120).fold(String::new(), |text, level| text + &" ".repeat(level) + "a:\n");
    assert_eq!(read(&deep, &limits), None);
}

/// Texts of the pieces that documents have, put together without sense.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(
        &[
            "a",
            "b: ",
            "c:",
            "\n",
            "\n",
            "\n",
            "\n  ",
            "\n  ",
            "\n    ",
            "\n ",
            "- ",
            "-",
            "- - ",
            "|",
            "|-\n",
            ">\n",
            ">-",
            "|+\n  ",
            "'",
            "''",
            "\"",
            "\\\"",
            "\\n",
            "\\\\",
            "#",
            " # c",
            "# x\n",
            ": ",
            ":",
            "yes",
            "0644",
            "1e3",
            "~",
            "null",
            "{}",
            "[]",
            " ",
            "  ",
            "text more",
            "it's",
            "x:y",
            "a: b\n",
            "  c: d\n",
            "- e\n",
            "é",
            "-x",
            "?x",
            "---\n",
            "...",
            "key: |\n  text\n   more\n\n  end\n",
            "k: 'one\n  two'\n",
            "k: \"one\n\n  two\"\n",
            "k: one\n  two\n",
            "\t",
            "1",
            "-1",
            ".5",
            "12:30",
            "2020-01-01",
            "\"y\": ",
            "'n': ",
        ][..],
    );
    prop::collection::vec(piece, 0..14).prop_map(|pieces| pieces.concat())
}

/// Documents that are mostly well-formed.
fn documents() -> impl Strategy<Value = String> {
    let scalar = prop::sample::select(
        &[
            "x",
            "\"q\"",
            "'s'",
            "'it''s'",
            "yes",
            "12",
            "~",
            "one two",
            "{}",
            "[]",
            "|\n$  l1\n$   l2\n\n$  l3",
            ">-\n$  f1\n$  f2\n\n$  f3\n$    m",
            "p1\n$  p2",
            "'a\n$  b\n\n$  c'",
            "\"a\n$  b \\\" \\n c\"",
            "\"a\\\n$  \\  b \\n\n\n$ c\"",
            "'a\n$b'",
            "|+\n$  k\n\n",
            "# c",
            "",
            "-1",
            "a#b",
            "a:b",
            "x # c",
        ][..],
    )
    .prop_map(str::to_owned);
    let entry = |inner: BoxedStrategy<String>| {
        prop::collection::vec(
            (prop::sample::select(&["a", "b", "\"c\"", "1", "y", "a.b/c-d"][..]), inner),
            1..4,
        )
    };
    let leaf = entry(scalar.clone().boxed()).prop_map(|entries| {
        entries.into_iter().fold(String::new(), |text, (key, value)| text + &format!("${key}: {value}\n"))
    });
    leaf.prop_recursive(4, 24, 3, move |inner| {
        let scalar = scalar.clone();
        prop_oneof![
            prop::collection::vec(inner.clone(), 1..3).prop_map(|blocks| {
                blocks.into_iter().enumerate().fold(String::new(), |text, (at, block)| {
                    text + &format!("$k{at}:\n{}", block.replace('$', "$  "))
                })
            }),
            prop::collection::vec(inner, 1..3).prop_map(|blocks| {
                let entries =
                    blocks.into_iter().map(|block| block.replace('$', "$  ").replacen("$  ", "$- ", 1));
                entries.collect::<String>()
            }),
            prop::collection::vec(scalar, 1..4).prop_map(|items| {
                items.into_iter().fold(String::new(), |text, item| text + &format!("$- {item}\n"))
            }),
        ]
    })
    .prop_map(|text| text.replace('$', ""))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn senseless_texts_are_read_alike(text in pieces()) {
        agrees(&text);
    }

    #[test]
    fn documents_are_read_alike(text in documents()) {
        agrees(&text);
    }

    #[test]
    fn documents_with_a_change_are_read_alike(text in documents(), at in any::<prop::sample::Index>(), new in pieces()) {
        let mut text = text;
        let mut at = at.index(text.len().max(1));
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        text.insert_str(at, &new);
        agrees(&text);
    }
}
