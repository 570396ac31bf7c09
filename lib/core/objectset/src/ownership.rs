//! The controller of an object, and whether a revision may write it: the collision table.

use std::collections::BTreeSet;

use olm_api::{names::REVISION_ANNOTATION, v1::CollisionProtection};
use olm_object::{ObjectKey, text};
use serde_json::{Value, json};

use crate::{
    deletion_policy::{DeletionPolicy, is_controlled_by, retained_for, retained_report, written_for},
    olm_classic::classic_manager,
};

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
    /// The objects that stay when the extension is deleted.
    pub policy: DeletionPolicy,
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

/// The number under which the extension itself counts as a sibling: operator-controller's Helm runtime made it the
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

/// The controller of an object that exists in the cluster.
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
    /// It has none, and no revision has ever written it.
    Unowned,
    /// It has none, but a revision once wrote it.
    Orphaned,
    /// Another owner; the owner reference.
    Foreign(Value),
    /// A deletion policy retained it for an extension of the same name and package, whose revision is gone.
    RetainedForUs,
    /// A deletion policy retains it for a revision that is none of ours; the report.
    Retained(String),
}

/// Whether a revision may write an object that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Bring it to the desired state.
    Update,
    /// Take the controller role over from the given owner, then as `Update`.
    TakeOver {
        /// UID of the owner that loses the role, when there is one.
        from_uid: Option<String>,
    },
    /// A newer revision controls it: it is left alone, and the phase counts as progressed.
    Superseded,
    /// It may not be touched; the owner reference that conflicts, if any.
    Collision {
        /// The controller of the object.
        conflicting_owner: Option<Value>,
    },
    /// It may not be touched because it is retained for another owner; the report.
    Retained(String),
}

/// A revision and the revisions beside it, by which the owner of an object is recognised.
#[derive(Debug, Clone, Copy)]
pub struct OwnershipContext<'a> {
    /// The revision on whose behalf objects are written.
    pub owner: &'a Owner,
    /// The other revisions of the extension.
    pub siblings: &'a [Sibling],
    /// UIDs of all ClusterObjectSets that carry the extension's name, read from the API server. Without them
    /// no retained object of a revision that is gone is adopted.
    pub present: Option<&'a BTreeSet<String>>,
}

/// Determines who controls `live`, which is to become `desired`.
pub(crate) fn ownership(live: &Value, desired: &Value, context: OwnershipContext<'_>) -> Ownership {
    let OwnershipContext { owner, siblings, present } = context;
    let controller = controller_of(live);
    let Some(uid) = controller.map(|reference| text(reference, "/uid")).or_else(|| retained_for(live)) else {
        let touched = live
            .pointer("/metadata/annotations")
            .and_then(Value::as_object)
            .is_some_and(|annotations| annotations.contains_key(REVISION_ANNOTATION));
        return if touched { Ownership::Orphaned } else { Ownership::Unowned };
    };
    if uid == owner.uid {
        return Ownership::Ours;
    }
    match (siblings.iter().find(|s| s.uid == uid), controller) {
        (Some(s), _) if s.revision < owner.revision => Ownership::OlderSibling(s.clone()),
        (Some(s), _) if s.revision > owner.revision => Ownership::NewerSibling(s.clone()),
        (Some(_), controller) => {
            Ownership::EqualSibling(controller.cloned().unwrap_or_else(|| json!({"uid": uid})))
        }
        (None, Some(controller)) => Ownership::Foreign(controller.clone()),
        (None, None) => {
            let gone = present.is_some_and(|present| !present.contains(uid));
            if gone && written_for(desired).is_some() && written_for(desired) == written_for(live) {
                Ownership::RetainedForUs
            } else {
                Ownership::Retained(retained_report(live, uid))
            }
        }
    }
}

