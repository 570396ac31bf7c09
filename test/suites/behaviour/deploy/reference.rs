//! The pages of `docs/reference`: they say what the programs say of themselves, no more and no less.

use olm_api::Reason;
use olm_test::prelude::*;
use operator_controller::{CATALOGD_PERMISSIONS, CLASSIC_PERMISSIONS, PERMISSIONS, Permission, Scope};
use regex::Regex;

use crate::rendering::run;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn page(name: &str) -> Result<String> {
    let path = root().join("docs/reference").join(name);
    std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
}

/// The rows of a page's tables below a heading of their first column, cells trimmed.
fn rows(text: &str, heading: &str) -> Vec<Vec<String>> {
    let cells = |line: &str| -> Vec<String> {
        // A pipe within a cell is written with a backslash.
        let line = line.trim().trim_start_matches('|').trim_end_matches('|').replace("\\|", "\u{1}");
        line.split('|').map(|cell| cell.trim().replace('\u{1}', "|")).collect()
    };
    let mut lines = text.lines();
    lines.find(|line| line.starts_with(&format!("| {heading} |")));
    lines.skip(1).take_while(|line| line.starts_with('|')).map(cells).collect()
}

/// The names in backquotes in a cell.
fn names(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

fn first_column(text: &str, heading: &str) -> Vec<String> {
    rows(text, heading).iter().flat_map(|row| names(&row[0])).collect()
}

/// Rust sources, without those of tests.
fn sources() -> Result<String> {
    let mut text = String::new();
    let mut folders =
        ["api", "lib", "catalogd", "operator-controller"].map(|folder| root().join(folder)).to_vec();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let file = std::fs::read_to_string(&path)?;
                text.push_str(file.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default());
            }
        }
    }
    Ok(text)
}

fn found(pattern: &str, text: &str) -> Result<BTreeSet<String>> {
    Ok(Regex::new(pattern)?.captures_iter(text).map(|found| found[1].to_owned()).collect())
}

/// Flags with what follows the word `default` in their description.
fn flags(program: &str) -> Result<BTreeMap<String, Option<String>>> {
    let told = run(Command::new(cargo_program(program, program)?).arg("--help"))?;
    let flag = Regex::new(r"^ +(?:-\w, )?(--[a-z-]+)")?;
    let default = Regex::new(r"\[default: ([^\]]*)\]")?;
    let mut flags = BTreeMap::new();
    let mut current = None;
    for line in told.lines() {
        if let Some(found) = flag.captures(line) {
            flags.insert(found[1].to_owned(), None);
            current = Some(found[1].to_owned());
        }
        if let (Some(name), Some(found)) = (&current, default.captures(line)) {
            flags.insert(name.clone(), Some(found[1].to_owned()));
        }
    }
    flags.remove("--help");
    ensure!(flags.len() > 10, "{told}");
    Ok(flags)
}

#[test]
fn every_flag_is_told_with_its_default_and_its_program() -> Result<()> {
    let text = page("flags.md")?;
    let (all, of_catalogd) = (flags("operator-controller")?, flags("catalogd")?);
    let told: BTreeMap<String, Vec<String>> =
        rows(&text, "flag").into_iter().map(|row| (names(&row[0]).concat(), row)).collect();
    let known: BTreeSet<&String> = all.keys().chain(of_catalogd.keys()).collect();
    assert_eq!(told.keys().collect::<BTreeSet<_>>(), known);
    for (flag, row) in &told {
        assert_eq!(row[2] == "yes", !of_catalogd.contains_key(flag), "{flag}: whose is it?");
        // A default that is one word; the others are said in words.
        let default = all[flag].as_deref().filter(|default| !default.contains(' '));
        if let Some(default) = default {
            assert_eq!(row[1], format!("`{default}`"), "{flag}");
        }
    }
    let of_classic = flags("olm-classic")?;
    let told = rows(&text, "flag of olm-classic").into_iter().flat_map(|row| names(&row[0]));
    let own = of_classic.keys().filter(|flag| *flag == "--cache-dir" || !known.contains(flag));
    assert_eq!(told.collect::<BTreeSet<_>>(), own.cloned().collect());
    Ok(())
}

