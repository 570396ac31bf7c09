//! Running the program, and catalogs to run it on.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Output,
};

pub(super) use crate::program::write;
use crate::program::{command, text};

/// Runs `olm` in a folder.
pub(super) fn olm_in(folder: &Path, arguments: &[&str]) -> Output {
    command(arguments).current_dir(folder).output().expect("runs")
}

/// Runs `olm` and expects it to succeed; answers what it printed.
pub(super) fn prints(folder: &Path, arguments: &[&str]) -> String {
    let output = olm_in(folder, arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    text(output.stdout)
}

/// Runs `olm` and expects it to fail with this code; answers what it printed and its error.
pub(super) fn fails(folder: &Path, code: i32, arguments: &[&str]) -> (String, String) {
    let output = olm_in(folder, arguments);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {output:?}");
    (text(output.stdout), text(output.stderr))
}

pub(super) fn read(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).expect("a file")
}

/// All files below a folder with their content, sorted by path.
pub(super) fn files(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let content = fs::read_to_string(&path).expect("text");
                found.push((path.strip_prefix(folder).expect("below").to_owned(), content));
            }
        }
    }
    found.sort();
    found
}

/// The package `p` of the documentation's examples: two bundles and all kinds of edges.
pub(super) fn sample() -> String {
    catalog(
        "p",
        "- name: p.v1.0.0\n- name: p.v2.0.0\n  replaces: p.v1.0.0\n  skips: [p.v1.5.0]\n  skipRange: '>=1.0.0 <2.0.0'\n",
        &[("1.0.0", "quay.io/x/y:1"), ("2.0.0", "quay.io/x/y:2")],
    )
}

/// A package with one channel `ch` that is its default.
pub(super) fn catalog(package: &str, entries: &str, bundles: &[(&str, &str)]) -> String {
    let bundles = bundles.iter().map(|(version, image)| bundle(package, version, image));
    format!(
        "schema: olm.package\nname: {package}\ndefaultChannel: ch\n---\nschema: olm.channel\npackage: {package}\nname: \
         ch\nentries:\n{entries}"
    ) + &bundles.collect::<String>()
}

pub(super) fn bundle(package: &str, version: &str, image: &str) -> String {
    format!(
        "---\nschema: olm.bundle\npackage: {package}\nname: {package}.v{version}\nimage: {image}\nproperties:\n- type: \
         olm.package\n  value: {{packageName: {package}, version: '{version}'}}\n"
    )
}

/// A package with one bundle.
pub(super) fn small(package: &str) -> String {
    catalog(package, &format!("- name: {package}.v1.0.0\n"), &[("1.0.0", "quay.io/x/y:1")])
}
