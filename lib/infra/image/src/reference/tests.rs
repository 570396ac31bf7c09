use super::{CanonicalReference, Reference, image_syntax};

const HEX: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

#[test]
fn references_that_parse_come_back_as_written() {
    let long_tag = "x".repeat(127);
    for text in [
        "quay.io/operatorhubio/catalog:latest".to_owned(),
        format!("quay.io/operatorhubio/catalog@sha256:{HEX}"),
        "localhost:5000/foo:v1".to_owned(),
        "localhost/foo:v1".to_owned(),
        "QUAY.IO/foo/bar:v1".to_owned(),
        "quay.io/foo/bar:x-".to_owned(),
        format!("quay.io/x/y:tag@sha256:{HEX}"),
        format!("quay.io/foo/bar:{long_tag}"),
        "docker.io/library/busybox:latest".to_owned(),
        "quay.io/a__b/c--d/e.f_g".to_owned(),
        "[::1]:5000/foo:v1".to_owned(),
    ] {
        assert_eq!(Reference::parse(&text).map(|r| r.to_string()), Ok(text));
    }
}

#[test]
fn references_that_do_not_parse_say_why_in_upstreams_words() {
    let too_long = format!("quay.io/{}:v1", "a".repeat(250));
    let upper_hex = HEX.to_uppercase();
    let table = [
        ("library/busybox:latest".to_owned(), "repository name must be canonical"),
        ("busybox:latest".to_owned(), "repository name must be canonical"),
        ("docker.io/busybox:latest".to_owned(), "repository name must be canonical"),
        ("index.docker.io/library/busybox:1".to_owned(), "repository name must be canonical"),
        ("quay.io/Foo/bar:v1".to_owned(), "invalid reference format: repository name must be lowercase"),
        ("quay.io/foo/Bar:v1".to_owned(), "invalid reference format: repository name must be lowercase"),
        ("docker://quay.io/foo/bar:v1".to_owned(), "invalid reference format"),
        ("https://quay.io/foo/bar:v1".to_owned(), "invalid reference format"),
        ("quay.io//foo:v1".to_owned(), "invalid reference format"),
        ("quay.io/foo bar:v1".to_owned(), "invalid reference format"),
        ("quay.io/foo/bar:a:b".to_owned(), "invalid reference format"),
        ("quay.io/foo/bar@sha256:abc".to_owned(), "invalid reference format"),
        (String::new(), "invalid reference format"),
        ("quay.io/".to_owned(), "invalid reference format"),
        (format!("quay.io/foo/bar:{}", "x".repeat(129)), "invalid reference format"),
        (format!("quay.io/foo/bar@md5:{}", &HEX[..32]), "unsupported digest algorithm"),
        (format!("quay.io/foo/bar@sha512:{HEX}"), "invalid checksum digest length"),
        (format!("quay.io/foo/bar@sha256:{upper_hex}"), "invalid checksum digest format"),
        (too_long, "repository name must not be more than 255 characters"),
        (
            HEX.to_owned(),
            &format!("invalid repository name ({HEX}), cannot specify 64-byte hexadecimal strings"),
        ),
    ];
    for (text, cause) in table {
        let error = Reference::parse(&text).expect_err(&text);
        assert_eq!(error.to_string(), format!("error parsing image reference \"{text}\": {cause}"));
    }
}

#[test]
fn parts_are_those_written() {
    let reference = Reference::parse("localhost:5000/ns/foo:v1").expect("parses");
    assert_eq!(reference.repository().domain(), "localhost:5000");
    assert_eq!(reference.repository().path(), "ns/foo");
    assert_eq!(reference.tag(), Some("v1"));
    assert_eq!(reference.digest(), None);
}

#[test]
fn a_canonical_reference_has_a_digest_and_no_tag() {
    let text = format!("quay.io/x/y@sha256:{HEX}");
    assert_eq!(CanonicalReference::parse(&text).map(|r| r.to_string()), Ok(text));
    for text in [format!("quay.io/x/y:v1@sha256:{HEX}"), "quay.io/x/y:v1".to_owned()] {
        let error = CanonicalReference::parse(&text).expect_err(&text);
        assert!(error.to_string().ends_with("repository name must be canonical"), "{error}");
    }
}

#[test]
fn control_characters_of_a_reference_are_escaped_in_its_error() {
    let error = Reference::parse("quay.io/a\"\u{1b}[2J\n").expect_err("invalid");
    assert_eq!(
        error.to_string(),
        r#"error parsing image reference "quay.io/a\"\x1b[2J\n": invalid reference format: repository name must be lowercase"#
    );
}

proptest::proptest! {
    #[test]
    fn what_parses_is_printed_as_it_was_written(text in "[a-zA-Z0-9.:/@_-]{0,80}") {
        if let Ok(reference) = Reference::parse(&text) {
            proptest::prop_assert_eq!(reference.to_string(), text);
        }
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in "\\PC{0,60}") {
        let _ = Reference::parse(&text).map_err(|error| error.to_string());
    }
}

#[test]
fn image_references_are_read_as_container_tools_do() {
    for text in ["quay.io/a/b:1", "busybox", "a/b", "LOCALHOST:5000/x", "Quay.io/x", "docker.io/library/x"] {
        assert_eq!(image_syntax(text), Ok(()), "{text}");
    }
    let digest = format!("quay.io/a@sha256:{}", "a".repeat(64));
    assert_eq!(image_syntax(&digest), Ok(()));
    let identifier = "a".repeat(64);
    for (text, expected) in [
        ("docker://quay.io/a", "invalid reference format".to_owned()),
        ("quay.io/A", "invalid reference format: repository name must be lowercase".to_owned()),
        ("quay.io/a:", "invalid reference format".to_owned()),
        ("quay.io/a@sha256:1", "invalid reference format".to_owned()),
        (" ", "invalid reference format".to_owned()),
        (
            &identifier,
            format!("invalid repository name ({identifier}), cannot specify 64-byte hexadecimal strings"),
        ),
    ] {
        assert_eq!(image_syntax(text), Err(expected), "{text}");
    }
}
