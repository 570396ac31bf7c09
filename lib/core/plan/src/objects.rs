//! The plan of one object.

use olm_object::ObjectKey;
use olm_objectset::sha256;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    difference::{FieldChange, differences},
    fields::{own, stated, would_be},
};

/// An object in the cluster.
#[derive(Debug, Clone, PartialEq)]
pub enum Found {
    /// It does not exist.
    Absent,
    /// It exists.
    Present(Value),
    /// It could not be read, and why.
    Unknown(String),
}

/// Everything known about an object of the old or the new revision.
#[derive(Debug, Clone)]
pub struct ObjectFacts<'a> {
    /// Its phase.
    pub phase: &'a str,
    /// The content of the new revision; none if the object is not part of it.
    pub desired: Option<&'a Value>,
    /// The content that is rolled out, if it is known and has the object.
    pub old: Option<&'a Value>,
    /// The object in the cluster; it does not matter for one that is deleted.
    pub found: Found,
    /// The API server's answer to the dry-run: the object as it would be stored.
    pub would_be: Option<&'a Value>,
    /// Something a person should know about it.
    pub note: Option<String>,
}

/// The change of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Change {
    /// It is created.
    Create,
    /// Fields of it change.
    Change,
    /// It stays as it is.
    Keep,
    /// It is deleted once the new revision has rolled out.
    Delete,
    /// The cluster could not be asked.
    Unknown,
}

/// One object of a plan.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectPlan {
    /// Its change.
    pub change: Change,
    /// Its phase.
    pub phase: String,
    /// API group and version.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Namespace; empty for objects of the cluster.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Our own fields that change.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<FieldChange>,
    /// The content of an object that is created; the data of Secrets as hashes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<Value>,
    /// Digest of our own fields as they are; none if the object does not exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before_digest: Option<String>,
    /// Digest of the new content; none if the object is deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after_digest: Option<String>,
    /// Something a person should know about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl ObjectPlan {
    /// Compares an object's own fields before and after, both in the form of [`stated`]; one of them at least is there.
    pub(crate) fn new(key: ObjectKey, phase: &str, before: Option<&Value>, after: Option<&Value>) -> Self {
        let (change, fields) = match (before, after) {
            (_, None) => (Change::Delete, Vec::new()),
            (None, Some(_)) => (Change::Create, Vec::new()),
            (Some(before), Some(after)) => match differences(before, after) {
                same if same.is_empty() => (Change::Keep, same),
                changed => (Change::Change, changed),
            },
        };
        Self {
            change,
            phase: phase.to_owned(),
            api_version: key.api_version(),
            kind: key.kind,
            namespace: key.namespace,
            name: key.name,
            fields,
            content: after.filter(|_| change == Change::Create).cloned(),
            before_digest: before.map(sha256),
            after_digest: after.map(sha256),
            note: None,
        }
    }

    /// The object, as conditions name it.
    pub fn object(&self) -> String {
        let place = if self.namespace.is_empty() { String::new() } else { format!("{}/", self.namespace) };
        format!("{}.{} {place}{}", self.kind, self.api_version, self.name)
    }
}

/// Plans an object.
pub fn object_plan(facts: &ObjectFacts<'_>) -> ObjectPlan {
    let key = facts.desired.or(facts.old).map_or_else(|| ObjectKey::of(&Value::Null), ObjectKey::of);
    let after = facts.desired.map(stated);
    let before = match (facts.desired, &facts.found) {
        (None, _) => facts.old.map(stated),
        (Some(_), Found::Absent) => None,
        (Some(_), Found::Unknown(_)) => Some(json!("unknown")),
        (desired, Found::Present(live)) => Some(own(live, facts.old, desired)),
    };
    let stored = facts.desired.and_then(|desired| Some(would_be(facts.would_be?, desired)));
    let mut plan = ObjectPlan::new(key, facts.phase, before.as_ref(), stored.as_ref().or(after.as_ref()));
    // The API server's answer is no part of the digest, and not shown for an object that is created.
    if stored.is_some() {
        plan.after_digest = after.as_ref().map(sha256);
        plan.content = plan.content.and(after);
    }
    plan.note.clone_from(&facts.note);
    if let (Some(_), Found::Unknown(why)) = (facts.desired, &facts.found) {
        (plan.change, plan.fields) = (Change::Unknown, Vec::new());
        let note = facts.note.as_ref().map_or_else(String::new, |note| format!("{note}; "));
        plan.note = Some(format!("{note}it could not be read: {why}"));
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(cpu: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "n"}, "spec": {"cpu": cpu}})
    }

    fn live(cpu: &str) -> Value {
        let mut live = content(cpu);
        live["metadata"]["managedFields"] = json!([
            {"manager": "olm.operatorframework.io", "operation": "Apply", "fieldsV1": {"f:spec": {"f:cpu": {}}}},
        ]);
        live
    }

    fn facts(found: Found) -> ObjectFacts<'static> {
        ObjectFacts { phase: "deploy", desired: None, old: None, found, would_be: None, note: None }
    }

    #[test]
    fn objects_come_change_stay_and_go() {
        let (one, two) = (content("1"), content("2"));
        let of = |facts: ObjectFacts<'_>| object_plan(&facts);
        let created = of(ObjectFacts { desired: Some(&two), ..facts(Found::Absent) });
        assert_eq!((created.change, created.before_digest), (Change::Create, None));
        let changed =
            of(ObjectFacts { desired: Some(&two), old: Some(&one), ..facts(Found::Present(live("1"))) });
        assert_eq!((changed.change, changed.fields[0].path.as_str()), (Change::Change, "spec.cpu"));
        let kept =
            of(ObjectFacts { desired: Some(&one), old: Some(&one), ..facts(Found::Present(live("1"))) });
        assert_eq!((kept.change, kept.object().as_str()), (Change::Keep, "Widget.v1 n/w"));
        assert_eq!(kept.before_digest, kept.after_digest);
        let gone = of(ObjectFacts { old: Some(&one), ..facts(Found::Absent) });
        assert_eq!((gone.change, gone.after_digest), (Change::Delete, None));
        let unknown = of(ObjectFacts { desired: Some(&one), ..facts(Found::Unknown("forbidden".into())) });
        assert_eq!(unknown.note.as_deref(), Some("it could not be read: forbidden"));
    }

    #[test]
    fn a_value_in_the_servers_own_form_is_no_change() {
        let wanted = content("1000m");
        let asked = ObjectFacts {
            desired: Some(&wanted),
            old: Some(&wanted),
            would_be: Some(&live("1")),
            ..facts(Found::Present(live("1")))
        };
        assert_eq!(object_plan(&asked).change, Change::Keep);
        let unasked = ObjectFacts { would_be: None, ..asked.clone() };
        let digests = |facts: &ObjectFacts<'_>| {
            let plan = object_plan(facts);
            (plan.before_digest, plan.after_digest)
        };
        assert_eq!(digests(&asked), digests(&unasked), "what a dry-run answered is not part of the digest");
    }
}
