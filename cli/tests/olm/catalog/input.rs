//! What the commands for catalogs make of input that is faulty, hostile, empty or something else.

use std::{fs, path::Path};

use serde_json::Value;

use crate::program::{self, command};

use super::sample::{bundle, catalog, fails, olm_in, prints, sample, small, write};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

/// Runs `olm` in a folder, without a reader of its output.
fn unread(folder: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    program::unread(command(arguments).current_dir(folder))
}

#[test]
fn a_reader_that_has_read_enough_is_no_failure() {
    let root = folder();
    write(root.path(), "c/index.yaml", &sample());
    for arguments in [
        &["catalog", "list", "bundles", "c"][..],
        &["catalog", "list", "bundles", "c", "-o", "json"],
        &["catalog", "validate", "c", "-o", "json"],
        &["catalog", "graph", "c"],
        &["resolve", "--catalog", "c", "--package", "p", "-o", "json"],
        &["resolve", "--catalog", "c", "--package", "p", "--version", "9", "-o", "json"],
    ] {
        assert_eq!(unread(root.path(), arguments), (Some(0), String::new()), "{arguments:?}");
    }
    // That nobody reads hides no other failure.
    let (code, error) = unread(root.path(), &["catalog", "list", "bundles", "c", "other", "-o", "json"]);
    assert_eq!((code, error.as_str()), (Some(1), "error: package \"other\" not found\n"));
}

