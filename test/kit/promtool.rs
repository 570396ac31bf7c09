//! Prometheus' promtool, which runs the tests of the alerts and reads metrics as a scraper does.

use std::{
    io::Write as _,
    process::{Output, Stdio},
};

use crate::prelude::*;
use olm_test_programs::GoModule;

/// The path of `promtool`, built if it is not there (two minutes, once). Blocks.
pub fn promtool() -> Result<PathBuf> {
    let link_flags = "-s -w".to_owned();
    // Without the clients of two dozen clouds, which would double it.
    let tags = "remove_all_sd";
    let module = GoModule { folder: "kit/promtool", programs: &["promtool"], renamed: &[], link_flags, tags };
    Ok(module.built()?.join("promtool"))
}

/// Whether Prometheus reads this text without anything to complain of. Blocks.
pub fn check_metrics(text: &str) -> Result<()> {
    let mut child = Command::new(promtool()?)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    // Given and closed; it tells nothing before it has read all.
    child.stdin.take().context("no standard input")?.write_all(text.as_bytes())?;
    succeeded(&child.wait_with_output()?)
}

/// Whether an alert of `rules` (`spec` of a PrometheusRule) fires with these labels when each of `series` (name,
/// labels and value, as metrics have them) stays as it is for an hour. What the alert says is left out. Blocks.
pub fn fires(rules: &Value, alert: &str, labels: &Value, series: &[&str]) -> Result<()> {
    let mut rules = rules.clone();
    let groups = rules["groups"].as_array_mut().into_iter().flatten();
    for rule in groups.flat_map(|group| group["rules"].as_array_mut().into_iter().flatten()) {
        rule["annotations"] = json!({});
    }
    let constant = |line: &&str| -> Result<Value> {
        let (series, value) = line.rsplit_once(' ').with_context(|| format!("no sample: {line}"))?;
        Ok(json!({"series": series, "values": format!("{value}x60")}))
    };
    let tests = json!({
        "rule_files": ["rules.yaml"],
        "evaluation_interval": "1m",
        "tests": [{
            "interval": "1m",
            "input_series": series.iter().map(constant).collect::<Result<Vec<_>>>()?,
            "alert_rule_test": [{"eval_time": "60m", "alertname": alert, "exp_alerts": [{"exp_labels": labels}]}],
        }],
    });
    let folder = tempfile::tempdir()?;
    // JSON is YAML.
    std::fs::write(folder.path().join("rules.yaml"), rules.to_string())?;
    std::fs::write(folder.path().join("test.yaml"), tests.to_string())?;
    let mut command = Command::new(promtool()?);
    succeeded(&command.current_dir(folder.path()).args(["test", "rules", "test.yaml"]).output()?)
}

fn succeeded(output: &Output) -> Result<()> {
    // What is wrong is told on either.
    let told = [&output.stdout, &output.stderr].map(|told| String::from_utf8_lossy(told)).concat();
    ensure!(output.status.success(), "promtool: {}: {told}", output.status);
    Ok(())
}
