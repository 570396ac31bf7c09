//! Whose object is it, and may this revision write it? The collision table.

use olm_api::{names::REVISION_ANNOTATION, v1::CollisionProtection};
use serde_json::{Value, json};

use crate::object::{ObjectKey, text};

/// The revision on whose behalf objects are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// API version of the ClusterObjectSet.
    pub api_version: String,
    /// Kind, `ClusterObjectSet`.
    pub kind: String,
    /// Name of the ClusterObjectSet.
    pub name: String,
    /// UID of the ClusterObjectSet.
    pub uid: String,
    /// Revision number.
    pub revision: i64,
}

impl Owner {
    /// The controller owner reference put into every object of the revision.
    pub fn reference(&self) -> Value {
        json!({
            "apiVersion": self.api_version,
            "kind": self.kind,
            "name": self.name,
            "uid": self.uid,
            "controller": true,
            "blockOwnerDeletion": true,
        })
    }
}

/// The number under which the extension itself counts as a sibling: the original's Helm runtime made it the
/// controller of the objects, before there were revisions.
pub const BEFORE_REVISIONS: i64 = 0;

/// Another revision of the same extension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sibling {
    /// UID of its ClusterObjectSet; of the extension itself for [`BEFORE_REVISIONS`].
    pub uid: String,
    /// Its revision number.
    pub revision: i64,
}

/// Who controls an object that exists in the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ownership {
    /// This revision.
    Ours,
    /// An earlier revision of the same extension.
    OlderSibling(Sibling),
    /// A later revision of the same extension.
    NewerSibling(Sibling),
    /// A revision of the same extension that carries the same number.
    EqualSibling(Value),
    /// Nobody, and no revision has ever written it.
    Unowned,
    /// Nobody, but a revision once wrote it.
    Orphaned,
    /// Somebody else; the owner reference.
    Foreign(Value),
}

/// What to do with an object that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Bring it to the desired state.
    Update,
    /// Take the controller role over from the given owner, then as `Update`.
    TakeOver {
        /// UID of the owner that loses the role, when there is one.
        from_uid: Option<String>,
    },
    /// A newer revision has it: leave it, the phase counts as progressed.
    Leave,
    /// It may not be touched; the owner reference that stands against it, if any.
    Collision {
        /// The controller of the object.
        conflicting_owner: Option<Value>,
    },
}

/// Determines who controls `live`.
pub(crate) fn ownership(live: &Value, owner: &Owner, siblings: &[Sibling]) -> Ownership {
    let Some(controller) = controller_of(live) else {
        let touched = live
            .pointer("/metadata/annotations")
            .and_then(Value::as_object)
            .is_some_and(|annotations| annotations.contains_key(REVISION_ANNOTATION));
        return if touched { Ownership::Orphaned } else { Ownership::Unowned };
    };
    let uid = text(controller, "/uid");
    if uid == owner.uid {
        return Ownership::Ours;
    }
    match siblings.iter().find(|s| s.uid == uid) {
        Some(s) if s.revision < owner.revision => Ownership::OlderSibling(s.clone()),
        Some(s) if s.revision > owner.revision => Ownership::NewerSibling(s.clone()),
        Some(_) => Ownership::EqualSibling(controller.clone()),
        None => Ownership::Foreign(controller.clone()),
    }
}

/// The collision table: may this revision write the object?
pub(crate) fn verdict(ownership: &Ownership, protection: CollisionProtection) -> Verdict {
    match (ownership, protection) {
        (Ownership::Ours, _) => Verdict::Update,
        (Ownership::OlderSibling(sibling), _) => Verdict::TakeOver { from_uid: Some(sibling.uid.clone()) },
        (Ownership::NewerSibling(_), _) => Verdict::Leave,
        (Ownership::Unowned, CollisionProtection::IfNoController | CollisionProtection::None) => {
            Verdict::TakeOver { from_uid: None }
        }
        (Ownership::Foreign(reference), CollisionProtection::None) => {
            Verdict::TakeOver { from_uid: Some(text(reference, "/uid").to_owned()) }
        }
        (Ownership::Unowned | Ownership::Orphaned, _) => Verdict::Collision { conflicting_owner: None },
        (Ownership::EqualSibling(reference) | Ownership::Foreign(reference), _) => {
            Verdict::Collision { conflicting_owner: Some(reference.clone()) }
        }
    }
}