#[test]
fn every_annotation_that_can_be_asked_for_and_that_is_written_is_told() -> Result<()> {
    let text = page("annotations.md")?;
    let policies = std::fs::read_to_string(root().join("config/admission/operator-controller.yaml"))?;
    let known =
        found(r"!\('extensions\.olm\.operatorframework\.io/([a-z-]+)' in variables\.changed\)", &policies)?;
    let list = found(r"k in \[('extensions[^\]]*)\]", &policies)?;
    let list = list.first().context("no list of known annotations")?;
    let listed = found(r"'extensions\.olm\.operatorframework\.io/([a-z-]+)'", list)?;
    assert!(known.is_subset(&listed) && listed.len() > known.len(), "{known:?} {listed:?}");
    assert_eq!(BTreeSet::from_iter(first_column(&text, "annotation")), listed);

    let written =
        text.split("## Annotations that the controller writes").nth(1).context("the second part")?;
    let told = BTreeSet::from_iter(first_column(written, "annotation"));
    let constants = std::fs::read_to_string(root().join("api/src/names.rs"))?;
    let annotations = found(
        r#"pub const (?:[A-Z_]+_ANNOTATION|PACKAGE_NAME|BUNDLE_[A-Z]+): &str =\s+"([^"]+)""#,
        &constants,
    )?;
    let asked = |name: &String| {
        listed.iter().any(|one| name.ends_with(&format!("extensions.olm.operatorframework.io/{one}")))
    };
    assert_eq!(told, annotations.into_iter().filter(|name| !asked(name)).collect());
    Ok(())
}

#[test]
fn every_condition_and_reason_is_told() -> Result<()> {
    let text = page("conditions.md")?;
    let types: Vec<&str> = ConditionType::ALL.iter().map(|one| one.as_str()).collect();
    assert_eq!(first_column(&text, "condition"), types);
    let reasons: Vec<&str> = Reason::ALL.iter().map(|one| one.as_str()).collect();
    assert_eq!(first_column(&text, "reason"), reasons);
    Ok(())
}

#[test]
fn every_condition_and_reason_can_be_looked_up_in_troubleshooting() -> Result<()> {
    let text = std::fs::read_to_string(root().join("docs/troubleshooting.md"))?;
    let quoted: BTreeSet<String> = text.lines().flat_map(names).collect();
    let headings: BTreeSet<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("### "))
        .flat_map(|heading| heading.split(", "))
        .collect();
    let types = ConditionType::ALL.iter().map(|one| one.as_str());
    let missing: Vec<&str> =
        types.filter(|name| !quoted.contains(*name) && !headings.contains(name)).collect();
    assert!(missing.is_empty(), "conditions that are not there: {missing:?}");
    let reasons: BTreeSet<&str> = Reason::ALL.iter().map(|one| one.as_str()).collect();
    let missing: Vec<&&str> = reasons.iter().filter(|name| !quoted.contains(**name)).collect();
    assert!(missing.is_empty(), "reasons that are not there: {missing:?}");
    // And nothing that no object ever shows.
    let known = |name: &String| {
        reasons.contains(name.as_str())
            || ConditionType::ALL.iter().any(|one| one.as_str() == name)
            || ["True", "False", "Unknown"].contains(&name.as_str())
    };
    let conditions = ["condition, reason", "status, reason", "status"];
    let tables = text.split("\n\n").filter_map(|part| {
        let part = part.trim_start();
        conditions.iter().find(|heading| part.starts_with(&format!("| {heading} |"))).map(|_| part)
    });
    let cells: Vec<String> =
        tables.flat_map(str::lines).filter_map(|line| line.split('|').nth(1)).flat_map(names).collect();
    assert!(cells.len() > 30, "{cells:?}");
    let unknown: Vec<&String> = cells.iter().filter(|name| !known(name)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    Ok(())
}

