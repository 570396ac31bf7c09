//! Rules of the workspace that the compiler does not know: who may use whom, which crates stay pure, where
//! controllers are made, how files are named and how long they grow, what no file may name.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use allowed::ALLOWED;

mod allowed;
mod requirements;
mod unused;

/// Crates without IO: those of lib/core, the queries of catalogd, and the custom resources, which everybody uses.
fn core() -> BTreeSet<String> {
    let folders = fs::read_dir(root().join("lib/core")).expect("the folder");
    let manifests =
        folders.filter_map(|folder| fs::read_to_string(folder.ok()?.path().join("Cargo.toml")).ok());
    let name = |text: String| {
        let name = text.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
        name.expect("a name").to_owned()
    };
    manifests.map(name).chain(["olm-api", "olm-api-classic", "olm-graphql"].map(str::to_owned)).collect()
}

/// What the controller, `olm` and the tests may use.
const OF_PROGRAMS: [&str; 16] = [
    "olm-object",
    "olm-api",
    "olm-yaml",
    "olm-semver",
    "olm-crd",
    "olm-fbc",
    "olm-resolve",
    "olm-dependencies",
    "olm-bundle",
    "olm-render",
    "olm-objectset",
    "olm-rbac",
    "olm-plan",
    "olm-image",
    "olm-runtime",
    "catalogd",
];

/// The arrows of [`ALLOWED`], and those of the programs.
fn allowed() -> BTreeMap<&'static str, Vec<&'static str>> {
    let mut allowed: BTreeMap<_, _> = ALLOWED.map(|(name, uses)| (name, uses.to_vec())).into();
    for program in ["operator-controller", "olm-cli", "olm-test"] {
        allowed.entry(program).or_default().extend(OF_PROGRAMS);
    }
    allowed
}

/// What a core crate never brings along, not even through others: the network, the clock of a runtime, a client.
const IMPURE: [&str; 12] = [
    "async-std",
    "axum",
    "hyper",
    "hyper-util",
    "kube-client",
    "kube-runtime",
    "mio",
    "oci-client",
    "reqwest",
    "rustls",
    "socket2",
    "tokio",
];

/// Lines of a Rust file, at most.
const LINES_MAX: usize = 500;

/// Names that say nothing about what is inside.
const VAGUE_NAMES: [&str; 8] = ["common", "helper", "helpers", "manager", "misc", "shared", "util", "utils"];
/// The types that several custom resources share, which have no better name.
const NAMED_ANYWAY: [&str; 1] = ["api/src/v1/common.rs"];

/// Folders of the machines this was written on, and hosts of package registries. In two pieces each, so that
/// this file does not name them either.
const FOREIGN: [(&str, &str); 10] = [
    ("/wo", "rk/"),
    ("/ho", "me/"),
    ("/ro", "ot/"),
    ("/Us", "ers/"),
    ("crates", ".io"),
    ("proxy.go", "lang.org"),
    ("sum.go", "lang.org"),
    ("goproxy", ".io"),
    ("npmjs", ".org"),
    ("pypi", ".org"),
];
/// The one source that the lock file names; it is cargo's own name for the default registry.
const LOCK_FILE: &str = "Cargo.lock";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the workspace's folder")
}

fn cargo(args: &[&str]) -> String {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo).args(args).current_dir(root()).output().expect("cargo runs");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "cargo {}: {errors}", args.join(" "));
    String::from_utf8(output.stdout).expect("cargo writes UTF-8")
}

/// Crates of the workspace with what they use of it: normally or in their build, and in tests only.
fn arrows() -> BTreeMap<String, [BTreeSet<String>; 2]> {
    let metadata: Value = serde_json::from_str(&cargo(&[
        "metadata",
        "--locked",
        "--offline",
        "--no-deps",
        "--format-version=1",
    ]))
    .expect("cargo metadata is JSON");
    let mut arrows = BTreeMap::new();
    for package in metadata["packages"].as_array().expect("packages") {
        let mut of_package = [BTreeSet::new(), BTreeSet::new()];
        let dependencies = package["dependencies"].as_array().expect("dependencies");
        for one in dependencies.iter().filter(|d| d["path"].is_string()) {
            let in_tests = usize::from(one["kind"] == "dev");
            of_package[in_tests].insert(one["name"].as_str().expect("a name").to_owned());
        }
        arrows.insert(package["name"].as_str().expect("a name").to_owned(), of_package);
    }
    arrows
}

/// Paths of all files under version control, or that would be; none (reported as skipped) without git.
fn tracked_files() -> Vec<String> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output();
    match listed {
        Ok(output) if output.status.success() => {
            let root = root();
            let files = String::from_utf8(output.stdout).expect("paths are UTF-8");
            files.lines().filter(|f| root.join(f).is_file()).map(str::to_owned).collect()
        }
        _ => {
            olm_test::data::skip("this is no git checkout, so its files are not known");
            Vec::new()
        }
    }
}

