//! The table `test/requirements.md`: every row says which tests show it, and these tests exist.

use std::collections::{BTreeMap, BTreeSet};

use super::{assert_none, has_extension, read, tracked_files};

const TABLE: &str = "test/requirements.md";
/// The part of the table whose rows may be open.
const MAY_BE_OPEN: &str = "OLM Classic";
/// The first row of each table.
const HEADER: &str = "| Requirement | Shown by |";

/// Names of tests or scenarios by the path of their file.
type Tests = BTreeMap<String, BTreeSet<String>>;

/// Reads the names of the tests of a Rust file, or the scenarios of a feature file.
fn names_of_tests(text: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut is_test = false;
    for line in text.lines().map(str::trim) {
        let function = line.strip_prefix("async fn ").or_else(|| line.strip_prefix("fn "));
        let scenario = line.strip_prefix("Scenario: ").or_else(|| line.strip_prefix("Scenario Outline: "));
        if let Some(scenario) = scenario {
            names.insert(scenario.to_owned());
        } else if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            is_test = true;
        } else if let Some((name, _)) = function.and_then(|rest| rest.split_once('('))
            && std::mem::take(&mut is_test)
        {
            names.insert(name.to_owned());
        }
    }
    names
}

/// Why a reference `file::test` leads to no test; nothing if it leads to one.
fn problem(reference: &str, tests: &Tests) -> Option<String> {
    let Some((file, name)) = reference.split_once("::") else {
        return Some(format!("`{reference}` is not of the form `file::test`"));
    };
    let is_meant =
        |path: &str| path.strip_suffix(file).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'));
    let found = tests.iter().filter(|(path, names)| is_meant(path) && names.contains(name)).count();
    match found {
        0 => Some(format!("there is no test `{reference}`: was it renamed or moved?")),
        1 => None,
        _ => Some(format!("`{reference}` is in {found} files: give more of the path")),
    }
}

/// Counts the rows by their form, and lists what is wrong with them.
fn check(table: &str, tests: &Tests) -> (BTreeMap<&'static str, usize>, Vec<String>) {
    let (mut counts, mut wrong) = (BTreeMap::new(), Vec::new());
    let mut part = None;
    for (number, line) in table.lines().enumerate() {
        if let Some(heading) = line.strip_prefix("## ") {
            part = Some(heading);
        }
        let Some(part) = part.filter(|_| line.starts_with('|') && line != HEADER && !line.starts_with("|--"))
        else {
            continue;
        };
        let cells = line.strip_prefix("| ").and_then(|line| line.strip_suffix(" |"));
        let shown_by = cells.and_then(|cells| cells.rsplit_once(" | ")).map_or("", |(_, last)| last);
        let references = shown_by.strip_prefix('`').and_then(|rest| rest.strip_suffix('`'));
        let form = if let Some(references) = references {
            let problems = references.split("`, `").filter_map(|one| problem(one, tests));
            wrong.extend(problems.map(|problem| format!("line {}: {problem}", number + 1)));
            "shown by a test"
        } else if shown_by.starts_with("settled: [") && shown_by.contains("](../docs/decisions/") {
            "settled by a decision"
        } else if shown_by.strip_prefix("nothing to test: ").is_some_and(|reason| !reason.is_empty()) {
            "with nothing to test"
        } else if shown_by == "open" && part == MAY_BE_OPEN {
            "open"
        } else {
            wrong.push(format!("line {}: no test shows it, and {shown_by:?} is no other form", number + 1));
            continue;
        };
        *counts.entry(form).or_default() += 1;
    }
    (counts, wrong)
}

#[test]
fn every_requirement_is_shown_by_a_test_that_exists() {
    let files = tracked_files()
        .into_iter()
        .filter(|file| has_extension(file, "rs") || has_extension(file, "feature"));
    let tests: Tests = files.map(|file| (file.clone(), names_of_tests(&read(&file)))).collect();
    if tests.is_empty() {
        return;
    }
    let (counts, wrong) = check(&read(TABLE), &tests);
    let total: usize = counts.values().sum();
    let counts: Vec<_> = counts.iter().map(|(form, count)| format!("{count} {form}")).collect();
    println!("{total} requirements: {}", counts.join(", "));
    assert_none(TABLE, &wrong);
    assert!(total > 0, "{TABLE} has no rows");
}

#[test]
fn rows_without_a_test_with_a_wrong_one_or_of_another_form_are_reported() {
    let tests = Tests::from([
        (
            "a/x.rs".to_owned(),
            names_of_tests("#[test]\nfn one() {}\nfn helper() {}\n#[tokio::test]\nasync fn two() {}"),
        ),
        ("b/x.rs".to_owned(), names_of_tests("    #[test]\n    // Why.\n    fn one() {}")),
        ("c.feature".to_owned(), names_of_tests("Feature: f\n  Scenario: a, b\n")),
    ]);
    let rows = [
        ("| a | `a/x.rs::one`, `x.rs::two`, `c.feature::a, b` |", ""),
        ("| `\\|\\|` | settled: [page](../docs/decisions/1.md) |", ""),
        ("| c | nothing to test: the console |", ""),
        ("| d | `x.rs::one` |", "is in 2 files"),
        ("| e | `a/x.rs::helper` |", "there is no test"),
        ("| f | `ba/x.rs::one` |", "there is no test"),
        ("| g | `one` |", "not of the form"),
        ("| h | open |", "no test shows it"),
        ("| i |  |", "no test shows it"),
        ("| j | settled: somewhere |", "is no other form"),
        ("| k", "no test shows it"),
    ];
    for (row, problem) in rows {
        let (_, wrong) =
            check(&format!("# Requirements\n| h |\n## v1\n{HEADER}\n|---|---|\n{row}\n"), &tests);
        assert_eq!(wrong.is_empty(), problem.is_empty(), "{row}: {wrong:?}");
        assert!(wrong.iter().all(|one| one.contains(problem)), "{row}: {wrong:?}");
    }
    let (counts, wrong) = check(&format!("## {MAY_BE_OPEN}\n| a | open |\n"), &tests);
    assert_eq!((counts, wrong), (BTreeMap::from([("open", 1)]), Vec::new()));
}