/// The collision table: may this revision write the object?
pub(crate) fn verdict(ownership: &Ownership, protection: CollisionProtection) -> Verdict {
    match (ownership, protection) {
        (Ownership::Ours, _) => Verdict::Update,
        (Ownership::OlderSibling(sibling), _) => Verdict::TakeOver { from_uid: Some(sibling.uid.clone()) },
        (Ownership::NewerSibling(_), _) => Verdict::Superseded,
        (Ownership::RetainedForUs, _)
        | (Ownership::Unowned, CollisionProtection::IfNoController | CollisionProtection::None) => {
            Verdict::TakeOver { from_uid: None }
        }
        (Ownership::Retained(report), _) => Verdict::Retained(report.clone()),
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
pub(crate) fn collision_report(key: &ObjectKey, conflicting_owner: Option<&Value>, live: &Value) -> String {
    let mut report = format!("Object {key}\nAction: \"Collision\"");
    if let Some(reference) = conflicting_owner {
        report.push_str("\nConflicting Owner: ");
        report.push_str(&reference.to_string());
    }
    if let Some(manager) = classic_manager(live) {
        report.push_str("\nManaged by OLM Classic: ");
        report.push_str(&manager);
    }
    report
}

/// The action of teardown on an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Teardown {
    /// Delete it.
    Delete,
    /// Only drop this revision's owner reference.
    Release,
    /// The deletion policy retains it: only give it the form of retained objects.
    Keep,
    /// It has nothing to do with this revision.
    Leave,
}

/// Decides the action of an archived revision on an object that still exists.
///
/// Ownership (UID) decides, never the revision number: two extensions may carry equal numbers.
pub fn teardown(live: &Value, owner: &Owner) -> Teardown {
    if is_controlled_by(live, &owner.uid) {
        let kept = owner.policy.keeps_when_dropped(&ObjectKey::of(live));
        return if kept { Teardown::Keep } else { Teardown::Delete };
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
    use olm_api::names::{OWNER_NAME_LABEL, OWNER_UID_ANNOTATION, PACKAGE_NAME};

    use super::*;

    fn owner() -> Owner {
        Owner {
            api_version: "olm.operatorframework.io/v1".into(),
            kind: "ClusterObjectSet".into(),
            name: "ext-2".into(),
            uid: "two".into(),
            revision: 2,
            policy: DeletionPolicy::Delete,
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

    /// Annotated as retained for this UID, of this extension and package.
    fn kept(uid: &str, extension: &str, package: &str) -> Value {
        json!({"metadata": {
            "labels": {OWNER_NAME_LABEL: extension},
            "annotations": {REVISION_ANNOTATION: "1", OWNER_UID_ANNOTATION: uid, PACKAGE_NAME: package},
            "ownerReferences": [{"uid": "bystander", "controller": false}],
        }})
    }

    #[test]
    fn the_collision_table() {
        use CollisionProtection::{IfNoController, None as NoProtection, Prevent};
        type Check = fn(&Verdict) -> bool;
        let update = |v: &Verdict| matches!(v, Verdict::Update);
        let take = |v: &Verdict| matches!(v, Verdict::TakeOver { .. });
        let leave = |v: &Verdict| matches!(v, Verdict::Superseded);
        let collide = |v: &Verdict| matches!(v, Verdict::Collision { .. });
        let orphan = json!({"metadata": {"annotations": {REVISION_ANNOTATION: "1"}}});
        let stays = |v: &Verdict| matches!(v, Verdict::Retained(_));
        let rows: [(&str, Value, [Check; 3]); 14] = [
            ("ours", controlled_by("two"), [update, update, update]),
            ("older sibling", controlled_by("one"), [take, take, take]),
            ("newer sibling", controlled_by("three"), [leave, leave, leave]),
            ("never managed", json!({"metadata": {}}), [collide, take, take]),
            ("orphaned before", orphan, [collide, collide, collide]),
            ("same number", controlled_by("twin"), [collide, collide, collide]),
            ("foreign", controlled_by("alien"), [collide, collide, take]),
            ("kept, ours", kept("two", "ext", "pkg"), [update, update, update]),
            ("kept, older sibling", kept("one", "ext", "pkg"), [take, take, take]),
            ("kept, newer sibling", kept("three", "ext", "pkg"), [leave, leave, leave]),
            ("kept, same number", kept("twin", "ext", "pkg"), [collide, collide, collide]),
            ("kept, its revision is gone", kept("gone", "ext", "pkg"), [take, take, take]),
            ("kept, its revision exists", kept("standing", "ext", "pkg"), [stays, stays, stays]),
            ("kept for another package", kept("gone", "ext", "other"), [stays, stays, stays]),
        ];
        let (owner, siblings, present) = (owner(), siblings(), BTreeSet::from(["standing".to_owned()]));
        let revisions = OwnershipContext { owner: &owner, siblings: &siblings, present: Some(&present) };
        let desired = kept("two", "ext", "pkg");
        for (name, live, checks) in rows {
            let found = ownership(&live, &desired, revisions);
            for (protection, check) in [Prevent, IfNoController, NoProtection].into_iter().zip(checks) {
                assert!(check(&verdict(&found, protection)), "{name} under {protection:?}: {found:?}");
            }
        }
    }

    #[test]
    fn retained_objects_are_adopted_by_the_same_extension_only() {
        let (owner, siblings, present) = (owner(), siblings(), BTreeSet::new());
        let asked = OwnershipContext { owner: &owner, siblings: &siblings, present: Some(&present) };
        let unasked = OwnershipContext { present: None, ..asked };
        let ours = kept("two", "ext", "pkg");
        let live = kept("gone", "ext", "pkg");
        assert_eq!(ownership(&live, &ours, asked), Ownership::RetainedForUs);
        for (live, desired, revisions) in [
            (&live, &ours, unasked),
            (&live, &kept("two", "another", "pkg"), asked),
            (&live, &kept("two", "ext", "another"), asked),
            // A revision made by hand writes for no extension: the empty names of both are not equal.
            (&kept("gone", "", ""), &kept("two", "", ""), asked),
        ] {
            let found = ownership(live, desired, revisions);
            let Verdict::Retained(report) = verdict(&found, CollisionProtection::None) else {
                panic!("{found:?}")
            };
            assert!(report.starts_with("Kept by the deletion policy of "), "{report}");
        }
        let Ownership::Retained(report) = ownership(&live, &kept("x", "another", "pkg"), asked) else {
            panic!("not kept")
        };
        assert!(report.contains("ClusterExtension \"ext\" (package \"pkg\")"), "{report}");
    }

    #[test]
    fn teardown_keeps_crds_only_and_only_under_a_policy_that_does() {
        let object = |api_version: &str, kind: &str, mut live: Value| {
            live["apiVersion"] = api_version.into();
            live["kind"] = kind.into();
            live
        };
        for policy in DeletionPolicy::ALL {
            let owner = Owner { policy, ..owner() };
            let keeps = policy != DeletionPolicy::Delete;
            for live in [controlled_by("two"), kept("two", "ext", "pkg")] {
                let crd = object("apiextensions.k8s.io/v1", "CustomResourceDefinition", live.clone());
                let wanted = if keeps { Teardown::Keep } else { Teardown::Delete };
                assert_eq!(teardown(&crd, &owner), wanted, "{policy:?}");
                assert_eq!(teardown(&object("v1", "ConfigMap", live), &owner), Teardown::Delete);
            }
            assert_eq!(teardown(&kept("three", "ext", "pkg"), &owner), Teardown::Leave);
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
        let report = collision_report(&key, Some(&json!({"name": "x"})), &json!({}));
        assert_eq!(
            report,
            "Object ConfigMap.v1 n/c\nAction: \"Collision\"\nConflicting Owner: {\"name\":\"x\"}"
        );
    }
}
