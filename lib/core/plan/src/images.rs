//! The images of workloads, before and after.

use std::collections::BTreeMap;

use olm_object::ObjectKey;
use serde::Serialize;
use serde_json::Value;

/// The image of one container.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ImageChange {
    /// Kind, namespace and name of the workload.
    pub workload: String,
    /// Name of the container.
    pub container: String,
    /// The image now; none if the container is new.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// The image afterwards; none if the container is removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// The images of all workloads of the installed and the new content, those that stay included, sorted.
pub fn image_changes<'o, 'n>(
    old: impl IntoIterator<Item = &'o Value>,
    new: impl IntoIterator<Item = &'n Value>,
) -> Vec<ImageChange> {
    let mut found: BTreeMap<(String, String), [Option<String>; 2]> = BTreeMap::new();
    for object in old {
        images(object, |place, image| found.entry(place).or_default()[0] = Some(image));
    }
    for object in new {
        images(object, |place, image| found.entry(place).or_default()[1] = Some(image));
    }
    let change = |((workload, container), [before, after]): ((String, String), [Option<String>; 2])| {
        ImageChange { workload, container, before, after }
    };
    found.into_iter().map(change).collect()
}

fn images(object: &Value, mut found: impl FnMut((String, String), String)) {
    let key = ObjectKey::of(object);
    let workload = format!("{} {}/{}", key.kind, key.namespace, key.name);
    let Some(pod) = object.pointer("/spec/template/spec") else { return };
    for list in ["initContainers", "containers"] {
        for container in pod[list].as_array().into_iter().flatten() {
            if let (Some(name), Some(image)) = (container["name"].as_str(), container["image"].as_str()) {
                found((workload.clone(), name.to_owned()), image.to_owned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn containers_come_stay_change_and_go() {
        let deployment = |containers: Value| {
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "n"},
                "spec": {"template": {"spec": {"containers": containers}}}})
        };
        let old = deployment(json!([{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}]));
        let new = deployment(json!([{"name": "a", "image": "a:2"}, {"name": "c", "image": "c:1"}]));
        let changes: Vec<String> = image_changes([&old], [&new])
            .into_iter()
            .map(|c| {
                format!(
                    "{} {} {} {}",
                    c.workload,
                    c.container,
                    c.before.unwrap_or_default(),
                    c.after.unwrap_or_default()
                )
            })
            .collect();
        assert_eq!(changes, ["Deployment n/d a a:1 a:2", "Deployment n/d b b:1 ", "Deployment n/d c  c:1"]);
    }
}
