use std::path::Path;

use super::{Config, candidates};
use crate::Reference;

fn config(text: &str) -> Config {
    Config::parse(Path::new("/etc/containers/registries.conf"), text).expect("a valid configuration")
}

/// `host/repository`, with `!` in front of insecure ones, in the order tried.
fn places(reference: &str, by_digest: bool, text: &str) -> Vec<String> {
    let reference = Reference::parse(reference).expect("a valid reference");
    candidates(reference.repository(), by_digest, &config(text))
        .expect("candidates")
        .into_iter()
        .map(|e| format!("{}{}/{}", if e.insecure { "!" } else { "" }, e.host, e.repository))
        .collect()
}

#[test]
fn without_configuration_the_registry_itself_is_used() {
    assert_eq!(places("quay.io/a/b:v1", false, ""), ["quay.io/a/b"]);
}

#[test]
fn mirrors_come_first_and_keep_the_rest_of_the_path() {
    let text = r#"
        unqualified-search-registries = ["docker.io"]
        [[registry]]
        prefix = "quay.io/a"
        location = "relocated.example.com:5000/x/"
        [[registry.mirror]]
        location = "mirror.example.com/proxy/quay"
        insecure = true
        [[registry.mirror]]
        location = "second.example.com"
    "#;
    assert_eq!(
        places("quay.io/a/b/c:v1", false, text),
        ["!mirror.example.com/proxy/quay/b/c", "second.example.com/b/c", "relocated.example.com:5000/x/b/c"]
    );
    assert_eq!(places("quay.io/ab/c:v1", false, text), ["quay.io/ab/c"]);
}

#[test]
fn the_longest_prefix_counts() {
    let text = r#"
        [[registry]]
        location = "quay.io"
        insecure = true
        [[registry]]
        prefix = "quay.io/a/b"
        location = "one.example.com/b"
        [[registry]]
        prefix = "quay.io/a"
        location = "two.example.com"
    "#;
    assert_eq!(places("quay.io/a/b:v1", false, text), ["one.example.com/b"]);
    assert_eq!(places("quay.io/a/c:v1", false, text), ["two.example.com/c"]);
    assert_eq!(places("quay.io/z:v1", false, text), ["!quay.io/z"]);
}

#[test]
fn a_wildcard_prefix_stands_for_subdomains() {
    let text = "[[registry]]\nprefix = \"*.example.com\"\ninsecure = true\n";
    assert_eq!(places("a.b.example.com/x:v1", false, text), ["!a.b.example.com/x"]);
    assert_eq!(places("a.example.com:5000/x:v1", false, text), ["!a.example.com:5000/x"]);
    assert_eq!(places("example.com/x:v1", false, text), ["example.com/x"]);
    assert_eq!(places("a.example.community/x:v1", false, text), ["a.example.community/x"]);
    assert_eq!(places("quay.io/a.example.com:v1", false, text), ["quay.io/a.example.com"]);
}

#[test]
fn mirrors_can_be_for_digests_or_tags_only() {
    let by_digest = r#"
        [[registry]]
        location = "quay.io"
        mirror-by-digest-only = true
        [[registry.mirror]]
        location = "m.example.com"
    "#;
    assert_eq!(places("quay.io/a:v1", false, by_digest), ["quay.io/a"]);
    assert_eq!(places("quay.io/a:v1", true, by_digest), ["m.example.com/a", "quay.io/a"]);
    let each = r#"
        [[registry]]
        location = "quay.io"
        [[registry.mirror]]
        location = "d.example.com"
        pull-from-mirror = "digest-only"
        [[registry.mirror]]
        location = "t.example.com"
        pull-from-mirror = "tag-only"
    "#;
    assert_eq!(places("quay.io/a:v1", false, each), ["t.example.com/a", "quay.io/a"]);
    assert_eq!(places("quay.io/a:v1", true, each), ["d.example.com/a", "quay.io/a"]);
}

#[test]
fn a_blocked_registry_is_refused_by_name() {
    let config = config("[[registry]]\nlocation = \"quay.io/bad\"\nblocked = true\n");
    let reference = Reference::parse("quay.io/bad/x:v1").expect("parses");
    let error = candidates(reference.repository(), false, &config).expect_err("blocked");
    assert_eq!(error.to_string(), "registry quay.io/bad is blocked in /etc/containers/registries.conf");
}

#[test]
fn contradictions_are_refused() {
    for (text, cause) in [
        ("[registries.search]\nregistries = []\n", "version 1 of the format"),
        ("[[registry]]\nblocked = true\n", "neither prefix nor location"),
        ("[[registry]]\nprefix = \"quay.io\"\n", "location is unset"),
        ("[[registry]]\nlocation = \"https://quay.io\"\n", "has a scheme"),
        ("[[registry]]\nprefix = \"*.*.io\"\n", "one wildcard"),
        ("[[registry]]\nlocation = \"quay.io\"\n[[registry.mirror]]\n", "has no location"),
        (
            "[[registry]]\nlocation = \"q.io\"\nmirror-by-digest-only = true\n[[registry.mirror]]\n\
             location = \"m\"\npull-from-mirror = \"all\"\n",
            "cannot both be set",
        ),
        ("[[registry]]\nlocation = 3\n", "invalid type"),
        ("[[registry]]\nlocation = \"quay io\"\n", "does not begin with a host"),
        ("[[registry]]\nlocation = \"quay.io/a b\"\n", "does not begin with a host"),
        ("[[registry]]\nlocation = \"quay.io/A?x\"\n", "does not begin with a host"),
        ("[[registry]]\nlocation = \"quay.io/a@b\"\n", "is not of the form host[:port]"),
        ("[[registry]]\nprefix = \"*.\"\n", "one wildcard"),
    ] {
        let error = Config::parse(Path::new("/r.conf"), text).expect_err(text).to_string();
        assert!(error.starts_with("loading registries configuration /r.conf: "), "{error}");
        assert!(error.contains(cause), "{error}");
    }
}

#[test]
fn files_of_the_folder_beside_replace_entries_in_the_order_of_their_names() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("registries.conf");
    let reference = Reference::parse("quay.io/a:v1").expect("parses");
    let hosts = || {
        let config = Config::load(&path).expect("loads");
        let endpoints = candidates(reference.repository(), false, &config).expect("candidates");
        endpoints.into_iter().map(|e| e.host).collect::<Vec<_>>()
    };
    assert_eq!(hosts(), ["quay.io"]);
    let entry = |location: &str| format!("[[registry]]\nprefix = \"quay.io\"\nlocation = \"{location}\"\n");
    std::fs::write(&path, entry("main.example.com")).expect("written");
    assert_eq!(hosts(), ["main.example.com"]);
    let beside = folder.path().join("registries.conf.d");
    std::fs::create_dir(&beside).expect("made");
    std::fs::write(beside.join("20-b.conf"), entry("late.example.com")).expect("written");
    std::fs::write(beside.join("10-a.conf"), entry("early.example.com")).expect("written");
    std::fs::write(beside.join("99.disabled"), entry("never.example.com")).expect("written");
    assert_eq!(hosts(), ["late.example.com"]);
}
