//! Adding and removing finalizers by JSON patch with a test, so that nobody else's change is undone.

use std::fmt::Debug;

use kube::{Api, ResourceExt, api::Patch};
use olm_api::names::PROGRAM_FIELD_MANAGER;
use olm_runtime::{api_text, bounded, patch_as};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Attempts before somebody who writes all the time is left to the next pass.
const ATTEMPTS: usize = 3;

/// Makes `finalizers` present (`wanted`) or absent on `object`; does nothing when they already are. Returns the
/// object as it is afterwards, when it was written.
///
/// Who else wrote meanwhile changed something else: the object is read again and the finalizers are tried once more.
/// Waiting for the other's event would be to wait for ever after an answer without one.
pub(crate) async fn set<K>(
    api: &Api<K>,
    object: &K,
    finalizers: &[&str],
    wanted: bool,
) -> Result<Option<K>, String>
where
    K: ResourceExt + Clone + Debug + DeserializeOwned,
{
    write(api, object, (finalizers, wanted), None).await
}

/// Adds `finalizers` like [`set`], and an annotation in the same write.
pub(crate) async fn set_with<K>(
    api: &Api<K>,
    object: &K,
    finalizers: &[&str],
    annotation: Option<(&str, &str)>,
) -> Result<Option<K>, String>
where
    K: ResourceExt + Clone + Debug + DeserializeOwned,
{
    write(api, object, (finalizers, true), annotation).await
}

async fn write<K>(
    api: &Api<K>,
    object: &K,
    (finalizers, wanted): (&[&str], bool),
    annotation: Option<(&str, &str)>,
) -> Result<Option<K>, String>
where
    K: ResourceExt + Clone + Debug + DeserializeOwned,
{
    let told = |error: &kube::Error| format!("error updating finalizers: {}", api_text(error));
    let params = patch_as(PROGRAM_FIELD_MANAGER);
    let (name, mut newer) = (object.name_any(), None::<K>);
    for attempt in 1..=ATTEMPTS {
        let present = newer.as_ref().unwrap_or(object);
        let gone = present.uid() != object.uid() || (wanted && present.meta().deletion_timestamp.is_some());
        let version = present.resource_version();
        let patch = patch(present.finalizers(), version.as_deref(), finalizers, wanted);
        let Some(mut patch) = patch.filter(|_| !gone) else { return Ok(None) };
        if let (Some((name, value)), Some(operations)) = (annotation, patch.as_array_mut()) {
            // All of them: there may be none that one could be added to.
            let mut all = present.annotations().clone();
            all.insert(name.to_owned(), value.to_owned());
            operations.push(json!({"op": "add", "path": "/metadata/annotations", "value": all}));
        }
        let patch = serde_json::from_value(patch).map_err(|e| e.to_string())?;
        match bounded(api.patch(&name, &params, &Patch::Json::<()>(patch))).await {
            Ok(written) => return Ok(Some(written)),
            Err(kube::Error::Api(status)) if status.is_not_found() => return Ok(None),
            // A `test` that does not hold is answered with 422.
            Err(kube::Error::Api(status))
                if attempt < ATTEMPTS && (status.is_conflict() || status.code == 422) =>
            {
                let Some(found) = bounded(api.get_opt(&name)).await.map_err(|e| told(&e))? else {
                    return Ok(None);
                };
                newer = Some(found);
            }
            Err(error) => return Err(told(&error)),
        }
    }
    Ok(None)
}

fn patch(
    present: &[String],
    resource_version: Option<&str>,
    finalizers: &[&str],
    wanted: bool,
) -> Option<Value> {
    let mut after: Vec<&str> = present.iter().map(String::as_str).collect();
    if wanted {
        after.extend(finalizers.iter().filter(|f| !present.iter().any(|p| p == *f)));
    } else {
        after.retain(|f| !finalizers.contains(f));
    }
    if after.len() == present.len() {
        return None;
    }
    Some(json!([
        {"op": "test", "path": "/metadata/resourceVersion", "value": resource_version},
        {"op": "add", "path": "/metadata/finalizers", "value": after},
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_difference_is_written() {
        let present = vec!["theirs".to_owned(), "ours".to_owned()];
        assert_eq!(patch(&present, None, &["ours"], true), None);
        assert_eq!(patch(&present[..1], None, &["ours"], false), None);
        let removed = patch(&present, Some("7"), &["ours"], false).unwrap();
        assert_eq!(removed[0]["value"], "7");
        assert_eq!(removed[1]["value"], json!(["theirs"]));
        let added = patch(&present[..1], Some("7"), &["ours"], true).unwrap();
        assert_eq!(added[1]["value"], json!(["theirs", "ours"]));
    }
}
