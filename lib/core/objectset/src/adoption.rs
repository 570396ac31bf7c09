//! Fields that our field manager wrote by `create`, counted as applied before the next apply.

use olm_api::names::OBJECT_FIELD_MANAGER;
use olm_object::managed_fields::union;
use serde_json::Value;

/// The object's `managedFields` in which the fields that our field manager wrote by `create`, and those that `others`
/// wrote, count as applied by us.
///
/// `create` records the manager's fields under the operation `Update`; a later server-side apply under the
/// same name would be a second manager, and fields that a new version drops would stay behind for ever.
/// `None` when there is nothing to move.
pub(crate) fn adopt_fields(live: &Value, others: &[&str]) -> Option<Vec<Value>> {
    let entries = live.pointer("/metadata/managedFields")?.as_array()?;
    let names = |entry: &Value, operation: &str, manager: &str| {
        entry.get("manager").and_then(Value::as_str) == Some(manager)
            && entry.get("operation").and_then(Value::as_str) == Some(operation)
            && entry.get("subresource").and_then(Value::as_str).unwrap_or_default().is_empty()
    };
    let is_adopted = |entry: &Value| {
        names(entry, "Update", OBJECT_FIELD_MANAGER) || others.iter().any(|m| names(entry, "Update", m))
    };
    let (adopted, mut kept): (Vec<Value>, Vec<Value>) = entries.iter().cloned().partition(is_adopted);
    let mut adopted = adopted.into_iter();
    let mut first = adopted.next()?;
    let fields_of =
        |entry: &Value| entry.get("fieldsV1").and_then(Value::as_object).cloned().unwrap_or_default();
    let mut fields = fields_of(&first);
    for other in adopted {
        union(&mut fields, fields_of(&other));
    }
    if let Some(applied) = kept.iter_mut().find(|entry| names(entry, "Apply", OBJECT_FIELD_MANAGER)) {
        let mut joined = fields_of(applied);
        union(&mut joined, fields);
        applied["fieldsV1"] = joined.into();
    } else {
        first["manager"] = OBJECT_FIELD_MANAGER.into();
        first["operation"] = "Apply".into();
        first["fieldsV1"] = fields.into();
        kept.push(first);
    }
    Some(kept)
}

/// Whether our field manager's fields were created and not applied since: the next apply moves them first, so that
/// fields that a new version drops are removed.
pub fn has_created_fields(live: &Value) -> bool {
    adopt_fields(live, &[]).is_some()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_written_by_create_become_applied_fields() {
        let entry = |operation: &str, fields: Value| json!({"manager": OBJECT_FIELD_MANAGER, "operation": operation, "apiVersion": "v1", "fieldsV1": fields});
        let other = json!({"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:x": {}}});
        let live = |entries: Value| json!({"metadata": {"managedFields": entries}});

        let only_created = live(json!([other, entry("Update", json!({"f:a": {}}))]));
        assert_eq!(
            adopt_fields(&only_created, &[]).unwrap(),
            [other.clone(), entry("Apply", json!({"f:a": {}}))]
        );

        let both = live(json!([
            entry("Apply", json!({"f:a": {"f:b": {}}})),
            entry("Update", json!({"f:a": {"f:c": {}}}))
        ]));
        assert_eq!(
            adopt_fields(&both, &[]).unwrap(),
            [entry("Apply", json!({"f:a": {"f:b": {}, "f:c": {}}}))]
        );

        assert_eq!(adopt_fields(&live(json!([other])), &[]), None);
    }
}
