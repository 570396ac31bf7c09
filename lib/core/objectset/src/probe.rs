//! Probes: is an object healthy?
//!
//! An object that no probe selects passes. A probe fails as long as the object's status is older than its
//! specification. Messages are those of operator-controller.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use olm_api::v1::{
    AssertedStatus, Assertion, AssertionType, ConditionEqual, FieldValue, FieldsEqual, GroupKind,
    ObjectSelector, ProgressionProbe, SelectorType,
};
use olm_object::{ObjectKey, text};
use olm_text::one_line;
use serde_json::Value;

fn selects(selector: &ObjectSelector, object: &Value) -> bool {
    match selector.type_ {
        SelectorType::GroupKind => selector.group_kind.as_ref().is_some_and(|wanted| {
            let key = ObjectKey::of(object);
            key.group == wanted.group && key.kind == wanted.kind
        }),
        SelectorType::Label => selector.label.as_ref().is_some_and(|label| labels_match(label, object)),
    }
}

fn labels_match(selector: &LabelSelector, object: &Value) -> bool {
    let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
    label_selector_matches(selector, |key| labels?.get(key)?.as_str())
}

/// Whether a label selector selects the object whose labels `label` gives. An operator that the API does not know
/// selects nothing.
pub fn label_selector_matches<'a>(selector: &LabelSelector, label: impl Fn(&str) -> Option<&'a str>) -> bool {
    let holds = |requirement: &LabelSelectorRequirement| {
        let found = label(&requirement.key);
        let listed = found.is_some_and(|v| requirement.values.iter().flatten().any(|w| w == v));
        match requirement.operator.as_str() {
            "In" => listed,
            "NotIn" => !listed,
            "Exists" => found.is_some(),
            "DoesNotExist" => found.is_none(),
            _ => false,
        }
    };
    selector.match_labels.iter().flatten().all(|(key, value)| label(key) == Some(value))
        && selector.match_expressions.iter().flatten().all(holds)
}

/// The requirement that no label selector may have, if there is one: an operator the API does not know.
///
/// The API server does not validate selectors inside custom resources.
pub fn invalid_selector(probes: &[ProgressionProbe]) -> Option<String> {
    let selectors = probes.iter().filter_map(|probe| probe.selector.label.as_ref());
    selectors.flat_map(|s| s.match_expressions.iter().flatten()).find_map(|requirement| {
        let known = ["In", "NotIn", "Exists", "DoesNotExist"].contains(&requirement.operator.as_str());
        (!known).then(|| format!("{:?} is not a valid label selector operator", requirement.operator))
    })
}

/// The failures of the probes of `object`; empty when it is healthy.
pub fn evaluate(probes: &[ProgressionProbe], object: &Value) -> Vec<String> {
    let assertions: Vec<&Assertion> =
        probes.iter().filter(|p| selects(&p.selector, object)).flat_map(|p| &p.assertions).collect();
    if assertions.is_empty() {
        return Vec::new();
    }
    let generation = object.pointer("/metadata/generation").and_then(Value::as_i64);
    let observed = object.pointer("/status/observedGeneration").and_then(Value::as_i64);
    if let (Some(generation), Some(observed)) = (generation, observed)
        && observed != generation
    {
        return vec![".status outdated".into()];
    }
    assertions.into_iter().filter_map(|assertion| check(assertion, object, generation).err()).collect()
}

fn check(assertion: &Assertion, object: &Value, generation: Option<i64>) -> Result<(), String> {
    if let Some(ConditionEqual { type_, status }) = &assertion.condition_equal {
        let status = match status {
            AssertedStatus::True => "True",
            AssertedStatus::False => "False",
        };
        condition(object, type_, status, generation)?;
    }
    if let Some(FieldsEqual { field_a, field_b }) = &assertion.fields_equal {
        let a = field(object, field_a).ok_or_else(|| format!("{field_a:?} missing"))?;
        let b = field(object, field_b).ok_or_else(|| format!("{field_b:?} missing"))?;
        if a != b {
            return Err(format!("{field_a:?} != {field_b:?} expected: {a} got: {b}"));
        }
    }
    if let Some(FieldValue { field_path, value }) = &assertion.field_value {
        let found = field(object, field_path).ok_or_else(|| format!("missing key: {field_path:?}"))?;
        let found = found.as_str().map_or_else(|| found.to_string(), str::to_owned);
        if found != *value {
            return Err(format!(
                "value at key {field_path:?} != {value:?}; expected: {value:?} got: {found:?}"
            ));
        }
    }
    Ok(())
}

fn condition(object: &Value, kind: &str, status: &str, generation: Option<i64>) -> Result<(), String> {
    let conditions = object
        .pointer("/status/conditions")
        .and_then(Value::as_array)
        .ok_or_else(|| "missing .status.conditions".to_owned())?;
    let Some(found) = conditions.iter().find(|c| text(c, "/type") == kind) else {
        return Err(format!("missing .status.condition[{kind:?}]"));
    };
    let observed = found.get("observedGeneration").and_then(Value::as_i64);
    if let (Some(observed), Some(generation)) = (observed, generation)
        && observed != generation
    {
        return Err(format!(".status.condition[{kind:?}] outdated"));
    }
    if text(found, "/status") == status {
        return Ok(());
    }
    Err(format!(".status.condition[{kind:?}] is {}", one_line(text(found, "/status"))))
}

