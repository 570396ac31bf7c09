//! Dependencies that nothing uses: each one is compiled, kept up to date and looked through for nothing.
//!
//! A dependency counts as used when a file of the package names it as a path. Those of the package itself must be named
//! beside a library or program (in `src` as a rule) or by the build, those for tests anywhere in the package.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::{assert_none, cargo, read, root, rust_files};

/// A manifest with the Rust files below it that belong to no package inside.
struct Package {
    manifest: Value,
    /// Paths from the package's folder, with their texts.
    files: Vec<(String, String)>,
}

fn packages() -> Vec<Package> {
    let arguments = ["metadata", "--locked", "--offline", "--no-deps", "--format-version=1"];
    let metadata: Value = serde_json::from_str(&cargo(&arguments)).expect("cargo metadata is JSON");
    let manifests = metadata["packages"].as_array().expect("packages").clone();
    let folder = |manifest: &Value| -> PathBuf {
        let path = Path::new(manifest["manifest_path"].as_str().expect("a path"));
        path.parent()
            .and_then(|path| path.strip_prefix(root()).ok())
            .expect("within the workspace")
            .to_owned()
    };
    let folders: Vec<PathBuf> = manifests.iter().map(folder).collect();
    let mut files = vec![Vec::new(); manifests.len()];
    for (file, text) in rust_files() {
        let within = folders.iter().enumerate().filter(|(_, folder)| Path::new(&file).starts_with(folder));
        if let Some((index, folder)) = within.max_by_key(|(_, folder)| folder.as_os_str().len()) {
            let inside = Path::new(&file).strip_prefix(folder).expect("within the package");
            files[index].push((inside.to_string_lossy().into_owned(), text));
        }
    }
    manifests.into_iter().zip(files).map(|(manifest, files)| Package { manifest, files }).collect()
}

/// The folder of a package with this library, program or build script; none for a test.
fn folder_of(target: &Value, manifest: &Value) -> Option<PathBuf> {
    let path = |value: &Value| PathBuf::from(value.as_str().expect("a path"));
    let source = path(&target["src_path"]);
    let file = source.strip_prefix(path(&manifest["manifest_path"]).parent()?).ok()?.iter().next()?;
    let kinds = target["kind"].as_array().expect("kinds");
    kinds.iter().all(|kind| kind != "test").then(|| PathBuf::from(file))
}

/// Whether a line of code names the crate as the beginning of a path or imports it as a whole.
fn names(text: &str, krate: &str) -> bool {
    let code = text.lines().map(str::trim_start).filter(|line| !line.starts_with("//"));
    code.into_iter().any(|line| {
        line.match_indices(krate).any(|(at, _)| {
            let starts = !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '.');
            let rest = &line[at + krate.len()..];
            let is_import = line.starts_with("use ") && rest.starts_with([';', ' ']);
            starts && (rest.starts_with("::") || is_import)
        })
    })
}

#[test]
fn every_dependency_is_used() {
    let mut unused = Vec::new();
    for Package { manifest, files } in packages() {
        assert!(!files.is_empty(), "no files of {}", manifest["name"]);
        let targets = manifest["targets"].as_array().expect("targets");
        let shipped: Vec<PathBuf> =
            targets.iter().filter_map(|target| folder_of(target, &manifest)).collect();
        for dependency in manifest["dependencies"].as_array().expect("dependencies") {
            let name = dependency["rename"].as_str().or(dependency["name"].as_str()).expect("a name");
            let krate = name.replace('-', "_");
            let counts = |file: &str| {
                dependency["kind"] == "dev"
                    || shipped.iter().any(|folder| Path::new(file).starts_with(folder))
            };
            if !files.iter().any(|(file, text)| counts(file) && names(text, &krate)) {
                let kind = dependency["kind"].as_str().unwrap_or("normal");
                unused.push(format!("{}: {name} ({kind})", manifest["name"].as_str().expect("a name")));
            }
        }
    }
    assert_none("dependencies that nothing uses, or only tests where they are not for tests", &unused);
}

/// Else most crates are compiled twice, which takes minutes. What differs is added to the dependencies of olm-test.
#[test]
fn programs_and_tests_are_built_from_the_same_crates() {
    let crates = |edges: &str| -> BTreeSet<String> {
        let listed = cargo(&[
            "tree",
            "--locked",
            "--offline",
            "--workspace",
            "--prefix=none",
            "--format={p} [{f}]",
            "-e",
            edges,
        ]);
        listed.lines().map(|line| line.trim_end_matches(" (*)").to_owned()).collect()
    };
    let (programs, tests) = (crates("normal,build"), crates("normal,build,dev"));
    assert!(programs.len() > 200, "crates were not found: {programs:?}");
    let of_tests: Vec<String> = tests.difference(&programs).cloned().collect();
    assert_none("crates that tests want with other features, or in addition", &of_tests);
}

#[test]
fn every_dependency_of_the_workspace_is_some_packages() {
    let workspace = read("Cargo.toml");
    let section = workspace.split("[workspace.dependencies]").nth(1).expect("a section");
    let lines = section.lines().take_while(|line| !line.starts_with('['));
    let listed = lines.filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(" = "));
    let used: BTreeSet<String> = packages()
        .iter()
        .flat_map(|package| package.manifest["dependencies"].as_array().expect("dependencies").clone())
        .map(|dependency| {
            dependency["rename"].as_str().or(dependency["name"].as_str()).expect("a name").to_owned()
        })
        .collect();
    let unused: Vec<String> =
        listed.map(|(name, _)| name.trim().to_owned()).filter(|name| !used.contains(name)).collect();
    assert!(used.len() > 20, "dependencies were not found: {used:?}");
    assert_none("dependencies of the workspace that no package has", &unused);
}

#[test]
fn names_are_found_as_paths_only() {
    for (text, is_named) in [
        ("use jiff::Timestamp;", true),
        ("    let x = jiff::Timestamp::now();", true),
        ("use jiff;", true),
        ("use jiff as clock;", true),
        ("// jiff::Timestamp", false),
        ("use my_jiff::Timestamp;", false),
        ("let jiff = 1;", false),
        ("self.jiff::<u8>()", false),
    ] {
        assert_eq!(names(text, "jiff"), is_named, "{text}");
    }
}
