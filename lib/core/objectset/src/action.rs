//! The next step for one object of a revision, decided from the object in the cluster.

use olm_api::{
    names::{OBJECT_FIELD_MANAGER, REVISION_ANNOTATION},
    v1::CollisionProtection,
};
use olm_object::{ObjectKey, text};
use serde_json::{Value, json};

use crate::{
    adoption::adopt_fields,
    deletion_policy::{annotation_path, form_operations, with_version},
    digest::sha256,
    drift::{projection, satisfied},
    ownership::{
        BEFORE_REVISIONS, Owner, OwnershipContext, Sibling, Verdict, collision_report, owner_references,
        ownership, verdict,
    },
};

/// Names under which operator-controller's Helm runtime updates objects; the second is that of a client without one.
const MANAGERS_OF_HELM: [&str; 2] = ["operator-controller", "Go-http-client"];

/// The next step for one object.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// It does not exist: create it.
    Create,
    /// Bring it to the desired state with server-side apply, after the given JSON patch of its metadata.
    Apply {
        /// Operations that must succeed first; empty when apply alone is enough.
        metadata_patch: Vec<Value>,
    },
    /// It has the desired state.
    UpToDate,
    /// A newer revision controls it.
    Superseded,
    /// It is being deleted; it is created anew once it has gone.
    AwaitDeletion,
    /// It may not be touched.
    Collision {
        /// The report for the condition.
        report: String,
        /// Whether the owner is a ClusterObjectSet: perhaps a sibling that is not known yet, or one that is gone.
        with_set: bool,
        /// Kind and name of the owner, if it has one.
        owner: Option<(String, String)>,
    },
}

/// Plans the action for one object.
///
/// `desired` is the object as the revision writes it; `live` what is in the cluster; `last_applied` the digest
/// that [`observation_digest`] gave for the answer to the last apply of the same `desired`, if it is known.
pub fn action(
    context: OwnershipContext<'_>,
    protection: CollisionProtection,
    desired: &Value,
    live: Option<&Value>,
    last_applied: Option<&str>,
) -> Action {
    let Some(live) = live else {
        return Action::Create;
    };
    let owner = context.owner;
    let status = ownership(live, desired, context);
    let taken_from = match verdict(&status, protection) {
        Verdict::Superseded => return Action::Superseded,
        Verdict::Retained(report) => {
            let collision = collision_report(&ObjectKey::of(desired), None, live);
            return Action::Collision {
                report: format!("{collision}\n{report}"),
                with_set: true,
                owner: None,
            };
        }
        Verdict::Collision { conflicting_owner } => {
            let owner = conflicting_owner
                .as_ref()
                .map(|reference| (text(reference, "/kind").to_owned(), text(reference, "/name").to_owned()));
            return Action::Collision {
                report: collision_report(&ObjectKey::of(desired), conflicting_owner.as_ref(), live),
                with_set: owner.as_ref().is_some_and(|(kind, _)| kind == "ClusterObjectSet"),
                owner,
            };
        }
        Verdict::Update => None,
        Verdict::TakeOver { from_uid } => Some(from_uid),
    };
    if live.pointer("/metadata/deletionTimestamp").is_some() {
        return Action::AwaitDeletion;
    }
    let mut form = form_operations(live, owner);
    if taken_from.is_some() && !form.is_empty() {
        form.push(not_applied_yet());
    }
    if taken_from.is_none()
        && form.is_empty()
        && (satisfied(live, desired) || last_applied == Some(observation_digest(live, desired).as_str()))
    {
        return Action::UpToDate;
    }
    let taken_from = taken_from.flatten();
    let is_extension = |s: &&Sibling| s.revision == BEFORE_REVISIONS && Some(&s.uid) == taken_from.as_ref();
    let was_helms = context.siblings.iter().any(|s| is_extension(&s));
    let managers = if was_helms { &MANAGERS_OF_HELM[..] } else { &[] };
    Action::Apply { metadata_patch: metadata_patch(live, owner, taken_from.as_deref(), form, managers) }
}

/// Digest of the values that the fields of `desired` have in `live`.
pub fn observation_digest(live: &Value, desired: &Value) -> String {
    sha256(&projection(live, desired))
}