fn rust_files() -> Vec<(String, String)> {
    let files = tracked_files().into_iter().filter(|f| has_extension(f, "rs"));
    files.map(|f| (read(&f), f)).map(|(text, f)| (f, text)).collect()
}

fn has_extension(file: &str, wanted: &str) -> bool {
    Path::new(file).extension().is_some_and(|e| e == wanted)
}

/// The text of a file; empty for what is no text.
fn read(file: &str) -> String {
    String::from_utf8(std::fs::read(root().join(file)).expect("tracked files can be read"))
        .unwrap_or_default()
}

fn assert_none(what: &str, found: &[String]) {
    assert!(found.is_empty(), "{what}:\n  {}", found.join("\n  "));
}

#[test]
fn crates_use_only_what_the_table_allows() {
    let allowed = allowed();
    let mut wrong = Vec::new();
    for (name, [used, _]) in arrows() {
        match allowed.get(name.as_str()) {
            None => wrong.push(format!("{name} is not in the table: add it with what it may use")),
            Some(may) => {
                let beyond = used.iter().filter(|one| !may.contains(&one.as_str()));
                wrong.extend(beyond.map(|one| {
                    format!(
                        "{name} uses {one}: turn the arrow round, or record it in docs/decisions and add it"
                    )
                }));
            }
        }
    }
    assert_none("dependencies between crates that the table does not allow", &wrong);
}

#[test]
fn the_table_names_only_crates_that_exist() {
    let arrows = arrows();
    let gone: Vec<String> = allowed()
        .into_iter()
        .flat_map(|(name, may)| std::iter::once(name).chain(may))
        .filter(|name| !arrows.contains_key(*name))
        .map(str::to_owned)
        .collect();
    assert_none("crates in the table that the workspace does not have", &gone);
}

#[test]
fn core_crates_use_only_core_crates_in_tests_too() {
    let (mut wrong, core) = (Vec::new(), core());
    for (name, [_, in_tests]) in arrows() {
        if core.contains(&name) {
            let beyond = in_tests.iter().filter(|one| !core.contains(*one));
            wrong.extend(beyond.map(|one| format!("{name} uses {one} in its tests")));
        }
    }
    assert_none("core crates that need adapters or services to be tested", &wrong);
}

#[test]
fn catalogd_never_knows_operator_controller() {
    let arrows = arrows();
    let of_catalogd = arrows.get("catalogd").expect("catalogd is in the workspace");
    assert!(
        !of_catalogd.iter().any(|used| used.contains("operator-controller")),
        "catalogd depends on operator-controller, which embeds it"
    );
}

#[test]
fn core_crates_bring_no_client_server_or_runtime() {
    let mut wrong = Vec::new();
    for name in &core() {
        let options = ["--locked", "--offline", "-e=normal", "--prefix=none", "--format={p}"];
        let tree = cargo(&[&["tree", "-p", name.as_str()], &options[..]].concat());
        let brought: BTreeSet<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
        assert!(brought.contains(name.as_str()), "cargo tree does not show {name} itself:\n{tree}");
        let impure = IMPURE.iter().filter(|one| brought.contains(**one));
        wrong.extend(
            impure.map(|one| format!("{name} brings {one}: see cargo tree -e normal -p {name} -i {one}")),
        );
    }
    assert_none("core crates that are not pure", &wrong);
}

#[test]
fn controllers_are_made_by_olm_runtime_only() {
    let signs = ["Controller::new(", "Controller::for_s", "runtime::Controller", "controller::Controller"];
    let mut wrong = Vec::new();
    for (file, text) in rust_files() {
        if file.starts_with("lib/infra/runtime/") || file == "test/suites/workspace/main.rs" {
            continue;
        }
        let lines = text.lines().enumerate().filter(|(_, line)| signs.iter().any(|sign| line.contains(sign)));
        wrong.extend(lines.map(|(number, line)| format!("{file}:{}: {}", number + 1, line.trim())));
    }
    assert_none(
        "controllers made without olm_runtime::run_controller, so without its limits and panic wall",
        &wrong,
    );
}

#[test]
fn files_stay_short() {
    let long: Vec<String> = rust_files()
        .iter()
        .map(|(file, text)| (file, text.lines().count()))
        .filter(|(_, lines)| *lines >= LINES_MAX)
        .map(|(file, lines)| format!("{file} has {lines} lines"))
        .collect();
    assert_none(&format!("Rust files of {LINES_MAX} lines or more, to be split by what they do"), &long);
}

