//! The alerts, by Prometheus' own evaluation.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use olm_test::promtool::promtool;
use serde_json::Value;

use crate::rendering::{config, file, kustomized, run};

const RULES: &str = "observability/prometheusrule.yaml";
const TESTS: &str = "observability/prometheusrule_test.yaml";

/// A YAML file below `config` with one document.
fn document(path: &str) -> Result<Value> {
    let text = std::fs::read_to_string(config(path))?;
    Ok(olm_yaml::documents(&text).next().context("an empty file")??)
}

/// Runs the tests against rules, given as `spec` of a PrometheusRule.
fn tested(rules: &Value) -> Result<String> {
    let folder = tempfile::tempdir()?;
    // JSON is YAML.
    std::fs::write(folder.path().join("rules.yaml"), rules.to_string())?;
    std::fs::copy(config(TESTS), folder.path().join("test.yaml"))?;
    let promtool = promtool()?;
    run(Command::new(&promtool).current_dir(folder.path()).args([
        "check",
        "rules",
        "--lint=all",
        "--lint-fatal",
        "rules.yaml",
    ]))?;
    // It tells what is wrong on its standard output.
    let output =
        Command::new(&promtool).current_dir(folder.path()).args(["test", "rules", "test.yaml"]).output()?;
    let told =
        [output.stdout, output.stderr].map(|told| String::from_utf8_lossy(&told).into_owned()).concat();
    anyhow::ensure!(output.status.success(), "{told}");
    Ok(told)
}

fn alerts(rules: &Value) -> Vec<&Value> {
    let groups = rules["groups"].as_array().into_iter().flatten();
    groups.flat_map(|group| group["rules"].as_array().into_iter().flatten()).collect()
}

#[test]
fn alerts_come_and_stay_away_as_their_tests_say() -> Result<()> {
    let rules = document(RULES)?["spec"].clone();
    tested(&rules)?;
    // The tests would notice each alert that never comes and each that always does.
    for index in 0..alerts(&rules).len() {
        for expression in ["vector(1) < 0", "vector(1) > 0"] {
            let mut broken = rules.clone();
            let rule = &mut broken["groups"][0]["rules"][index];
            let name = rule["alert"].as_str().context("an alert has a name")?.to_owned();
            rule["expr"] = expression.into();
            let error =
                tested(&broken).err().with_context(|| format!("{name} with {expression} was not noticed"))?;
            assert!(error.to_string().contains(&name), "{error}");
        }
    }
    Ok(())
}

#[test]
fn each_alert_has_tests_for_silence_and_for_its_words_and_a_page() -> Result<()> {
    let (rules, tests) = (document(RULES)?["spec"].clone(), document(TESTS)?);
    let cases: Vec<&Value> = tests["tests"]
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(|test| test["alert_rule_test"].as_array().into_iter().flatten())
        .collect();
    let of = |silent: bool| -> BTreeSet<&str> {
        let wanted = cases.iter().filter(|case| case.get("exp_alerts").is_none() == silent);
        wanted.filter_map(|case| case["alertname"].as_str()).collect()
    };
    let names: BTreeSet<&str> = alerts(&rules).iter().filter_map(|rule| rule["alert"].as_str()).collect();
    assert!(names.len() >= 8, "{names:?}");
    assert_eq!(of(false), names, "alerts whose words are tested");
    assert_eq!(of(true), names, "alerts that are seen to be silent");
    for rule in alerts(&rules) {
        let page = rule["annotations"]["runbook_url"].as_str().context("runbook_url")?;
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(page);
        assert!(page.is_file(), "{} is missing", page.display());
    }
    Ok(())
}

#[test]
fn monitors_select_services_that_serve_metrics_under_the_name_that_is_checked() -> Result<()> {
    let monitors = file("observability/servicemonitor.yaml")?;
    for (overlay, scraped) in
        [("overlays/split", &["catalogd", "operator-controller"][..]), ("default", &["operator-controller"])]
    {
        let objects = kustomized(overlay)?;
        let mut found = BTreeSet::new();
        for ((_, namespace, monitor), object) in &monitors {
            let spec = &object["spec"];
            let wanted = spec["selector"]["matchLabels"].as_object().context("matchLabels")?;
            let selected = objects.iter().filter(|((kind, of, _), service)| {
                let labels = &service["metadata"]["labels"];
                kind == "Service"
                    && of == namespace
                    && wanted.iter().all(|(key, value)| labels[key] == *value)
            });
            for ((_, _, service), object) in selected {
                let endpoint = &spec["endpoints"][0];
                let ports = object["spec"]["ports"].as_array().into_iter().flatten();
                if ports.into_iter().any(|port| port["name"] == endpoint["port"]) {
                    assert_eq!(endpoint["tlsConfig"]["serverName"], format!("{service}.{namespace}.svc"));
                    found.insert(monitor.as_str());
                }
            }
        }
        assert_eq!(found, scraped.iter().copied().collect::<BTreeSet<_>>(), "{overlay}");
    }
    Ok(())
}
