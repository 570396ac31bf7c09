//! `olm catalog init`, `dockerfile` and `list`

use std::fs;

use super::sample::{catalog, fails, olm_in, prints, read, sample, write};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

#[test]
fn init_prints_a_package_with_description_and_icon() {
    let root = folder();
    write(root.path(), "README.md", "# Title\n");
    write(root.path(), "icon.svg", "<svg/>");
    let arguments = ["catalog", "init", "p", "-c", "stable", "-d", "README.md", "-i", "icon.svg"];
    assert_eq!(
        prints(root.path(), &arguments),
        r##"{
    "schema": "olm.package",
    "name": "p",
    "defaultChannel": "stable",
    "icon": {
        "base64data": "PHN2Zy8+",
        "mediatype": "image/svg+xml"
    },
    "description": "# Title\n"
}
"##
    );
    assert_eq!(
        prints(root.path(), &["catalog", "init", "p", "-o", "yaml"]),
        "---\ndefaultChannel: \"\"\nname: p\nschema: olm.package\n"
    );
    let warned =
        String::from_utf8(olm_in(root.path(), &["catalog", "init", "Foo_Bar"]).stderr).expect("text");
    assert!(warned.contains("cannot ask for a package of this name"), "{warned}");
    assert!(warned.contains("no default channel, without which olm catalog validate rejects it"), "{warned}");
    let fine = olm_in(root.path(), &["catalog", "init", "p", "-c", "stable"]);
    assert!(fine.stderr.is_empty(), "{fine:?}");
    let (_, error) = fails(root.path(), 1, &["catalog", "init", "p", "-i", "README.md"]);
    assert_eq!(
        error,
        "error: README.md: detected invalid type \"text/plain; charset=utf-8\": not an image\n"
    );
}

#[test]
fn dockerfile_is_written_beside_the_folder_and_never_over_another() {
    let root = folder();
    fs::create_dir(root.path().join("my-catalog")).expect("made");
    let out = prints(root.path(), &["catalog", "dockerfile", "my-catalog", "-l", "b=\"$x\"", "-l", "a=1=2"]);
    assert_eq!(out, "my-catalog.Dockerfile\n");
    let expected = "# A catalog for OLM v1, which reads the files and nothing else.\nFROM scratch\n\nADD my-catalog /configs\n\
        \n# Where in the image the catalog is\nLABEL operators.operatorframework.io.index.configs.v1=/configs\n\n# Further \
        labels\nLABEL \"a\"=\"1=2\"\nLABEL \"b\"=\"\\\"\\$x\\\"\"\n";
    assert_eq!(read(root.path(), "my-catalog.Dockerfile"), expected);
    let (_, error) = fails(root.path(), 1, &["catalog", "dockerfile", "my-catalog/"]);
    assert_eq!(error, "error: path \"my-catalog.Dockerfile\": file already exists\n");
    assert_eq!(read(root.path(), "my-catalog.Dockerfile"), expected);
}

#[test]
fn dockerfile_can_be_for_olm_classic_as_well() {
    let root = folder();
    fs::create_dir(root.path().join("c")).expect("made");
    let arguments = ["catalog", "dockerfile", "c", "-i", "example.com/opm:1"];
    prints(root.path(), &arguments);
    let expected = "FROM quay.io/operator-framework/opm:latest AS builder\n\
        ADD c /configs\n\
        RUN [\"/bin/opm\", \"serve\", \"/configs\", \"--cache-dir=/tmp/cache\", \"--cache-only\"]\n\
        FROM example.com/opm:1\n\
        ENTRYPOINT [\"/bin/opm\"]\n\
        CMD [\"serve\", \"/configs\", \"--cache-dir=/tmp/cache\"]\n\
        COPY --from=builder /configs /configs\n\
        COPY --from=builder /tmp/cache /tmp/cache\n\
        LABEL operators.operatorframework.io.index.configs.v1=/configs\n";
    assert_eq!(instructions(&read(root.path(), "c.Dockerfile")), expected);
    fs::remove_file(root.path().join("c.Dockerfile")).expect("removed");
    prints(root.path(), &["catalog", "dockerfile", "c", "-i", "scratch", "-b", "example.com/opm:2"]);
    let text = read(root.path(), "c.Dockerfile");
    assert!(!text.contains("ENTRYPOINT") && text.contains("FROM example.com/opm:2 AS builder"), "{text}");
    assert!(text.contains("extractContent: {catalogDir: /configs, cacheDir: /tmp/cache}"), "{text}");
}

/// A Dockerfile without comments and empty lines.
fn instructions(text: &str) -> String {
    text.split_inclusive('\n').filter(|line| *line != "\n" && !line.starts_with('#')).collect()
}