/// The changes of metadata that server-side apply cannot make by itself; `form` are the operations that mark the object as this owner's.
///
/// Fields that `managers` own by update become fields we have applied, so that those we no longer want go.
///
/// Who loses the controller's role is replaced in one step: between this and the apply the process may end, and an
/// object without an owner would never get one again.
fn metadata_patch(
    live: &Value,
    owner: &Owner,
    taken_from: Option<&str>,
    form: Vec<Value>,
    managers: &[&str],
) -> Vec<Value> {
    let mut patch = Vec::new();
    if let Some(entries) = adopt_fields(live, managers) {
        patch.push(json!({"op": "replace", "path": "/metadata/managedFields", "value": entries}));
    }
    let is_of = |uid: &str| owner_references(live).any(|reference| text(reference, "/uid") == uid);
    if !form.is_empty() {
        patch.extend(form);
    } else if let Some(uid) = taken_from.filter(|uid| is_of(uid)) {
        let others = owner_references(live).filter(|reference| text(reference, "/uid") != uid).cloned();
        let references: Vec<Value> = others.chain([owner.reference()]).collect();
        // Apply itself drops the reference if this field manager set it; this is for all other cases,
        // since two controllers on one object are refused.
        if !patch.is_empty() || !manages_owner(live, uid) {
            patch.push(json!({"op": "replace", "path": "/metadata/ownerReferences", "value": references}));
        }
    }
    with_version(live, patch)
}

/// The operation that marks an object as not applied yet. Otherwise, if the process ends between taking it over and
/// applying it, fields that its new revision no longer has stay for ever.
fn not_applied_yet() -> Value {
    json!({"op": "add", "path": annotation_path(REVISION_ANNOTATION), "value": BEFORE_REVISIONS.to_string()})
}

