//! Probes: is an object healthy?
//!
//! An object that no probe selects passes. A probe fails as long as the object's status is older than its
//! specification. Messages are the original's.

use serde_json::{Value, json};

use crate::object::{ObjectKey, text};

/// Which objects an assertion is made about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selector {
    /// Objects of a group and kind.
    GroupKind {
        /// API group; empty for the core group.
        group: String,
        /// Kind.
        kind: String,
    },
    /// Objects whose labels match.
    Label(LabelSelector),
}

/// A selector over labels.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LabelSelector {
    /// Labels that must have exactly these values.
    pub match_labels: Vec<(String, String)>,
    /// Further requirements.
    pub match_expressions: Vec<LabelRequirement>,
}

/// One requirement of a [`LabelSelector`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LabelRequirement {
    /// The label has one of the values.
    In(String, Vec<String>),
    /// The label is absent or has none of the values.
    NotIn(String, Vec<String>),
    /// The label is present.
    Exists(String),
    /// The label is absent.
    DoesNotExist(String),
}

/// What must hold for an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Assertion {
    /// A condition has a status.
    ConditionEqual {
        /// Condition type.
        kind: String,
        /// `True` or `False`.
        status: String,
    },
    /// Two fields have the same value.
    FieldsEqual {
        /// Dotted path.
        field_a: String,
        /// Dotted path.
        field_b: String,
    },
    /// A field has a value.
    FieldValue {
        /// Dotted path.
        field_path: String,
        /// The value, as text.
        value: String,
    },
}

/// A probe: assertions about the objects it selects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// Which objects.
    pub selector: Selector,
    /// What must hold for them.
    pub assertions: Vec<Assertion>,
}

impl LabelSelector {
    fn matches(&self, labels: Option<&Value>) -> bool {
        let label = |key: &str| labels.and_then(|l| l.get(key)).and_then(Value::as_str);
        let holds = |requirement: &LabelRequirement| match requirement {
            LabelRequirement::In(key, values) => label(key).is_some_and(|v| values.iter().any(|w| w == v)),
            LabelRequirement::NotIn(key, values) => label(key).is_none_or(|v| values.iter().all(|w| w != v)),
            LabelRequirement::Exists(key) => label(key).is_some(),
            LabelRequirement::DoesNotExist(key) => label(key).is_none(),
        };
        self.match_labels.iter().all(|(key, value)| label(key) == Some(value))
            && self.match_expressions.iter().all(holds)
    }
}

impl Selector {
    fn selects(&self, object: &Value) -> bool {
        match self {
            Self::GroupKind { group, kind } => {
                let key = ObjectKey::of(object);
                key.group == *group && key.kind == *kind
            }
            Self::Label(selector) => selector.matches(object.pointer("/metadata/labels")),
        }
    }
}

/// Everything that keeps `object` from being healthy; empty when it is.
pub fn evaluate(probes: &[Probe], object: &Value) -> Vec<String> {
    let assertions: Vec<&Assertion> =
        probes.iter().filter(|p| p.selector.selects(object)).flat_map(|p| &p.assertions).collect();
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
    match assertion {
        Assertion::ConditionEqual { kind, status } => condition(object, kind, status, generation),
        Assertion::FieldsEqual { field_a, field_b } => {
            let a = field(object, field_a).ok_or_else(|| format!("{field_a:?} missing"))?;
            let b = field(object, field_b).ok_or_else(|| format!("{field_b:?} missing"))?;
            if a == b {
                return Ok(());
            }
            Err(format!("{field_a:?} != {field_b:?} expected: {a} got: {b}"))
        }
        Assertion::FieldValue { field_path, value } => {
            let found = field(object, field_path).ok_or_else(|| format!("missing key: {field_path:?}"))?;
            let found = found.as_str().map_or_else(|| found.to_string(), str::to_owned);
            if found == *value {
                return Ok(());
            }
            Err(format!("value at key {field_path:?} != {value:?}; expected: {value:?} got: {found:?}"))
        }
    }
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
    Err(format!(".status.condition[{kind:?}] is {}", text(found, "/status")))
}

fn field<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').filter(|part| !part.is_empty()).try_fold(object, |value, part| value.get(part))
}

/// The probes of every revision that is made for a ClusterExtension.
pub fn defaults() -> Vec<Probe> {
    let on = |group: &str, kind: &str, assertions: Vec<Assertion>| Probe {
        selector: Selector::GroupKind { group: group.into(), kind: kind.into() },
        assertions,
    };
    let is_true = |kind: &str| Assertion::ConditionEqual { kind: kind.into(), status: "True".into() };
    let phase =
        |value: &str| Assertion::FieldValue { field_path: "status.phase".into(), value: value.into() };
    let replicas = || Assertion::FieldsEqual {
        field_a: "status.updatedReplicas".into(),
        field_b: "status.replicas".into(),
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

/// A probe in the form of the ClusterObjectSet API.
pub fn to_json(probe: &Probe) -> Value {
    let selector = match &probe.selector {
        Selector::GroupKind { group, kind } => {
            json!({"type": "GroupKind", "groupKind": {"group": group, "kind": kind}})
        }
        Selector::Label(selector) => {
            let labels: serde_json::Map<String, Value> =
                selector.match_labels.iter().map(|(k, v)| (k.clone(), v.clone().into())).collect();
            json!({"type": "Label", "label": {"matchLabels": labels}})
        }
    };
    let assertions: Vec<Value> = probe
        .assertions
        .iter()
        .map(|assertion| match assertion {
            Assertion::ConditionEqual { kind, status } => {
                json!({"type": "ConditionEqual", "conditionEqual": {"type": kind, "status": status}})
            }
            Assertion::FieldsEqual { field_a, field_b } => {
                json!({"type": "FieldsEqual", "fieldsEqual": {"fieldA": field_a, "fieldB": field_b}})
            }
            Assertion::FieldValue { field_path, value } => {
                json!({"type": "FieldValue", "fieldValue": {"fieldPath": field_path, "value": value}})
            }
        })
        .collect();
    json!({"selector": selector, "assertions": assertions})
}

#[cfg(test)]
mod tests {
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
        let probe = |field_path: &str, value: &str| {
            vec![Probe {
                selector: Selector::Label(LabelSelector {
                    match_labels: vec![("app".into(), "x".into())],
                    match_expressions: vec![LabelRequirement::Exists("app".into())],
                }),
                assertions: vec![Assertion::FieldValue {
                    field_path: field_path.into(),
                    value: value.into(),
                }],
            }]
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
}