/// The report of one collision, as conditions show it.
pub(crate) fn collision_report(key: &ObjectKey, conflicting_owner: Option<&Value>) -> String {
    let mut report = format!("Object {key}\nAction: \"Collision\"");
    if let Some(reference) = conflicting_owner {
        report.push_str("\nConflicting Owner: ");
        report.push_str(&reference.to_string());
    }
    report
}

/// What teardown does with an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Teardown {
    /// Delete it.
    Delete,
    /// Only drop this revision's owner reference.
    Release,
    /// It has nothing to do with this revision.
    Leave,
}

/// Decides what an archived revision does with an object that still exists.
///
/// Ownership (UID) decides, never the revision number: two extensions may carry equal numbers.
pub fn teardown(live: &Value, owner: &Owner) -> Teardown {
    if controller_of(live).is_some_and(|reference| text(reference, "/uid") == owner.uid) {
        return Teardown::Delete;
    }
    let referenced = owner_references(live).any(|reference| text(reference, "/uid") == owner.uid);
    if referenced { Teardown::Release } else { Teardown::Leave }
}

/// The owner references of `live`.
pub fn owner_references(live: &Value) -> impl Iterator<Item = &Value> {
    live.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten()
}

/// The owner reference that has the controller role.
pub fn controller_of(live: &Value) -> Option<&Value> {
    owner_references(live).find(|r| r.get("controller").and_then(Value::as_bool).unwrap_or(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner() -> Owner {
        Owner {
            api_version: "olm.operatorframework.io/v1".into(),
            kind: "ClusterObjectSet".into(),
            name: "ext-2".into(),
            uid: "two".into(),
            revision: 2,
        }
    }

    fn siblings() -> Vec<Sibling> {
        [("one", 1), ("three", 3), ("twin", 2)]
            .map(|(uid, revision)| Sibling { uid: uid.into(), revision })
            .to_vec()
    }

    fn controlled_by(uid: &str) -> Value {
        json!({"metadata": {"ownerReferences": [
            {"uid": "bystander", "controller": false},
            {"uid": uid, "controller": true, "kind": "X", "name": "x"},
        ]}})
    }

    #[test]
    fn the_collision_table() {
        use CollisionProtection::{IfNoController, None as NoProtection, Prevent};
        type Check = fn(&Verdict) -> bool;
        let update = |v: &Verdict| matches!(v, Verdict::Update);
        let take = |v: &Verdict| matches!(v, Verdict::TakeOver { .. });
        let leave = |v: &Verdict| matches!(v, Verdict::Leave);
        let collide = |v: &Verdict| matches!(v, Verdict::Collision { .. });
        let orphan = json!({"metadata": {"annotations": {REVISION_ANNOTATION: "1"}}});
        let rows: [(&str, Value, [Check; 3]); 7] = [
            ("ours", controlled_by("two"), [update, update, update]),
            ("older sibling", controlled_by("one"), [take, take, take]),
            ("newer sibling", controlled_by("three"), [leave, leave, leave]),
            ("never managed", json!({"metadata": {}}), [collide, take, take]),
            ("orphaned before", orphan, [collide, collide, collide]),
            ("same number", controlled_by("twin"), [collide, collide, collide]),
            ("foreign", controlled_by("alien"), [collide, collide, take]),
        ];
        for (name, live, checks) in rows {
            let found = ownership(&live, &owner(), &siblings());
            for (protection, check) in [Prevent, IfNoController, NoProtection].into_iter().zip(checks) {
                assert!(check(&verdict(&found, protection)), "{name} under {protection:?}: {found:?}");
            }
        }
    }

    #[test]
    fn teardown_goes_by_uid() {
        assert_eq!(teardown(&controlled_by("two"), &owner()), Teardown::Delete);
        assert_eq!(teardown(&controlled_by("three"), &owner()), Teardown::Leave);
        let referenced = json!({"metadata": {
            "annotations": {REVISION_ANNOTATION: "2"},
            "ownerReferences": [{"uid": "two"}, {"uid": "three", "controller": true}],
        }});
        assert_eq!(teardown(&referenced, &owner()), Teardown::Release);
    }

    #[test]
    fn a_collision_names_object_and_owner() {
        let key = ObjectKey::of(
            &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "n"}}),
        );
        let report = collision_report(&key, Some(&json!({"name": "x"})));
        assert_eq!(
            report,
            "Object ConfigMap.v1 n/c\nAction: \"Collision\"\nConflicting Owner: {\"name\":\"x\"}"
        );
    }
}
