use std::io::Read;

use super::MetaReader;
use crate::{FbcError, PackageContent, WindowReader};

fn lines(input: impl Read) -> Result<Vec<String>, FbcError> {
    let mut reader = MetaReader::new(input);
    let mut lines = Vec::new();
    while let Some(meta) = reader.next_meta()? {
        lines.push(String::from_utf8(meta.line.to_vec()).unwrap());
    }
    Ok(lines)
}

/// Hands out one byte at a time.
struct Trickle<'a>(&'a [u8]);

impl Read for Trickle<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = buffer.len().min(1);
        self.0.read(&mut buffer[..count])
    }
}

#[test]
fn streams_are_read_as_the_original_reads_them() {
    let cases: &[(&str, &[&str])] = &[
        ("", &[]),
        (" \n", &[]),
        ("{\"a\":1}{\"b\":2}", &["{\"a\":1}", "{\"b\":2}"]),
        ("\n {\"a\":1}\n\n\t{\"b\":2}\n", &["{\"a\":1}", "{\"b\":2}"]),
        ("{\"a\":1,}", &["{\"a\":1}"]),
        ("{\"a\":1}\n---\nb: 2\n", &["{\"a\":1}", "{\"b\":2}"]),
        ("a: 1\n---\nb: 2\n", &["{\"a\":1}", "{\"b\":2}"]),
        ("---\na: 1\n---\n", &["{\"a\":1}"]),
        ("---\n---\na: 1", &["{\"a\":1}"]),
        ("---   # ok\na: 1\n--- # ok", &["{\"a\":1}"]),
        ("a: 1\n---\n# nothing\n---\nnull\n---\nb: 1\n", &["{\"a\":1}", "{\"b\":1}"]),
        ("a: 1\r\n---\r\nb: 2\r\n", &["{\"a\":1}", "{\"b\":2}"]),
        ("\u{feff}a: 1\n", &["{\"a\":1}"]),
        ("a: 1\n...\n", &["{\"a\":1}"]),
        ("b: &x {d: 1.0}\na: *x\n", &["{\"a\":{\"d\":1},\"b\":{\"d\":1}}"]),
        ("a: yes\non: 010\n", &["{\"a\":true,\"true\":8}"]),
        ("a: 1\na: 2\n", &["{\"a\":2}"]),
        ("b: &x {d: 1}\na:\n  <<: *x\n  e: 2\n", &["{\"a\":{\"d\":1,\"e\":2},\"b\":{\"d\":1}}"]),
        ("a: [yes, on, n, no, off, Y]\n", &["{\"a\":[true,true,false,false,false,true]}"]),
        ("yes: x\n", &["{\"true\":\"x\"}"]),
        ("a: [0x1F, 1e3, 2001-12-14, 1.5]\n", &["{\"a\":[31,1000,\"2001-12-14\",1.5]}"]),
        ("Schema: a\nNested: {Name: b}\n", &["{\"Nested\":{\"Name\":\"b\"},\"Schema\":\"a\"}"]),
        ("{a: 1}\n---\n{b: 2}\n", &["{\"a\":1}", "{\"b\":2}"]),
        ("a: \"<&>\"\nb: 12345678901234567890\n", &["{\"a\":\"<&>\",\"b\":12345678901234567000}"]),
        ("a: |\n  x\n  --- y\n", &["{\"a\":\"x\\n--- y\\n\"}"]),
    ];
    for (input, expected) in cases {
        assert_eq!(lines(input.as_bytes()).unwrap(), *expected, "{input:?}");
        assert_eq!(lines(Trickle(input.as_bytes())).unwrap(), *expected, "{input:?} byte by byte");
    }
}

#[test]
fn what_is_no_catalog_is_refused_without_being_quoted() {
    for (input, expected) in [
        ("{\"secret\":1", "unexpected EOF: the document that begins at line 1 is not complete"),
        (
            "{\"a\":\n1}\n{\"b\":2}\n\n {\"secret\":\n1",
            "unexpected EOF: the document that begins at line 5 is not complete",
        ),
        ("{\"a\":1}{\"b\":2}secret", "json: offset 14: document is not an object"),
        ("{\"a\":1}{\"b\":2}{\"secret\"}", "json: offset 23: a colon is expected"),
        ("[1]", "document at offset 0 is not an object"),
        ("secret", "document at offset 0 is not an object"),
        ("--- secret\n", "invalid Yaml document separator at line 1"),
        ("a: 1\n---\nb: 1\n--- {secret: 1}", "invalid Yaml document separator at line 4"),
        ("schema: 1\n", "expected value for key \"schema\" to be a string"),
        ("name: 1.10\n", "expected value for key \"name\" to be a string"),
        ("{\"package\":null}", "expected value for key \"package\" to be a string"),
        (
            "{\"schema\":\"a\",\"Schema\":\"b\"}",
            "document at offset 0 has duplicate keys that differ only in case",
        ),
        (
            "{\"\u{17f}chema\":\"a\",\"schema\":\"b\"}",
            "document at offset 0 has duplicate keys that differ only in case",
        ),
    ] {
        assert_eq!(lines(input.as_bytes()).unwrap_err().to_string(), expected, "{input:?}");
    }
    for input in ["%YAML 1.2\n---\na: 1\n", "a: *unknown\n", "a: b: c\n"] {
        let error = lines(input.as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with("error converting YAML to JSON: yaml: line "), "{input:?}: {error}");
    }
    let binary = lines(&b"\x00\xff\xfe"[..]).unwrap_err().to_string();
    assert!(binary.starts_with("error converting YAML to JSON: yaml: line 1:"), "{binary}");
    let broken = lines(&b"a: 1\n---\nb: [\n"[..]).unwrap_err().to_string();
    assert!(broken.starts_with("error converting YAML to JSON: yaml: line "), "{broken}");
}

