//! What GitOps tools make of an object: the rules of kstatus for kinds it does not know.
//!
//! Source of the rules: sigs.k8s.io/cli-utils `pkg/kstatus/status` (`Compute`, the generic part).

use std::fmt;

use serde_json::Value;

/// The verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Something goes on.
    InProgress,
    /// Something failed, and somebody must act.
    Failed,
    /// Everything is as the spec wants it.
    Current,
    /// It is being deleted.
    Terminating,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The verdict about an object of a custom kind.
pub fn judge(object: &Value) -> Status {
    if object.pointer("/metadata/deletionTimestamp").is_some() {
        return Status::Terminating;
    }
    let generation = object.pointer("/metadata/generation").and_then(Value::as_i64);
    let observed = object.pointer("/status/observedGeneration").and_then(Value::as_i64);
    if let (Some(generation), Some(observed)) = (generation, observed)
        && generation != observed
    {
        return Status::InProgress;
    }
    for condition in conditions(object) {
        match (condition["type"].as_str(), condition["status"].as_str()) {
            (Some("Reconciling"), Some("True")) => return Status::InProgress,
            (Some("Stalled"), Some("True")) => return Status::Failed,
            _ => {}
        }
    }
    match find(object, "Ready").map(|ready| &ready["status"]) {
        Some(status) if status != "True" => Status::InProgress,
        // An object without the condition passes for one that needs no work.
        _ => Status::Current,
    }
}

/// Whether the conditions these rules look at are about the object's present spec. Tools that know the API conventions
/// do not believe older ones; [`judge`] does not look.
pub fn is_about_this_generation(object: &Value) -> bool {
    let generation = object.pointer("/metadata/generation").and_then(Value::as_i64);
    let told = ["Ready", "Reconciling", "Stalled"].into_iter().filter_map(|type_| find(object, type_));
    let mut told = told.peekable();
    told.peek().is_some() && told.all(|condition| condition["observedGeneration"].as_i64() == generation)
}

/// The condition of a type.
pub fn find<'a>(object: &'a Value, type_: &str) -> Option<&'a Value> {
    conditions(object).find(|condition| condition["type"] == type_)
}

fn conditions(object: &Value) -> impl Iterator<Item = &Value> {
    object.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_rules_in_their_order() {
        let with =
            |conditions: Value| json!({"metadata": {"generation": 2}, "status": {"conditions": conditions}});
        let of =
            |type_: &str, status: &str| json!({"type": type_, "status": status, "observedGeneration": 2});
        for (object, wanted) in [
            (json!({}), Status::Current),
            (json!({"metadata": {"generation": 2}, "status": {"observedGeneration": 1}}), Status::InProgress),
            (with(json!([of("Ready", "True")])), Status::Current),
            (with(json!([of("Ready", "False")])), Status::InProgress),
            (with(json!([of("Ready", "Unknown")])), Status::InProgress),
            (with(json!([of("Ready", "False"), of("Stalled", "True")])), Status::Failed),
            (with(json!([of("Ready", "True"), of("Reconciling", "True")])), Status::InProgress),
            (with(json!([of("Stalled", "False"), of("Ready", "True")])), Status::Current),
        ] {
            assert_eq!(judge(&object), wanted, "{object}");
        }
        let going = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
        assert_eq!(judge(&going), Status::Terminating);
    }

    #[test]
    fn conditions_of_an_older_spec_are_known_as_such() {
        let ready =
            |generation: i64| json!([{"type": "Ready", "status": "True", "observedGeneration": generation}]);
        let object =
            |conditions: Value| json!({"metadata": {"generation": 2}, "status": {"conditions": conditions}});
        assert!(is_about_this_generation(&object(ready(2))));
        assert!(!is_about_this_generation(&object(ready(1))));
        assert!(!is_about_this_generation(&object(json!([]))));
    }
}