#[test]
fn packages_that_are_not_valid_are_left_out_of_a_list_with_a_warning() {
    let root = folder();
    write(root.path(), "c/good/index.yaml", &sample());
    let bad = small("bad") + &bundle("bad", "2.0.0", "docker://quay.io/X");
    write(root.path(), "c/bad/index.yaml", &bad);
    let torn = catalog(
        "torn",
        "- name: torn.v1.0.0\n- name: torn.v2.0.0\n",
        &[("1.0.0", "quay.io/x/y"), ("2.0.0", "quay.io/x/z")],
    );
    write(root.path(), "c/torn/index.yaml", &torn);
    for (kind, wanted) in [
        ("packages", "NAME  DISPLAY NAME  DEFAULT CHANNEL\np                   ch\n"),
        ("channels", "PACKAGE  CHANNEL  HEAD\np        ch       p.v2.0.0\n"),
    ] {
        let output = olm_in(root.path(), &["catalog", "list", kind, "c"]);
        assert!(output.status.success(), "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), wanted);
        let errors = String::from_utf8_lossy(&output.stderr);
        let lines: Vec<&str> = errors.lines().collect();
        assert_eq!(lines.len(), 3, "{errors}");
        assert!(lines[0].starts_with(
            "warning: package \"bad\" is not valid and left out: package \"bad\" bundle \"bad.v2.0.0\""
        ));
        assert!(lines[1].contains("package \"torn\" is not valid and left out: invalid channel"), "{errors}");
        assert_eq!(lines[2], "warning: olm catalog validate lists everything that is wrong with the catalog");
    }
    let rows: Value =
        serde_json::from_str(&prints(root.path(), &["catalog", "list", "bundles", "c", "-o", "json"]))
            .expect("JSON");
    assert!(rows.as_array().expect("rows").iter().all(|row| row["package"] == "p"), "{rows}");

    // Of the package that is asked for, it is an error; that of another one is not reported.
    let (out, error) = fails(root.path(), 1, &["catalog", "list", "bundles", "c", "bad"]);
    assert_eq!(out, "");
    assert!(
        error.starts_with("error: c: package \"bad\" is not valid: ")
            && error.contains("olm catalog validate"),
        "{error}"
    );
    let output = olm_in(root.path(), &["catalog", "list", "bundles", "c", "p"]);
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

#[test]
fn a_catalog_with_nothing_in_it_is_not_valid_unless_that_is_allowed() {
    let root = folder();
    fs::create_dir(root.path().join("empty")).expect("made");
    write(root.path(), "ignored/.indexignore", "*.md\n");
    write(root.path(), "ignored/README.md", "text");
    write(root.path(), "custom/a.yaml", "schema: example.com.custom\n");
    let text =
        "there are no packages, channels or bundles in it: check the path, or allow it with --allow-empty\n";
    for source in ["empty", "ignored", "custom"] {
        let (out, error) = fails(root.path(), 1, &["catalog", "validate", source]);
        assert_eq!((out.as_str(), error), (text, format!("error: {source}: the catalog is not valid\n")));
        let (out, _) = fails(root.path(), 1, &["catalog", "validate", source, "-o", "json"]);
        let verdict: Value = serde_json::from_str(&out).expect("JSON");
        assert_eq!(
            (&verdict["passed"], &verdict["error"]["message"]),
            (&false.into(), &text.trim_end().into())
        );
        let out = prints(root.path(), &["catalog", "validate", source, "--allow-empty"]);
        assert!(out.ends_with("valid: 0 packages, 0 channels, 0 bundles\n"), "{out}");
    }
}

#[test]
fn bundles_that_are_taken_for_catalogs_and_folders_of_bundles_are_called_what_they_are() {
    let root = folder();
    for version in ["0.1.0", "0.2.0"] {
        write(root.path(), &format!("package/{version}/metadata/annotations.yaml"), "annotations: {}\n");
        write(
            root.path(),
            &format!("package/{version}/manifests/crd.yaml"),
            "kind: CustomResourceDefinition\n",
        );
    }
    let hint = "this is a bundle, not a catalog: use \"olm bundle validate\"";
    let (out, _) = fails(root.path(), 1, &["catalog", "validate", "package/0.1.0"]);
    assert_eq!(out, format!("{hint}\n"));
    let (_, error) = fails(root.path(), 1, &["catalog", "list", "packages", "package/0.1.0"]);
    assert_eq!(error, format!("error: package/0.1.0: {hint}\n"));
    let (out, _) = fails(root.path(), 1, &["catalog", "validate", "package"]);
    assert_eq!(
        out,
        "this is not a catalog, it has bundles in it (0.1.0, 0.2.0): use \"olm bundle validate\" with one of them, or leave \
         them out with .indexignore\n"
    );
    for command in [["bundle", "validate"], ["bundle", "render"], ["bundle", "rbac"]] {
        let namespace = if command[1] == "validate" { &[][..] } else { &["-n", "operators"] };
        let arguments = [&command[..], &["package"], namespace].concat();
        let output = olm_in(root.path(), &arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert_eq!(
            error,
            "error: package: this is not a bundle, but contains bundles: pass one of them: 0.1.0, 0.2.0\n"
        );
    }
    // A catalog that keeps bundles beside it is one all the same.
    write(root.path(), "package/index.yaml", &sample());
    write(root.path(), "package/.indexignore", "0.*\n");
    assert!(prints(root.path(), &["catalog", "validate", "package"]).starts_with("valid: 1 package"));
}

#[test]
fn what_foreign_text_hides_is_shown_and_its_lines_stay_below_the_commands() {
    let root = folder();
    let hostile = "\\u202eevil\\e[2J\\nwarning: fake\\u2028x";
    let text = small("p").replace(
        "properties:\n",
        &format!("properties:\n- type: olm.csv.metadata\n  value: {{displayName: \"{hostile}\"}}\n"),
    );
    let deprecation = format!(
        "---\nschema: olm.deprecations\npackage: p\nentries:\n- reference: {{schema: olm.package}}\n  message: \"{hostile}\"\n"
    );
    write(root.path(), "c/index.yaml", &(text + &deprecation));
    let shown = "\\u{202e}evil\\u{1b}[2J warning: fake x";
    let out = prints(root.path(), &["catalog", "list", "packages", "c"]);
    assert_eq!(out.lines().count(), 2, "{out}");
    assert!(out.contains(shown), "{out}");
    let out = prints(root.path(), &["resolve", "--catalog", "c", "--package", "p"]);
    assert!(
        out.contains(&format!("\ndeprecated  {shown}\n"))
            || out.ends_with(&format!("\ndeprecated  {shown}\n")),
        "{out}"
    );
    let out = prints(root.path(), &["catalog", "list", "packages", "c", "-o", "json"]);
    assert!(out.contains("\\u202eevil\\u001b[2J\\nwarning: fake\\u2028x"), "{out}");
    let rows: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(rows[0]["displayName"], "\u{202e}evil\u{1b}[2J\nwarning: fake\u{2028}x");
}

#[test]
fn a_catalog_is_read_from_standard_input_as_often_as_needed() {
    let root = folder();
    write(root.path(), "c/index.yaml", &sample());
    let piped = |arguments: &[&str]| {
        let input = fs::File::open(root.path().join("c/index.yaml")).expect("opens");
        let output = command(arguments).current_dir(root.path()).stdin(input).output().expect("runs");
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    for command in [
        &["catalog", "list", "bundles"][..],
        &["catalog", "validate"],
        &["catalog", "graph"],
        &["catalog", "render"],
    ] {
        assert_eq!(piped(&[command, &["-"]].concat()), prints(root.path(), &[command, &["c"]].concat()));
    }
    // The outline and the documents are read one after the other.
    piped(&["catalog", "filter", "-", "out", "-p", "p"]);
    let filtered = prints(root.path(), &["catalog", "list", "bundles", "out", "-o", "name"]);
    assert_eq!(filtered, "p.v2.0.0\np.v1.0.0\n");
}
