//! Writes of objects that the controllers make: nothing is written that is there already, and nothing of others.

use std::fmt::Debug;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Api, Resource, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, Preconditions},
    core::PartialObjectMeta,
};
use olm_runtime::{bounded, if_exists};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::operators::FIELD_MANAGER;

/// Why an object was not written.
#[derive(Debug)]
pub(crate) enum WriteError {
    /// An object of the name belongs to others; the text says what to do.
    Foreign(String),
    /// The API server's answer.
    Api(kube::Error),
}

/// Whether a value has everything that another one has. Lists are the same length.
pub(crate) fn contains(found: &Value, wanted: &Value) -> bool {
    match (found, wanted) {
        (_, Value::Null) => true,
        (Value::Object(found), Value::Object(wanted)) => {
            wanted.iter().all(|(key, value)| contains(found.get(key).unwrap_or(&Value::Null), value))
        }
        (Value::Array(found), Value::Array(wanted)) => {
            found.len() == wanted.len()
                && found.iter().zip(wanted).all(|(found, wanted)| contains(found, wanted))
        }
        // An empty list or map is not kept.
        (Value::Null, Value::Array(wanted)) => wanted.is_empty(),
        (Value::Null, Value::Object(wanted)) => wanted.values().all(Value::is_null),
        (found, wanted) => found == wanted,
    }
}

/// Makes an object be as it is wanted. One that is not `ours` is left alone.
///
/// # Errors
/// See [`WriteError`].
pub(crate) async fn ensure<K>(
    api: &Api<K>,
    wanted: &K,
    ours: impl Fn(&K) -> bool,
    same: impl Fn(&Value, &Value) -> bool,
) -> Result<(), WriteError>
where
    K: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned,
{
    let name = wanted.name_any();
    let mut value = serde_json::to_value(wanted).unwrap_or_default();
    if let Some(found) = bounded(api.get_opt(&name)).await.map_err(WriteError::Api)? {
        if !ours(&found) {
            let kind = K::kind(&());
            return Err(WriteError::Foreign(format!(
                "{kind} {name} exists and belongs to something else: delete it, or rename one of the two"
            )));
        }
        let known = serde_json::to_value(&found).unwrap_or_default();
        if same(&known, &value) {
            return Ok(());
        }
        // What is written is what was looked at.
        value["metadata"]["uid"] = found.uid().into();
    }
    value["apiVersion"] = K::api_version(&()).into();
    value["kind"] = K::kind(&()).into();
    let params = PatchParams::apply(FIELD_MANAGER).force();
    bounded(api.patch(&name, &params, &Patch::Apply(&value))).await.map(|_| ()).map_err(WriteError::Api)
}

/// Deletes the objects with these labels for which `is_over` holds.
///
/// # Errors
/// The API server's answer.
pub(crate) async fn delete_labelled<K>(
    api: &Api<K>,
    labels: &str,
    is_over: impl Fn(&ObjectMeta) -> bool,
    of_namespace: impl Fn(&str) -> Api<K>,
) -> Result<usize, kube::Error>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let found = bounded(api.list_metadata(&ListParams::default().labels(labels))).await?;
    let mut deleted = 0;
    for object in found.items.iter().filter(|object| is_over(&object.metadata)) {
        delete(&of_namespace(&object.namespace().unwrap_or_default()), object).await?;
        deleted += 1;
    }
    Ok(deleted)
}

/// Deletes an object, and no other one of its name.
///
/// # Errors
/// The API server's answer.
pub(crate) async fn delete<K>(api: &Api<K>, object: &PartialObjectMeta<K>) -> Result<(), kube::Error>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let preconditions = Preconditions { uid: object.uid(), resource_version: None };
    let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::background() };
    if_exists(api.delete(&object.name_any(), &params)).await.map(|_| ())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn defaults_of_the_server_are_no_difference_and_other_values_are() {
        let found = json!({"a": 1, "b": {"c": [{"d": 1, "e": 2}]}, "f": "g"});
        assert!(contains(&found, &json!({"b": {"c": [{"d": 1}]}, "x": null, "y": [], "z": {}})));
        assert!(!contains(&found, &json!({"b": {"c": []}})));
        assert!(!contains(&found, &json!({"b": {"c": [{"d": 2}]}})));
        assert!(!contains(&found, &json!({"h": 1})));
    }
}
