//! The text of the condition about missing permissions. Its form is that of operator-controller
//! `controllers/clusterextension_reconcile_steps.go` (pre-authorization).

use std::fmt::Write as _;

use crate::required::Permission;

/// The text of the condition.
pub fn report(missing: &[Permission]) -> String {
    format!(
        "pre-authorization failed: service account requires the following permissions to manage cluster extension:\n{}",
        lines(missing)
    )
}

/// Permissions, one a line, sorted.
pub fn lines(permissions: &[Permission]) -> String {
    let mut lines: Vec<String> = permissions.iter().map(line).collect();
    lines.sort_unstable();
    lines.join("\n")
}

fn line(needed: &Permission) -> String {
    let lists = [
        ("APIGroups", &needed.rule.api_groups),
        ("Resources", &needed.rule.resources),
        ("ResourceNames", &needed.rule.resource_names),
        ("Verbs", &needed.rule.verbs),
        ("NonResourceURLs", &needed.rule.non_resource_urls),
    ];
    let mut line = format!("  Namespace:{:?}", needed.namespace);
    for (name, items) in lists.into_iter().filter(|(_, items)| !items.is_empty()) {
        let items: Vec<&str> = items.iter().map(String::as_str).collect();
        // Writing to a String cannot fail.
        let _ = write!(line, " {name}:[{}]", items.join(","));
    }
    line
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};

    use super::*;
    use crate::{
        Held, missing, needed,
        required::tests::{rule, target},
    };

    #[test]
    fn the_report_has_upstreams_form() {
        let nothing = Value::Null;
        let targets = [
            target("apiextensions.k8s.io", "customresourcedefinitions", "", "a.example.com", &nothing),
            target("apps", "deployments", "ns", "d", &nothing),
            target("", "configmaps", "ns", "c", &nothing),
        ];
        let held = Held {
            cluster: vec![
                rule(json!({"apiGroups": ["apiextensions.k8s.io"], "resources": ["*"], "verbs": ["create"]})),
                rule(
                    json!({"apiGroups": ["olm.operatorframework.io"], "resources": ["*"], "verbs": ["update"]}),
                ),
            ],
            namespaces: BTreeMap::from([(
                "ns".to_owned(),
                vec![rule(
                    json!({"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "update", "patch", "delete"]}),
                )],
            )]),
        };
        let missing = missing(&needed(&targets, "ext-1"), &held);
        assert_eq!(
            report(&missing),
            "pre-authorization failed: service account requires the following permissions to manage cluster extension:\n\
             \x20 Namespace:\"\" APIGroups:[apiextensions.k8s.io] Resources:[customresourcedefinitions] ResourceNames:[a.example.com] Verbs:[delete,get,patch,update]\n\
             \x20 Namespace:\"ns\" APIGroups:[] Resources:[configmaps] ResourceNames:[c] Verbs:[delete,get,patch,update]\n\
             \x20 Namespace:\"ns\" APIGroups:[] Resources:[configmaps] Verbs:[create]\n\
             \x20 Namespace:\"ns\" APIGroups:[apps] Resources:[deployments] Verbs:[create]"
        );
    }
}