#[test]
fn dockerfile_refuses_what_would_not_build() {
    let root = folder();
    fs::create_dir_all(root.path().join("a b")).expect("made");
    write(root.path(), "file", "");
    for (arguments, expected) in [
        (&["missing"][..], "provided root path \"missing\" is not a directory"),
        (&["file"], "provided root path \"file\" is not a directory"),
        (&["a b", "-l", "novalue"], "invalid label \"novalue\""),
        (&["a b", "-l", "a=b\nRUN x"], "invalid label \"a=b\\nRUN x\""),
        (&["a b", "-i", "x", "-b", "scratch"], "invalid builder image: \"scratch\""),
        (&["a b", "-i", "x\nRUN y"], "invalid image \"x\\nRUN y\""),
    ] {
        let (_, error) = fails(root.path(), 1, &[&["catalog", "dockerfile"], arguments].concat());
        assert!(error.contains(expected), "{error}");
    }
    prints(root.path(), &["catalog", "dockerfile", "a b"]);
    assert!(read(root.path(), "a b.Dockerfile").contains("ADD [\"a b\", \"/configs\"]\n"));
}

#[test]
fn lists_are_tables_of_what_people_choose_by() {
    let root = folder();
    write(root.path(), "c/p.yaml", &sample());
    let list = |kind| prints(root.path(), &["catalog", "list", kind, "c"]);
    assert_eq!(list("packages"), "NAME  DISPLAY NAME  DEFAULT CHANNEL\np                   ch\n");
    assert_eq!(list("channels"), "PACKAGE  CHANNEL  HEAD\np        ch       p.v2.0.0\n");
    assert_eq!(
        list("bundles"),
        "PACKAGE  CHANNEL  BUNDLE    REPLACES  NOTES\n\
         p        ch       p.v2.0.0  p.v1.0.0  head\n\
         p        ch       p.v1.0.0\n"
    );
    assert_eq!(
        prints(root.path(), &["catalog", "list", "bundles", "c", "-o", "wide", "--no-headers"]),
        "p  ch  p.v2.0.0  p.v1.0.0  head  p.v1.5.0  >=1.0.0 <2.0.0  quay.io/x/y:2\n\
         p  ch  p.v1.0.0                                            quay.io/x/y:1\n"
    );
    assert_eq!(prints(root.path(), &["catalog", "list", "channels", "c", "-o", "name"]), "p/ch\n");
    let json = prints(root.path(), &["catalog", "list", "bundles", "c", "p", "-o", "json"]);
    let rows: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(rows[0]["skips"], serde_json::json!(["p.v1.5.0"]));
    let (_, error) = fails(root.path(), 1, &["catalog", "list", "channels", "c", "nope"]);
    assert_eq!(error, "error: package \"nope\" not found\n");
}

#[test]
fn lists_have_the_highest_version_of_each_channel_first_and_names_from_the_metadata() {
    let root = folder();
    let entries = "- {name: p.v1.9.0}\n- {name: p.v1.10.0, replaces: p.v1.9.0}\n";
    let metadata = "- type: olm.csv.metadata\n  value: {displayName: The P}\n";
    let text = catalog("p", entries, &[("1.9.0", "i"), ("1.10.0", "i")])
        + metadata
        + "---\n{schema: olm.channel, package: p, name: alpha, entries: [{name: p.v1.9.0}]}\n";
    write(root.path(), "c/p.yaml", &text);
    let out = prints(root.path(), &["catalog", "list", "bundles", "c"]);
    let cells = |line: &str| line.split_whitespace().take(3).map(str::to_owned).collect::<Vec<_>>().join(" ");
    assert_eq!(
        out.lines().skip(1).map(cells).collect::<Vec<_>>(),
        ["p alpha p.v1.9.0", "p ch p.v1.10.0", "p ch p.v1.9.0"]
    );
    let out = prints(root.path(), &["catalog", "list", "packages", "c"]);
    assert_eq!(out, "NAME  DISPLAY NAME  DEFAULT CHANNEL\np     The P         ch\n");
}

#[test]
fn an_empty_catalog_gives_headers_and_an_invalid_package_an_error() {
    let root = folder();
    fs::create_dir(root.path().join("empty")).expect("made");
    assert_eq!(prints(root.path(), &["catalog", "list", "channels", "empty"]), "PACKAGE  CHANNEL  HEAD\n");
    write(root.path(), "bad/p.yaml", "schema: olm.package\nname: p\n");
    let (_, error) = fails(root.path(), 1, &["catalog", "list", "packages", "bad", "p"]);
    assert!(
        error.starts_with("error: bad: package \"p\" is not valid: default channel must be set"),
        "{error}"
    );
}
