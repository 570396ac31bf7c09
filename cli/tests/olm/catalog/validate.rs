//! `olm catalog validate`

use std::{fs, os::unix::fs::symlink, path::Path};

use serde_json::Value;

use super::sample::{bundle, catalog, fails, prints, sample, small, write};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

#[test]
fn authors_copy_catalogs_together_edit_them_and_check_the_result() {
    let root = folder();
    write(root.path(), "c/catalogA/index.yaml", &sample());
    write(root.path(), "c/catalogB/index.yaml", &small("q"));
    assert_eq!(
        prints(root.path(), &["catalog", "validate", "c"]),
        "valid: 2 packages, 2 channels, 3 bundles\n"
    );
    write(
        root.path(),
        "c/catalogB/index.yaml",
        &small("q").replace("defaultChannel: ch", "defaultChannel: stable"),
    );
    let (out, error) = fails(root.path(), 1, &["catalog", "validate", "c"]);
    assert_eq!(
        out,
        "invalid index:\n└── invalid package \"q\":\n    └── invalid channel \"stable\":\n        └── channel must \
         contain at least one bundle\n"
    );
    assert_eq!(error, "error: c: the catalog is not valid\n");
}

#[test]
fn every_finding_is_listed_in_text_and_json() {
    let root = folder();
    write(root.path(), "a/p.yaml", &sample());
    write(root.path(), "b/p.yaml", &(sample() + &bundle("p", "3.0", "docker://quay.io/X")));
    let (out, _) = fails(root.path(), 1, &["catalog", "validate", "."]);
    let expected = [
        "duplicate package \"p\"",
        "package \"p\" has duplicate channel \"ch\"",
        "package \"p\" has duplicate bundle \"p.v1.0.0\"",
        "package \"p\" has duplicate bundle \"p.v2.0.0\"",
        "package \"p\" bundle \"p.v3.0\" image: invalid image pull spec \"docker://quay.io/X\": invalid reference format: \
         repository name must be lowercase",
        "error parsing bundle \"p.v3.0\" version \"3.0\": No Major.Minor.Patch elements found",
        "package \"p\", bundle \"p.v3.0\" not found in any channel entries",
    ];
    assert_eq!(out.lines().collect::<Vec<_>>(), expected);
    let (out, _) = fails(root.path(), 1, &["catalog", "validate", ".", "-o", "json"]);
    let verdict: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(verdict["passed"], false);
    assert_eq!(verdict["error"]["message"], expected[0]);
    let listed = verdict["findings"].as_array().expect("findings");
    let messages: Vec<&str> = listed.iter().filter_map(|finding| finding["message"].as_str()).collect();
    assert_eq!(messages, expected);
    assert_eq!((&listed[4]["package"], &listed[4]["name"]), (&"p".into(), &"p.v3.0".into()));
}

#[test]
fn rules_that_are_only_documented_are_warnings_and_errors_with_strict() {
    let root = folder();
    let text = small("p")
        .replace("image: quay.io/x/y:1\n", "image: quay.io/x/y:1\nrelatedImages: [{name: '', image: i}]\n");
    write(root.path(), "p/p.yaml", &text);
    write(root.path(), "q/q.yaml", &text.replace(": p", ": q").replace(" p.v", " q.v"));
    let out = prints(root.path(), &["catalog", "validate", "."]);
    assert_eq!(
        out,
        "warning: olm.bundle \"p.v1.0.0\" of \"p\": relatedImages[0].name is empty: remove the field or set a name; and 1 more document, \
         listed with --strict or -o json\nvalid: 2 packages, 2 channels, 2 bundles\n"
    );
    let (out, _) = fails(root.path(), 1, &["catalog", "validate", "--strict", "."]);
    assert_eq!(
        out,
        "error: olm.bundle \"p.v1.0.0\" of \"p\": relatedImages[0].name is empty: remove the field or set a name\n\
         error: olm.bundle \"q.v1.0.0\" of \"q\": relatedImages[0].name is empty: remove the field or set a name\n"
    );
    let out = prints(root.path(), &["catalog", "validate", "-o", "json", "."]);
    let verdict: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((&verdict["passed"], verdict["warnings"].as_array().map(Vec::len)), (&true.into(), Some(2)));
}