#[test]
fn a_document_over_the_limit_is_refused_and_a_large_one_grows_the_window() {
    let large = format!("{{\"a\":\"{}\"}}{{\"b\":1}}", "x".repeat(3 << 20));
    assert_eq!(lines(large.as_bytes()).unwrap().len(), 2);
    let mut reader = MetaReader::over(WindowReader::new(large.as_bytes()).with_document_bytes_max(1 << 20));
    let error = reader.next_meta().unwrap_err();
    assert_eq!(error.to_string(), "document at offset 0 has more than 1048576 bytes");
}

#[test]
fn a_line_may_have_megabytes() {
    let long = "x".repeat(6 << 20);
    assert_eq!(lines(format!("a: {long}\n").as_bytes()).unwrap(), [format!("{{\"a\":\"{long}\"}}")]);
}

#[test]
fn envelopes_are_found_whatever_the_case_of_their_keys() {
    let mut reader = MetaReader::new(&br#"{"Schema":"olm.bundle","NAME":"a\"b","package":"p"}"#[..]);
    let meta = reader.next_meta().unwrap().unwrap();
    let envelope = &meta.envelope;
    assert_eq!((envelope.schema.as_ref(), envelope.package.as_ref()), ("olm.bundle", "p"));
    assert_eq!(envelope.name, "a\"b");
    assert_eq!(meta.line, br#"{"NAME":"a\"b","Schema":"olm.bundle","package":"p"}"#);
}

fn record(document: &str) -> Option<String> {
    let mut reader = MetaReader::new(document.as_bytes());
    let mut record = Vec::new();
    let needed = reader.next_meta().unwrap().unwrap().write_record(&mut record);
    needed.then(|| String::from_utf8(record).unwrap())
}

#[test]
fn records_keep_what_resolution_needs() {
    for (document, expected) in [
        (
            r#"{"schema":"olm.bundle","name":"b.v1","package":"b","image":"i","relatedImages":[1],"properties":[
                {"type":"olm.package","value":{"version":"1.0.0","packageName":"b"}},
                {"value":{"big":1},"type":"olm.csv.metadata"},{"type":"olm.bundle.object","value":{}},
                {"type":"other","value":[1]}]}"#,
            r#"{"image":"i","name":"b.v1","package":"b","properties":[{"type":"olm.package","value":{"packageName":"b","version":"1.0.0"}},{"type":"other","value":[1]}],"schema":"olm.bundle"}"#,
        ),
        (
            r#"{"schema":"olm.bundle","name":"n","package":"b","properties":[{"type":"olm.csv.metadata"}]}"#,
            r#"{"name":"n","package":"b","properties":[],"schema":"olm.bundle"}"#,
        ),
        (
            r#"{"schema":"olm.bundle","package":"b","properties":[{"type":"olm.csv.metadata"}],"properties":7}"#,
            r#"{"package":"b","properties":7,"schema":"olm.bundle"}"#,
        ),
        (
            r#"{"Schema":"olm.package","Name":"b","icon":{"base64data":"x"},"defaultChannel":"c"}"#,
            r#"{"defaultChannel":"c","name":"b","schema":"olm.package"}"#,
        ),
        (
            r#"{"schema":"olm.channel","name":"c","package":"b","entries":[{"name":"x","extra":1}],"x":1}"#,
            r#"{"entries":[{"extra":1,"name":"x"}],"name":"c","package":"b","schema":"olm.channel"}"#,
        ),
        (
            r#"{"schema":"olm.deprecations","package":"b","entries":[]}"#,
            r#"{"entries":[],"package":"b","schema":"olm.deprecations"}"#,
        ),
    ] {
        let record = record(document).unwrap();
        assert_eq!(record, format!("{expected}\n"), "{document}");
    }
    assert_eq!(record(r#"{"schema":"custom","package":"b"}"#), None);
    assert_eq!(record(r#"{"schema":"olm.bundle","name":"b"}"#), None);
}

#[test]
fn a_record_reads_as_the_document_does() {
    let document = r#"{"schema":"olm.bundle","name":"b.v1","package":"b","image":"i","properties":[
        {"type":"olm.package","value":{"packageName":"b","version":"1.0.0"}}]}"#;
    let (mut whole, mut cut) = (PackageContent::default(), PackageContent::default());
    whole.push_json(document.as_bytes()).unwrap();
    cut.push_json(record(document).unwrap().as_bytes()).unwrap();
    assert_eq!(whole, cut);
}