/// The metrics that the page has.
pub(crate) fn metrics() -> Result<Vec<String>> {
    Ok(first_column(&page("metrics.md")?, "metric"))
}

/// The metrics of olm-classic that the page has.
pub(crate) fn metrics_of_classic() -> Result<Vec<String>> {
    Ok(first_column(&page("metrics.md")?, "metric of olm-classic"))
}

#[test]
fn every_metric_is_told() -> Result<()> {
    let sources = sources()?;
    let registered = found(r#"\.register\(\s*"([a-z_]+)""#, &sources)?;
    let of_process = found(r#""((?:process|workqueue)_[a-z_]+)""#, &sources)?;
    let known: BTreeSet<String> = registered.union(&of_process).cloned().collect();
    assert!(known.contains("olm_objects") && known.contains("process_open_fds"), "{known:?}");
    let told = metrics()?;
    // Counters have a suffix that their registration has not.
    let told = told.iter().map(|name| name.trim_end_matches("_total").to_owned());
    assert_eq!(told.collect::<BTreeSet<_>>(), known);
    Ok(())
}

#[test]
fn every_permission_is_on_its_page() -> Result<()> {
    let text = page("permissions.md")?;
    for (heading, permissions) in [
        ("operator-controller may", &PERMISSIONS),
        ("catalogd may", &CATALOGD_PERMISSIONS),
        ("olm-classic may", &CLASSIC_PERMISSIONS),
    ] {
        let list =
            |items: &[String]| items.iter().map(|item| format!("`{item}`")).collect::<Vec<_>>().join(", ");
        let row = |permission: &Permission| {
            let group = if permission.group.is_empty() { "core" } else { &permission.group };
            let place = match permission.scope {
                Scope::Cluster => "cluster",
                Scope::SystemNamespace => "system namespace",
            };
            let verbs = list(&permission.verbs);
            let resources = list(&permission.resources);
            let only = Some(&permission.names).filter(|names| !names.is_empty());
            let suffix = only.map(|names| format!(" named {}", list(names))).unwrap_or_default();
            let resources = resources + &suffix;
            [verbs, resources, format!("`{group}`"), place.to_owned(), permission.purpose.clone()].to_vec()
        };
        let wanted: Vec<Vec<String>> = permissions.iter().map(row).collect();
        let lines: Vec<String> = wanted.iter().map(|row| format!("| {} |", row.join(" | "))).collect();
        assert_eq!(rows(&text, heading), wanted, "the table should be:\n{}", lines.join("\n"));
    }
    Ok(())
}

/// Tests, separated by blanks, and scenarios that show the points of the page `deployment.md`, in their order.
const DEPLOYMENT_POINTS: [(&str, Option<&str>); 13] = [
    (
        "deploy::the_split_installation_shows_what_upstreams_suite_looks_at \
         deploy::one_apply_installs_everything_and_a_second_one_changes_nothing",
        None,
    ),
    (
        "deploy::the_split_installation_shows_what_upstreams_suite_looks_at \
         deploy::the_programs_know_every_flag_of_the_manifests \
         deploy::the_charts_values_go_where_upstreams_go",
        None,
    ),
    (
        "olm-runtime::profiles_are_checked_by_name \
         olm-runtime::replaced_files_are_served_and_broken_ones_are_not",
        Some("tls.feature"),
    ),
    ("catalogd::authorities_are_read_again_and_proxies_are_used", Some("proxy.feature")),
    (
        "deploy::the_split_installation_shows_what_upstreams_suite_looks_at \
         operator::metrics_are_for_those_who_may_read_them \
         catalogd::every_replica_serves_what_the_status_says \
         deploy::monitors_select_services_that_serve_metrics_under_the_name_that_is_checked",
        Some("metrics.feature"),
    ),
    (
        "catalogd::every_replica_serves_what_the_status_says \
         faults::ended_at_random_moments_it_releases_its_leases_and_is_gone_within_the_grace_period \
         faults::a_leader_that_stood_still_writes_nothing_when_it_goes_on",
        Some("ha.feature"),
    ),
    (
        "operator::revisions_are_written_as_upstream_writes_them \
         deploy::the_split_installation_shows_what_upstreams_suite_looks_at",
        None,
    ),
    (
        "deploy::the_split_installation_shows_what_upstreams_suite_looks_at \
         cluster::columns_are_in_their_order",
        None,
    ),
    ("operator::a_catalog_made_unavailable_and_available_again", None),
    ("deploy::what_upstream_leaves_behind_does_no_harm", None),
    (
        "catalogd::authorities_are_read_again_and_proxies_are_used \
         catalogd::mirrors_and_blocks_of_the_registries_configuration_count",
        Some("update.feature"),
    ),
    (
        "deploy::one_apply_installs_everything_and_a_second_one_changes_nothing \
         operator::revisions_are_written_as_upstream_writes_them",
        None,
    ),
    (
        "operator::priorities_decide_between_catalogs \
         operator-controller::past_the_deadline_the_last_status_is_kept_in_the_message \
         operator::what_only_a_person_can_remove_is_stalled_with_the_remedy \
         operator::a_probe_that_fails_says_why \
         operator::annotations_are_checked_before_they_are_stored \
         operator::leaving_the_catalogs_paths_brings_a_warning",
        Some("install.feature"),
    ),
];

#[test]
fn every_point_of_a_deployment_is_shown_by_tests_that_exist() -> Result<()> {
    let rows = rows(&page("deployment.md")?, "point");
    let numbers: Vec<&str> = rows.iter().map(|row| row[0].as_str()).collect();
    let wanted: Vec<String> = (1..=DEPLOYMENT_POINTS.len()).map(|number| number.to_string()).collect();
    assert_eq!(numbers, wanted);
    let features = root().join("test/suites/scenarios/features");
    // Scenarios are a suite of their own.
    for feature in DEPLOYMENT_POINTS.iter().filter_map(|(_, feature)| *feature) {
        ensure!(!features.is_dir() || features.join(feature).is_file(), "there is no {feature}");
    }
    tests_exist(DEPLOYMENT_POINTS.iter().flat_map(|(tests, _)| tests.split_whitespace()).map(str::to_owned))
}

/// Tests are named `<folder or file>::<function>`, as `operator::metrics_are_for_those_who_may_read_them`.
fn tests_exist(names: impl Iterator<Item = String>) -> Result<()> {
    let mut missing = Vec::new();
    for name in names {
        let (suite, function) =
            name.split_once("::").with_context(|| format!("{name} is no <suite>::<test>"))?;
        let folder = match suite {
            "olm-runtime" => root().join("lib/infra/runtime/src"),
            "olm-image" => root().join("lib/infra/image"),
            "operator-controller" => root().join("operator-controller/src"),
            "catalogd-unit" => root().join("catalogd/src"),
            suite @ ("faults" | "scenarios") => root().join("test/suites").join(suite),
            suite @ ("conformance" | "takeover" | "operators") => {
                root().join("test/suites/compatibility").join(suite)
            }
            suite => root().join("test/suites/behaviour").join(suite),
        };
        let mut folders = vec![folder];
        let mut exists = false;
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
                let path = entry?.path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    exists |= std::fs::read_to_string(&path)?.contains(&format!("fn {function}("));
                }
            }
        }
        if !exists {
            missing.push(name);
        }
    }
    ensure!(missing.is_empty(), "there are no such tests: {missing:?}");
    Ok(())
}
