//! `olm catalog filter` and `compose`

use std::fs;

use serde_json::Value;

use super::sample::{bundle, fails, files, prints, read, sample, small, write};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

/// `p` with a second channel that goes further, and `q`.
fn two_channels() -> String {
    sample()
        + "---\n{schema: olm.channel, package: p, name: fast, entries: [{name: p.v3.0.0, replaces: p.v2.0.0}]}\n"
        + &bundle("p", "3.0.0", "quay.io/x/y:3")
        + "---\n"
        + &small("q")
}

#[test]
fn filter_writes_a_valid_part_and_says_what_it_strands() {
    let root = folder();
    write(root.path(), "c/all.yaml", &two_channels());
    let out =
        prints(root.path(), &["catalog", "filter", "c", "out", "--channel", "p/fast", "--package", "q"]);
    assert_eq!(
        out,
        "p: the default channel is \"fast\" instead of \"ch\"\n\
         p: \"p.v1.0.0\" is removed, and no remaining bundle updates it: where it is installed, it gets no more updates\n\
         p: channel \"fast\": \"p.v3.0.0\" replaces \"p.v2.0.0\", which is removed\n\
         out: 2 packages, 6 documents\n"
    );
    let names: Vec<String> =
        files(&root.path().join("out")).iter().map(|(path, _)| path.display().to_string()).collect();
    assert_eq!(names, ["p/catalog.json", "q/catalog.json"]);
    assert_eq!(
        prints(root.path(), &["catalog", "validate", "out"]),
        "valid: 2 packages, 2 channels, 2 bundles\n"
    );
    let again =
        ["catalog", "filter", "c", "out2", "--channel", "p/fast", "--package", "q", "--report", "json"];
    let answer: Value = serde_json::from_str(&prints(root.path(), &again)).expect("JSON");
    assert_eq!(answer["notes"][1]["kind"], "noUpgrade");
    assert_eq!(files(&root.path().join("out")), files(&root.path().join("out2")), "the same bytes");
}

#[test]
fn filter_refuses_what_is_not_there_and_leaves_nothing_behind() {
    let root = folder();
    write(root.path(), "c/all.yaml", &two_channels());
    write(root.path(), "full/file", "");
    for (arguments, code, expected) in [
        (&["out"][..], 1, "--package <PACKAGE>"),
        (&["out", "-p", "nope"], 1, "error: c: package \"nope\" not found"),
        (&["out", "-c", "p"], 1, "--channel \"p\": name package and channel as PACKAGE/CHANNEL"),
        (&["out", "-c", "p/x"], 1, "package \"p\" has no channel \"x\""),
        (&["full", "-p", "p"], 1, "output dir \"full\" must be empty"),
    ] {
        let (_, error) = fails(root.path(), code, &[&["catalog", "filter", "c"], arguments].concat());
        assert!(error.contains(expected), "{error}");
        assert_eq!(entries(root.path()), ["c", "full"]);
    }
    write(root.path(), "odd/p.yaml", &small("p").replace(": p\n", ": ../x\n"));
    let (_, error) = fails(root.path(), 1, &["catalog", "filter", "odd", "out", "-p", "../x"]);
    assert!(error.contains("invalid package name \"../x\": must be a single local path element"), "{error}");
    assert_eq!(entries(root.path()), ["c", "full", "odd"]);
}

fn entries(folder: &std::path::Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn compose_puts_the_catalogs_of_a_list_into_folders_of_their_own() {
    let root = folder();
    write(root.path(), "etcd/all.yaml", &small("etcd"));
    write(root.path(), "src/prometheus/catalog.yaml", &small("prometheus"));
    prints(root.path(), &["catalog", "pack", "src/prometheus", "--layout", "layouts/prometheus"]);
    let config = "name: composite\nrepo: quay.io/example/composite\ntag: v4.7\nreferences:\n- name: etcd-operator\n  image: \
                  ../etcd\n- name: prometheus-operator\n  image: ../layouts/prometheus\n";
    write(root.path(), "config/list.yaml", config);
    let compose = |folder: &str| prints(root.path(), &["catalog", "compose", "config/list.yaml", folder]);
    assert_eq!(
        compose("composite"),
        "etcd-operator: etcd from ../etcd\nprometheus-operator: prometheus from ../layouts/prometheus\ncomposite: 2 \
         catalogs, for quay.io/example/composite:v4.7\n"
    );
    let written = files(&root.path().join("composite"));
    let names: Vec<String> = written.iter().map(|(path, _)| path.display().to_string()).collect();
    assert_eq!(names, ["etcd-operator/index.json", "prometheus-operator/index.json"]);
    assert_eq!(
        prints(root.path(), &["catalog", "validate", "composite"]),
        "valid: 2 packages, 2 channels, 2 bundles\n"
    );
    for part in ["composite/etcd-operator", "composite/prometheus-operator"] {
        assert_eq!(
            prints(root.path(), &["catalog", "validate", part]),
            "valid: 1 package, 1 channel, 1 bundle\n"
        );
    }
    compose("again");
    assert_eq!(files(&root.path().join("again")), written, "the same bytes");
    fs::remove_dir_all(root.path().join("composite")).expect("removed");
    prints(root.path(), &["catalog", "compose", "config/list.yaml"]);
    assert_eq!(files(&root.path().join("composite")), written, "the folder's name is that in the list");
    let (_, error) = fails(root.path(), 1, &["catalog", "compose", "config/list.yaml"]);
    assert!(error.contains("output dir \"composite\" must be empty"), "{error}");
}

#[test]
fn compose_refuses_duplicate_packages_and_bad_lists_and_leaves_nothing_behind() {
    let root = folder();
    write(root.path(), "a/p.yaml", &small("p"));
    write(root.path(), "b/p.yaml", &small("p"));
    write(root.path(), "bad/p.yaml", "a: [");
    fs::create_dir(root.path().join("empty")).expect("made");
    let digest = "d".repeat(64);
    let list = |references: &[(&str, &str)]| {
        let items =
            references.iter().map(|(name, image)| format!("- {{name: {name:?}, image: {image:?}}}\n"));
        format!("name: x\nreferences:\n{}", items.collect::<String>())
    };
    for (config, expected) in [
        (list(&[("a", "a"), ("b", "b")]), "package \"p\" is in the catalogs of both \"a\" and \"b\""),
        (list(&[("a", "a"), ("A", "b")]), "references[1].name: \"A\" is used twice"),
        (list(&[("../a", "a")]), "references[0].name: \"../a\" is not a valid folder name"),
        (list(&[("a", "empty")]), "reference \"a\": empty: the catalog is empty"),
        (
            list(&[("a", "a"), ("bad", "bad")]),
            "reference \"bad\": bad: p.yaml: error converting YAML to JSON",
        ),
        (list(&[]), "invalid type: null, expected a sequence"),
        ("name: x\nreferences: []\n".into(), "references: the list is empty"),
        ("references: []\nimages: []\n".into(), "unknown field `images`"),
        (
            list(&[("etcd-operator", &format!("quay.io/etcd-operator/index@sha256:{digest}"))]),
            "--offline: images are not fetched from registries",
        ),
    ] {
        write(root.path(), "list.yaml", &config);
        let before = entries(root.path());
        let (_, error) = fails(root.path(), 1, &["catalog", "compose", "list.yaml", "out", "--offline"]);
        assert!(error.contains(expected), "{error}");
        assert_eq!(entries(root.path()), before);
    }
    assert_eq!(read(root.path(), "a/p.yaml"), small("p"));
}