fn field<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').filter(|part| !part.is_empty()).try_fold(object, |value, part| value.get(part))
}

/// The probes of every revision that is made for a ClusterExtension.
pub fn defaults() -> Vec<ProgressionProbe> {
    let on = |group: &str, kind: &str, assertions: Vec<Assertion>| ProgressionProbe {
        selector: ObjectSelector {
            type_: SelectorType::GroupKind,
            group_kind: Some(GroupKind { group: group.into(), kind: kind.into() }),
            label: None,
        },
        assertions,
    };
    let is_true = |type_: &str| Assertion {
        type_: AssertionType::ConditionEqual,
        condition_equal: Some(ConditionEqual { type_: type_.into(), status: AssertedStatus::True }),
        ..Assertion::default()
    };
    let phase = |value: &str| Assertion {
        type_: AssertionType::FieldValue,
        field_value: Some(FieldValue { field_path: "status.phase".into(), value: value.into() }),
        ..Assertion::default()
    };
    let replicas = || Assertion {
        type_: AssertionType::FieldsEqual,
        fields_equal: Some(FieldsEqual {
            field_a: "status.updatedReplicas".into(),
            field_b: "status.replicas".into(),
        }),
        ..Assertion::default()
    };
    vec![
        on("apiextensions.k8s.io", "CustomResourceDefinition", vec![is_true("Established")]),
        on("cert-manager.io", "Certificate", vec![is_true("Ready")]),
        on("cert-manager.io", "Issuer", vec![is_true("Ready")]),
        on("", "Namespace", vec![phase("Active")]),
        on("", "PersistentVolumeClaim", vec![phase("Bound")]),
        on("apps", "Deployment", vec![replicas(), is_true("Available")]),
        on("apps", "StatefulSet", vec![replicas(), is_true("Available")]),
    ]
}

/// Names an unhealthy object for a condition message.
pub fn failure(key: &ObjectKey, messages: &[String]) -> String {
    format!("Object {key}: {}", messages.join(" and "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deployment(generation: i64, observed: i64, updated: i64, available: &str) -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "generation": generation},
            "status": {
                "observedGeneration": observed, "replicas": 1, "updatedReplicas": updated,
                "conditions": [{"type": "Available", "status": available}],
            },
        })
    }

    #[test]
    fn a_deployment_is_healthy_when_its_rollout_is_over() {
        assert!(evaluate(&defaults(), &deployment(2, 2, 1, "True")).is_empty());
    }

    #[test]
    fn each_failed_assertion_is_told() {
        assert_eq!(
            evaluate(&defaults(), &deployment(2, 2, 0, "False")),
            [
                "\"status.updatedReplicas\" != \"status.replicas\" expected: 0 got: 1",
                ".status.condition[\"Available\"] is False",
            ]
        );
    }

    #[test]
    fn an_old_status_proves_nothing() {
        assert_eq!(evaluate(&defaults(), &deployment(3, 2, 1, "True")), [".status outdated"]);
    }

    #[test]
    fn missing_status_is_named() {
        let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "c"}});
        assert_eq!(evaluate(&defaults(), &crd), ["missing .status.conditions"]);
        let mut without = crd.clone();
        without["status"] = json!({"conditions": []});
        assert_eq!(evaluate(&defaults(), &without), ["missing .status.condition[\"Established\"]"]);
        let mut outdated = crd;
        outdated["metadata"]["generation"] = json!(2);
        outdated["status"] =
            json!({"conditions": [{"type": "Established", "status": "True", "observedGeneration": 1}]});
        assert_eq!(evaluate(&defaults(), &outdated), [".status.condition[\"Established\"] outdated"]);
    }

    #[test]
    fn fields_are_compared_as_text() {
        let probe = |field_path: &str, value: &str| -> Vec<ProgressionProbe> {
            serde_json::from_value(json!([{
                "selector": {"type": "Label", "label": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["x"]}]}},
                "assertions": [{"type": "FieldValue", "fieldValue": {"fieldPath": field_path, "value": value}}],
            }]))
            .unwrap()
        };
        let object = json!({"metadata": {"labels": {"app": "x"}}, "status": {"phase": "Bound", "n": 3}});
        assert!(evaluate(&probe("status.n", "3"), &object).is_empty());
        assert_eq!(
            evaluate(&probe("status.phase", "Lost"), &object),
            ["value at key \"status.phase\" != \"Lost\"; expected: \"Lost\" got: \"Bound\""]
        );
        assert_eq!(evaluate(&probe("status.none", "1"), &object), ["missing key: \"status.none\""]);
        let other = json!({"metadata": {"labels": {"app": "y"}}});
        assert!(evaluate(&probe("status.none", "1"), &other).is_empty());
    }

    #[test]
    fn objects_without_probes_pass() {
        assert!(evaluate(&defaults(), &json!({"apiVersion": "v1", "kind": "ConfigMap"})).is_empty());
    }

    #[test]
    fn an_unknown_operator_is_reported() {
        let probes: Vec<ProgressionProbe> = serde_json::from_value(json!([{
            "selector": {"type": "Label", "label": {"matchExpressions": [{"key": "app", "operator": "Like"}]}},
            "assertions": [],
        }]))
        .unwrap();
        assert_eq!(invalid_selector(&probes).unwrap(), "\"Like\" is not a valid label selector operator");
        assert_eq!(invalid_selector(&defaults()), None);
    }
}