/// Whether our field manager, by apply, owns the owner reference with this UID.
fn manages_owner(live: &Value, uid: &str) -> bool {
    let key = format!("k:{{\"uid\":{uid:?}}}");
    live.pointer("/metadata/managedFields").and_then(Value::as_array).into_iter().flatten().any(|entry| {
        text(entry, "/manager") == OBJECT_FIELD_MANAGER
            && text(entry, "/operation") == "Apply"
            && entry
                .pointer("/fieldsV1/f:metadata/f:ownerReferences")
                .is_some_and(|set| set.get(&key).is_some())
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use olm_api::names::PACKAGE_NAME;

    use super::*;
    use crate::{DeletionPolicy, prepare::for_revision};

    fn owner(uid: &str, revision: i64) -> Owner {
        Owner {
            api_version: "olm.operatorframework.io/v1".into(),
            kind: "ClusterObjectSet".into(),
            name: format!("ext-{revision}"),
            uid: uid.into(),
            revision,
            policy: DeletionPolicy::Delete,
        }
    }

    fn stored(value: i64) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "n"}, "data": {"v": value}})
    }

    fn plan(desired: &Value, live: Option<&Value>, last_applied: Option<&str>) -> Action {
        let owner = owner("two", 2);
        let siblings = [Sibling { uid: "one".into(), revision: 1 }];
        action(
            OwnershipContext { owner: &owner, siblings: &siblings, present: None },
            CollisionProtection::Prevent,
            desired,
            live,
            last_applied,
        )
    }

    #[test]
    fn absent_objects_are_created_and_equal_ones_left_alone() {
        let desired = for_revision(stored(1), &owner("two", 2), Some("ext"));
        assert_eq!(plan(&desired, None, None), Action::Create);
        assert_eq!(plan(&desired, Some(&desired), None), Action::UpToDate);
    }

    #[test]
    fn drift_is_applied_unless_the_server_writes_the_value_in_its_own_form() {
        let desired = for_revision(stored(1), &owner("two", 2), Some("ext"));
        let live = for_revision(stored(2), &owner("two", 2), Some("ext"));
        assert_eq!(plan(&desired, Some(&live), None), Action::Apply { metadata_patch: vec![] });
        let digest = observation_digest(&live, &desired);
        assert_eq!(plan(&desired, Some(&live), Some(&digest)), Action::UpToDate);
    }

    #[test]
    fn an_older_revisions_object_is_taken_over_in_one_apply_when_we_applied_it() {
        let desired = for_revision(stored(1), &owner("two", 2), Some("ext"));
        let mut live = for_revision(stored(1), &owner("one", 1), Some("ext"));
        live["metadata"]["managedFields"] = json!([{
            "manager": "olm.operatorframework.io", "operation": "Apply",
            "fieldsV1": {"f:metadata": {"f:ownerReferences": {"k:{\"uid\":\"one\"}": {}}}},
        }]);
        assert_eq!(plan(&desired, Some(&live), None), Action::Apply { metadata_patch: vec![] });
    }

    #[test]
    fn taking_over_a_created_object_moves_its_fields_first() {
        let desired = for_revision(stored(1), &owner("two", 2), Some("ext"));
        let mut live = for_revision(stored(1), &owner("one", 1), Some("ext"));
        live["metadata"]["resourceVersion"] = json!("7");
        live["metadata"]["managedFields"] = json!([{"manager": "olm.operatorframework.io", "operation": "Update", "fieldsV1": {"f:data": {}}}]);
        let Action::Apply { metadata_patch } = plan(&desired, Some(&live), None) else { panic!("no apply") };
        let paths: Vec<_> = metadata_patch.iter().map(|op| op["path"].as_str().unwrap()).collect();
        assert_eq!(
            paths,
            ["/metadata/resourceVersion", "/metadata/managedFields", "/metadata/ownerReferences"]
        );
        assert_eq!(metadata_patch[2]["value"], json!([owner("two", 2).reference()]), "never nobody's");
    }

    #[test]
    fn retained_objects_always_have_an_owner_while_they_change_hands() {
        let of = |uid: &str, revision: i64, policy: DeletionPolicy| Owner { policy, ..owner(uid, revision) };
        let siblings = [Sibling { uid: "one".into(), revision: 1 }];
        let paths_for = |live: &Value, owner: &Owner| {
            let desired = for_revision(stored(1), owner, Some("ext"));
            let context = OwnershipContext { owner, siblings: &siblings, present: None };
            match action(context, CollisionProtection::Prevent, &desired, Some(live), None) {
                Action::Apply { metadata_patch } => {
                    metadata_patch.iter().map(|op| op["path"].as_str().unwrap().to_owned()).collect()
                }
                other => vec![format!("{other:?}")],
            }
        };
        let (delete, orphan) = (DeletionPolicy::Delete, DeletionPolicy::Orphan);
        let live = |uid: &str, revision: i64, policy| {
            for_revision(stored(1), &of(uid, revision, policy), Some("ext"))
        };
        let version = "/metadata/resourceVersion";
        let uid = "/metadata/annotations/olm.operatorframework.io~1owner-uid";
        let revision = "/metadata/annotations/olm.operatorframework.io~1revision";
        let owners = "/metadata/ownerReferences";
        let rows: [(&str, Value, DeletionPolicy, Vec<&str>); 6] = [
            ("kept, as it should be", live("two", 2, orphan), orphan, vec!["UpToDate"]),
            ("kept, from the older one by apply alone", live("one", 1, orphan), orphan, vec![]),
            ("to be kept", live("two", 2, delete), orphan, vec![version, uid, revision, owners]),
            (
                "to be kept, from the older",
                live("one", 1, delete),
                orphan,
                vec![version, uid, revision, owners, revision],
            ),
            ("no longer kept", live("two", 2, orphan), delete, vec![version, owners, uid]),
            (
                "no longer kept, from the older",
                live("one", 1, orphan),
                delete,
                vec![version, owners, uid, revision],
            ),
        ];
        for (name, live, policy, paths) in rows {
            assert_eq!(paths_for(&live, &of("two", 2, policy)), paths, "{name}");
        }
    }

    /// The object after a JSON patch.
    fn patched(live: &Value, patch: &[Value]) -> Value {
        let mut object = live.clone();
        for operation in patch {
            let (parent, field) = operation["path"].as_str().unwrap().rsplit_once('/').unwrap();
            let fields = object.pointer_mut(parent).unwrap().as_object_mut().unwrap();
            let field = field.replace("~1", "/");
            match operation["op"].as_str().unwrap() {
                "test" => {}
                "remove" => drop(fields.remove(&field)),
                _ => drop(fields.insert(field, operation["value"].clone())),
            }
        }
        object
    }

    #[test]
    fn what_was_taken_over_is_applied_even_if_the_process_ended_before_that() {
        let of = |uid: &str, policy: DeletionPolicy| Owner { policy, ..owner(uid, 1) };
        let mut stored = stored(1);
        stored["metadata"]["annotations"][PACKAGE_NAME] = "pkg".into();
        let mut live = for_revision(stored.clone(), &of("gone", DeletionPolicy::Orphan), Some("ext"));
        // The new revision no longer has this.
        live["data"]["old"] = "x".into();
        let present = BTreeSet::new();
        for policy in DeletionPolicy::ALL {
            let owner = of("two", policy);
            let desired = for_revision(stored.clone(), &owner, Some("ext"));
            let planned = |live: &Value| {
                let context = OwnershipContext { owner: &owner, siblings: &[], present: Some(&present) };
                action(context, CollisionProtection::Prevent, &desired, Some(live), None)
            };
            let Action::Apply { metadata_patch } = planned(&live) else { panic!("{policy:?}: no apply") };
            let between = patched(&live, &metadata_patch);
            let after = planned(&between);
            assert!(matches!(after, Action::Apply { .. }), "{policy:?}: {after:?} for {between}");
        }
    }

    #[test]
    fn what_helm_wrote_for_the_extension_is_taken_over_with_its_fields() {
        let desired = for_revision(stored(1), &owner("two", 2), Some("ext"));
        let mut live = stored(1);
        live["metadata"]["resourceVersion"] = json!("7");
        live["metadata"]["ownerReferences"] = json!([{"uid": "extension", "controller": true}]);
        let entry = |manager: &str, fields: Value| json!({"manager": manager, "operation": "Update", "apiVersion": "v1", "fieldsV1": fields});
        live["metadata"]["managedFields"] = json!([
            entry("operator-controller", json!({"f:data": {"f:v": {}}})),
            entry("somebody", json!({"f:data": {"f:x": {}}})),
            entry("Go-http-client", json!({"f:metadata": {"f:labels": {}}})),
        ]);
        let owner = owner("two", 2);
        let planned = |revision: i64| {
            let siblings = [Sibling { uid: "extension".into(), revision }];
            let context = OwnershipContext { owner: &owner, siblings: &siblings, present: None };
            action(context, CollisionProtection::Prevent, &desired, Some(&live), None)
        };
        let Action::Apply { metadata_patch } = planned(BEFORE_REVISIONS) else { panic!("no apply") };
        let entries = metadata_patch[1]["value"].as_array().unwrap();
        assert_eq!(entries.len(), 2, "{entries:?}");
        assert_eq!(entries[0]["manager"], "somebody");
        assert_eq!(entries[1]["manager"], OBJECT_FIELD_MANAGER);
        assert_eq!(entries[1]["operation"], "Apply");
        assert_eq!(entries[1]["fieldsV1"], json!({"f:data": {"f:v": {}}, "f:metadata": {"f:labels": {}}}));
        assert_eq!(metadata_patch[2]["value"], json!([owner.reference()]), "never nobody's");
        // An earlier revision's objects were never Helm's.
        let Action::Apply { metadata_patch } = planned(1) else { panic!("no apply") };
        assert_eq!(metadata_patch.len(), 2, "{metadata_patch:?}");
    }

    #[test]
    fn an_object_on_its_way_out_is_waited_for() {
        let desired = for_revision(stored(1), &owner("two", 2), Some("ext"));
        let mut live = desired.clone();
        live["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert_eq!(plan(&desired, Some(&live), None), Action::AwaitDeletion);
    }

    #[test]
    fn an_object_of_olm_classic_is_reported_as_such() {
        let desired = for_revision(stored(1), &owner("two", 2), Some("ext"));
        let mut live = stored(1);
        live["metadata"]["labels"] = json!({
            "olm.owner": "op.v1", "olm.owner.kind": "ClusterServiceVersion", "olm.owner.namespace": "ops",
        });
        let wanted = "Object ConfigMap.v1 n/c\nAction: \"Collision\"\nManaged by OLM Classic: ClusterServiceVersion ops/op.v1";
        assert_eq!(
            plan(&desired, Some(&live), None),
            Action::Collision { report: wanted.into(), with_set: false, owner: None }
        );
    }

    #[test]
    fn foreign_objects_collide() {
        let desired = for_revision(stored(1), &owner("two", 2), Some("ext"));
        let live = for_revision(stored(1), &owner("alien", 1), Some("other"));
        let Action::Collision { report, with_set: true, owner } = plan(&desired, Some(&live), None) else {
            panic!("no collision")
        };
        assert_eq!(owner, Some(("ClusterObjectSet".to_owned(), "ext-1".to_owned())));
        assert!(
            report.starts_with("Object ConfigMap.v1 n/c\nAction: \"Collision\"\nConflicting Owner: {"),
            "{report}"
        );
    }
}
