//! The alerts, by Prometheus' own evaluation.

use olm_test::{prelude::*, promtool::promtool};
use regex::Regex;

use crate::rendering::{Objects, kustomized, kustomized_with, run};

const RULES: &str = "observability/prometheusrule.yaml";
const TESTS: &str = "observability/prometheusrule_test.yaml";

/// A YAML file below `config` with one document.
fn document(path: &str) -> Result<Value> {
    let text = std::fs::read_to_string(kubectl::config(path))?;
    Ok(olm_yaml::documents(&text).next().context("an empty file")??)
}

/// Runs the tests against rules, given as `spec` of a PrometheusRule.
fn tested(rules: &Value) -> Result<String> {
    let folder = tempfile::tempdir()?;
    // JSON is YAML.
    std::fs::write(folder.path().join("rules.yaml"), rules.to_string())?;
    std::fs::copy(kubectl::config(TESTS), folder.path().join("test.yaml"))?;
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
        // A path of this repository, which no dashboard takes for an address.
        let page = rule["annotations"]["runbook"].as_str().context("runbook")?;
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(page);
        assert!(page.is_file(), "{} is missing", page.display());
    }
    Ok(())
}

/// Each monitor with the name of the Service whose pods it scrapes, for objects of an installation.
pub(crate) fn scraped<'a>(monitors: &'a Objects, objects: &'a Objects) -> Vec<(&'a str, &'a Value)> {
    let mut scraped = Vec::new();
    for ((kind, namespace, _), monitor) in monitors {
        let endpoint = &monitor["spec"]["endpoints"][0];
        let Some(wanted) = monitor["spec"]["selector"]["matchLabels"].as_object() else { continue };
        let selected = objects.iter().filter(|((of_kind, of, _), service)| {
            let labels = &service["metadata"]["labels"];
            kind == "ServiceMonitor"
                && of_kind == "Service"
                && of == namespace
                && wanted.iter().all(|(key, value)| labels[key] == *value)
        });
        for ((_, _, service), object) in selected {
            let ports = object["spec"]["ports"].as_array().into_iter().flatten();
            if ports.into_iter().any(|port| port["name"] == endpoint["port"]) {
                scraped.push((service.as_str(), monitor));
            }
        }
    }
    scraped
}

#[test]
fn monitors_select_services_that_serve_metrics_under_the_name_that_is_checked() -> Result<()> {
    let (one, two) =
        (&["operator-controller-service"][..], &["catalogd-service", "operator-controller-service"]);
    for (installation, observability, services) in [
        (kustomized("default")?, "observability", one),
        (kustomized("overlays/split")?, "overlays/observability/split", two),
        (kustomized("overlays/cert-manager")?, "overlays/observability/cert-manager", one),
        (kustomized_with("overlays/split", "cert-manager")?, "overlays/observability/cert-manager", two),
        (kustomized("overlays/openshift")?, "overlays/observability/openshift", one),
        (kustomized_with("overlays/split", "openshift")?, "overlays/observability/openshift", two),
        (kustomized("overlays/classic")?, "overlays/observability/classic", &["olm-operator-metrics"]),
    ] {
        let monitors = kustomized(observability)?;
        let found = scraped(&monitors, &installation);
        for (service, monitor) in &found {
            let name = &monitor["spec"]["endpoints"][0]["tlsConfig"]["serverName"];
            let signed = if observability.ends_with("openshift") { "catalogd-service" } else { service };
            let namespace = &monitor["metadata"]["namespace"].as_str().context("no namespace")?;
            assert_eq!(*name, format!("{signed}.{namespace}.svc"), "{observability}");
        }
        let found: BTreeSet<&str> = found.into_iter().map(|(service, _)| service).collect();
        assert_eq!(found, services.iter().copied().collect::<BTreeSet<_>>(), "{observability}");
    }
    Ok(())
}

/// The names of metrics in a query.
fn metrics(query: &str) -> Result<BTreeSet<String>> {
    let without = Regex::new(r#"\{[^}]*\}|\[[^\]]*\]|"[^"]*"|\b(by|without|on|ignoring)\s*\([^)]*\)"#)?;
    let query = without.replace_all(query, " ");
    let words = Regex::new(r"([a-zA-Z_:][a-zA-Z0-9_:]*)\s*(\(?)")?;
    let operators = ["and", "or", "unless", "offset", "bool"];
    let found =
        words.captures_iter(&query).filter(|word| word[2].is_empty() && !operators.contains(&&word[1]));
    Ok(found.map(|word| word[1].to_owned()).collect())
}

/// The queries of the dashboard's panels, in order.
fn queries(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get("expr").and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|field| queries(field, found));
        }
        Value::Array(items) => items.iter().for_each(|item| queries(item, found)),
        _ => {}
    }
}

#[test]
fn dashboard_and_alerts_ask_for_metrics_that_there_are() -> Result<()> {
    let of_classic = crate::reference::metrics_of_classic()?;
    let told: BTreeSet<String> = crate::reference::metrics()?.into_iter().chain(of_classic).collect();
    let text = std::fs::read_to_string(kubectl::config("observability/dashboard.json"))?;
    let mut asked = Vec::new();
    queries(&serde_json::from_str(&text)?, &mut asked);
    let rules = document(RULES)?["spec"].clone();
    asked.extend(alerts(&rules).iter().filter_map(|rule| rule["expr"].as_str().map(str::to_owned)));
    assert!(asked.len() > 15, "{asked:?}");
    for query in &asked {
        let names = metrics(query)?;
        assert!(!names.is_empty(), "{query}");
        for name in names {
            let parts = ["_bucket", "_sum", "_count"].map(|part| name.strip_suffix(part));
            let known = told.contains(&name) || parts.into_iter().flatten().any(|name| told.contains(name));
            assert!(known, "docs/reference/metrics.md has no {name}: {query}");
        }
    }
    Ok(())
}