#[test]
fn files_are_named_for_what_is_inside() {
    let vague: Vec<String> = rust_files()
        .into_iter()
        .map(|(file, _)| file)
        .filter(|file| !NAMED_ANYWAY.contains(&file.as_str()))
        .filter(|file| {
            Path::new(file).with_extension("").iter().any(|part| VAGUE_NAMES.iter().any(|v| part == *v))
        })
        .collect();
    assert_none("modules whose name says nothing", &vague);
    let exceptions: Vec<String> =
        NAMED_ANYWAY.iter().filter(|f| !root().join(f).is_file()).map(|f| (*f).to_owned()).collect();
    assert_none("exceptions for files that are gone", &exceptions);
}

#[test]
fn no_file_names_a_machine_or_a_package_registry() {
    let foreign: Vec<String> = FOREIGN.iter().map(|(a, b)| format!("{a}{b}")).collect();
    let mut wrong = Vec::new();
    for file in tracked_files().into_iter().filter(|f| f != LOCK_FILE) {
        for (number, line) in read(&file).lines().enumerate() {
            let found = foreign.iter().filter(|one| line.contains(one.as_str()));
            wrong.extend(found.map(|one| format!("{file}:{} names {one}", number + 1)));
        }
    }
    assert_none("paths of a machine, or hosts of package registries, in the project", &wrong);
}

/// What the headings of a document are called in links.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let named = headings.map(|heading| {
        let title = heading.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
        title.chars().filter(|c| c.is_alphanumeric() || "-_".contains(*c)).collect()
    });
    named.collect()
}

#[test]
fn links_between_documents_lead_somewhere() {
    let mut broken = Vec::new();
    for file in tracked_files().into_iter().filter(|file| has_extension(file, "md")) {
        let text = read(&file);
        let folder = root().join(&file).parent().map_or_else(root, Path::to_path_buf);
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            if path.contains("://") {
                continue;
            }
            let target = if path.is_empty() { root().join(&file) } else { folder.join(path) };
            let leads = target.exists()
                && (anchor.is_empty()
                    || std::fs::read_to_string(&target).is_ok_and(|text| anchors(&text).contains(anchor)));
            if !leads {
                broken.push(format!("{file} links to {link}"));
            }
        }
    }
    assert_none("links that lead nowhere", &broken);
}

#[test]
fn the_list_of_documents_has_every_page_for_users() {
    let list = read("docs/README.md");
    let pages = tracked_files().into_iter().filter(|file| has_extension(file, "md"));
    let pages = pages.filter_map(|file| Some(file.strip_prefix("docs/")?.to_owned()));
    let missing: Vec<String> = pages
        .filter(|page| page != "README.md" && !page.starts_with("decisions/"))
        .filter(|page| !list.contains(&format!("]({page})")))
        .collect();
    assert_none("pages that docs/README.md does not link to", &missing);
}

/// libtest shows what a test prints only when it fails; `data::skip` writes past that, and counts.
#[test]
fn tests_that_are_skipped_report_it() {
    let printed = ["println!(\"skipped", "println!(\"left out"];
    let mut wrong = Vec::new();
    for (file, text) in rust_files() {
        // Programs, whose output nothing captures.
        if ["test/tools/bench", "test/tools/bin/", "config/"].iter().any(|one| file.starts_with(one)) {
            continue;
        }
        let lines = text.lines().enumerate().filter(|(_, line)| printed.iter().any(|one| line.contains(one)));
        wrong.extend(lines.map(|(number, _)| format!("{file}:{}", number + 1)));
    }
    assert_none("skips that nobody sees: use olm_test_programs::data::skip", &wrong);
}

#[test]
fn contributing_lists_every_crate() {
    let text = read("CONTRIBUTING.md");
    let table = text.lines().skip_while(|line| !line.starts_with("| folder | crate |")).skip(2);
    let listed: BTreeSet<String> = table
        .take_while(|line| line.starts_with('|'))
        .filter_map(|line| line.split('|').nth(2).map(|name| name.trim().to_owned()))
        .collect();
    assert_eq!(listed, arrows().into_keys().collect());
}

#[test]
fn no_file_carries_an_unresolved_conflict() {
    let signs = ["<".repeat(7) + " ", ">".repeat(7) + " "];
    let mut wrong = Vec::new();
    for file in tracked_files() {
        let text = read(&file);
        let lines = text.lines().enumerate().filter(|(_, line)| signs.iter().any(|s| line.starts_with(s)));
        wrong.extend(lines.map(|(number, line)| format!("{file}:{}: {line}", number + 1)));
    }
    assert_none("conflicts that were committed", &wrong);
}

#[test]
fn every_dependency_comes_from_the_default_registry() {
    let default = format!("registry+https://github.com/rust-lang/{}{}-index", FOREIGN[4].0, FOREIGN[4].1);
    let sources: BTreeSet<String> = read(LOCK_FILE)
        .lines()
        .filter_map(|line| line.strip_prefix("source = "))
        .map(|source| source.trim_matches('"').to_owned())
        .filter(|source| *source != default)
        .collect();
    assert_none("sources in Cargo.lock that only one machine may know", &Vec::from_iter(sources));
}
