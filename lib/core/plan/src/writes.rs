//! What it would do to a cluster to write objects one by one, as OLM Classic does.

use olm_object::ObjectKey;
use serde::Serialize;
use serde_json::Value;

use crate::{
    dry_run::DryRun,
    fields::{stated, would_be},
    images::ImageChange,
    objects::{Change, Found, ObjectPlan},
};

/// What writing objects would do to a cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Writes {
    /// The objects, in the order in which they are written; then those that are deleted.
    pub objects: Vec<ObjectPlan>,
    /// Images of workloads.
    pub images: Vec<ImageChange>,
    /// The API server's verdicts on the objects.
    pub dry_run: DryRun,
    /// Notes for people.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Writes {
    /// Whether anything changes, as far as that is known.
    pub fn is_empty(&self) -> bool {
        self.objects.iter().all(|object| object.change == Change::Keep)
    }
}

/// Plans the write of an object.
///
/// `stored` is the API server's answer to a dry-run: then all fields are compared. Without it only those that `wanted` has
/// are, since what the server fills in is not known.
pub fn write_plan(phase: &str, wanted: &Value, found: &Found, stored: Option<&Value>) -> ObjectPlan {
    let key = ObjectKey::of(wanted);
    let (before, after) = match (found, stored) {
        (Found::Absent, _) => (None, stated(wanted)),
        (Found::Unknown(_), _) => (Some(Value::Null), stated(wanted)),
        (Found::Present(live), Some(stored)) => (Some(stated(live)), stated(stored)),
        (Found::Present(live), None) => (Some(would_be(live, wanted)), stated(wanted)),
    };
    let mut plan = ObjectPlan::new(key, phase, before.as_ref(), Some(&after));
    if let Found::Unknown(why) = found {
        (plan.change, plan.fields) = (Change::Unknown, Vec::new());
        plan.note = Some(format!("it could not be read: {why}"));
    }
    plan
}

/// Plans the deletion of an object.
pub fn deletion_plan(phase: &str, object: &Value) -> ObjectPlan {
    ObjectPlan::new(ObjectKey::of(object), phase, Some(&stated(object)), None)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn map(data: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "n", "uid": "u"}, "data": {"a": data}})
    }

    #[test]
    fn objects_come_change_stay_and_go() {
        let of = |found: Found, stored: Option<&Value>| write_plan("step", &map("1"), &found, stored);
        assert_eq!(of(Found::Absent, None).change, Change::Create);
        let mut live = map("1");
        live["data"]["set by others"] = json!("x");
        assert_eq!(of(Found::Present(live.clone()), None).change, Change::Keep);
        // What the API server says goes is shown.
        let gone = of(Found::Present(live), Some(&map("1")));
        assert_eq!(
            gone.fields.iter().map(|one| one.path.as_str()).collect::<Vec<_>>(),
            ["data[\"set by others\"]"]
        );
        let changed = of(Found::Present(map("2")), None);
        assert_eq!((changed.change, changed.fields[0].path.as_str()), (Change::Change, "data.a"));
        let unknown = of(Found::Unknown("forbidden".into()), None);
        assert_eq!(unknown.note.as_deref(), Some("it could not be read: forbidden"));
        assert_eq!(deletion_plan("step", &map("1")).change, Change::Delete);
    }

    #[test]
    fn a_person_reads_objects_images_and_verdicts() {
        let mut writes = Writes { objects: vec![deletion_plan("step", &map("1"))], ..Writes::default() };
        writes.notes.push("a note".to_owned());
        assert_eq!(
            writes.to_text(),
            "Objects\n  - ConfigMap.v1 n/m\nImages: none\nDry-run\n  0 objects accepted\nNotes\n  a note\n"
        );
        assert!(!writes.is_empty() && Writes::default().is_empty());
    }
}