#[test]
fn deprecations_stand_in_a_file_beside_the_package() {
    let root = folder();
    let entries = "- name: my-operator.v1.68.0\n";
    let package =
        catalog("my-operator", entries, &[("1.68.0", "quay.io/x/y")]).replace("name: ch", "name: alpha");
    write(
        root.path(),
        "my-catalog/my-operator/index.yaml",
        &package.replace("defaultChannel: ch", "defaultChannel: alpha"),
    );
    let deprecations = "schema: olm.deprecations\npackage: my-operator\nentries:\n- reference:\n    schema: olm.package\n  \
                        message: |\n    Not supported since May.\n    Use your-operator.\n- reference:\n    schema: \
                        olm.channel\n    name: alpha\n  message: Use beta.\n- reference:\n    schema: olm.bundle\n    name: \
                        my-operator.v1.68.0\n  message: Has a leak.\n";
    write(root.path(), "my-catalog/my-operator/deprecations.yaml", deprecations);
    let validate = ["catalog", "validate", "--strict", "my-catalog"];
    assert_eq!(prints(root.path(), &validate), "valid: 1 package, 1 channel, 1 bundle\n");
    write(
        root.path(),
        "my-catalog/my-operator/deprecations.yaml",
        &deprecations.replace("name: alpha", "name: beta"),
    );
    let (out, _) = fails(root.path(), 1, &validate);
    assert_eq!(out, "cannot deprecate channel \"beta\" for package \"my-operator\": channel not found\n");
}

#[test]
fn what_is_no_catalog_is_reported_with_its_file() {
    let root = folder();
    for (content, expected) in [
        ("# README\n\nText.\n", "sub/README.md: document at offset 0 is not an object"),
        ("a: 1\n", "sub/README.md: object '{\"a\":1}\n' is missing root schema field"),
        (
            "schema: olm.package\nname: p\ndefaultChannel: 1.10\n",
            "sub/README.md: parse package: json: cannot unmarshal number into Go struct field Package.defaultChannel of type \
             string",
        ),
        ("a: [\n", "sub/README.md: error converting YAML to JSON: yaml: line "),
    ] {
        write(root.path(), "c/p.yaml", &sample());
        write(root.path(), "c/sub/README.md", content);
        let (out, _) = fails(root.path(), 1, &["catalog", "validate", "c"]);
        assert!(out.starts_with(expected), "{out}");
        let (json, _) = fails(root.path(), 1, &["catalog", "validate", "c", "-o", "json"]);
        let verdict: Value = serde_json::from_str(&json).expect("JSON");
        assert!(verdict["error"]["message"].as_str().expect("a text").starts_with(expected), "{json}");
        write(root.path(), "c/sub/.indexignore", "*.md\n");
        assert!(prints(root.path(), &["catalog", "validate", "c"]).starts_with("valid: "));
        fs::remove_file(root.path().join("c/sub/.indexignore")).expect("removed");
    }
}

#[test]
fn a_packed_catalog_is_validated_in_its_layout_as_in_its_folder() {
    let root = folder();
    write(root.path(), "c/p/index.yaml", &sample());
    prints(root.path(), &["catalog", "pack", "c", "--layout", "layout"]);
    for source in ["layout", "oci:layout", "c", "c/p/index.yaml"] {
        let out = prints(root.path(), &["catalog", "validate", source]);
        assert_eq!(out, "valid: 1 package, 1 channel, 2 bundles\n", "{source}");
    }
}

#[test]
fn a_missing_folder_is_not_found() {
    let root = folder();
    let (_, error) = fails(root.path(), 1, &["catalog", "validate", "./missing"]);
    assert!(
        error.contains("\"./missing\" is neither a file or folder here nor an image reference"),
        "{error}"
    );
}

/// Links are followed as far as they stay in the catalog's folder: what is read is what is packed.
#[test]
fn links_to_files_are_followed_and_other_links_are_refused() {
    type Prepare<'a> = &'a dyn Fn(&Path);
    let outside = folder();
    write(outside.path(), "p.yaml", &sample());
    let cases: [(Prepare<'_>, Result<&str, &str>); 4] = [
        (
            &|root| {
                write(root, ".data/p.yaml", &sample());
                write(root, ".indexignore", ".data\n");
                symlink(".data/p.yaml", root.join("p.yaml")).expect("linked");
            },
            Ok("valid: 1 package"),
        ),
        (
            &|root| symlink(outside.path().join("p.yaml"), root.join("p.yaml")).expect("linked"),
            Err("leads out of the folder"),
        ),
        (
            &|root| symlink("nothing", root.join("p.yaml")).expect("linked"),
            Err("leads out of the folder or to nothing"),
        ),
        (
            &|root| {
                write(root, "sub/p.yaml", &sample());
                symlink("sub", root.join("again")).expect("linked");
            },
            Err("again"),
        ),
    ];
    for (index, (prepare, expected)) in cases.iter().enumerate() {
        let root = folder();
        prepare(root.path());
        match expected {
            Ok(wanted) => {
                let out = prints(root.path(), &["catalog", "validate", "."]);
                assert!(out.starts_with(wanted), "{index}: {out}");
            }
            Err(wanted) => {
                let (out, error) = fails(root.path(), 1, &["catalog", "validate", "."]);
                assert!((out + &error).contains(wanted), "{index}: {error}");
            }
        }
    }
}
