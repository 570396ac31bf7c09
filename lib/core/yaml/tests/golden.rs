//! What Kubernetes' own libraries answered (sigs.k8s.io/yaml v1.6.0, k8s.io/apimachinery v0.36.3, executed).
//!
//! Each line of `golden.jsonl` is `[form, text, JSON answer, failed]`; form `v` is one value, `k` a key, `s` a
//! stream of which the answer has the values before an error.

#![expect(clippy::unwrap_used, reason = "a golden line that is no JSON is a broken test")]

use olm_yaml::{YamlError, mixed, one};
use serde_json::Value;

/// Texts that are read here although Kubernetes refuses them: YAML 1.2 allows them.
const ACCEPTED_HERE: &[&str] = &["%YAML 1.2\n---\na: 1\n", "\ta: b\n"];

fn golden() -> Vec<(String, String, String, bool)> {
    include_str!("golden.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The answer as this crate writes numbers: whole floats are integers, one JSON parser for both sides.
fn expected(json: &str) -> Value {
    mixed(&format!("{{\"it\":{json}}}")).next().unwrap().unwrap()["it"].take()
}

#[test]
fn values_and_keys_are_read_as_kubernetes_reads_them() {
    let mut different = Vec::new();
    for (form, text, answer, failed) in golden().into_iter().filter(|line| line.0 != "s") {
        let ours = one(&text);
        let equal = match &ours {
            Ok(value) if failed => ACCEPTED_HERE.contains(&text.as_str()) && !value.is_null(),
            Ok(value) => *value == expected(&answer),
            Err(_) => failed,
        };
        if !equal {
            different.push(format!("{form} {text:?}: wanted {answer} (failed: {failed}), got {ours:?}"));
        }
    }
    assert!(different.is_empty(), "{} differences:\n{}", different.len(), different.join("\n"));
}

#[test]
fn streams_are_cut_as_kubernetes_cuts_them() {
    let mut different = Vec::new();
    for (_, text, answer, failed) in golden().into_iter().filter(|line| line.0 == "s") {
        let mut error: Option<YamlError> = None;
        let mut values = Vec::new();
        for item in mixed(&text) {
            match item {
                Ok(value) => values.push(value),
                Err(found) => error = Some(found),
            }
        }
        if Value::Array(values.clone()) != expected(&answer) || error.is_some() != failed {
            different
                .push(format!("{text:?}: wanted {answer} (failed: {failed}), got {values:?} and {error:?}"));
        }
    }
    assert!(different.is_empty(), "{} differences:\n{}", different.len(), different.join("\n"));
}
