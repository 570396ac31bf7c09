//! The deletion policy of an extension, and the form of objects that it retains.
//!
//! The garbage collector removes objects with an owner reference, with foreground propagation without asking
//! their controller. So retained objects have none: an annotation with the UID of their ClusterObjectSet names the owner, which
//! together with the revision annotation counts as much as a controller reference does.

use olm_api::names::{
    DELETION_POLICY_ANNOTATION, GROUP, OWNER_NAME_LABEL, OWNER_UID_ANNOTATION, PACKAGE_NAME,
    REVISION_ANNOTATION,
};
use olm_object::{ObjectKey, text};
use serde_json::{Map, Value, json};

use crate::ownership::{Owner, controller_of, owner_references};

/// The objects that stay when an extension is deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeletionPolicy {
    /// They are deleted.
    #[default]
    Delete,
    /// CustomResourceDefinitions stay, and with them all custom resources.
    RetainCrds,
    /// All stay.
    Orphan,
}

impl DeletionPolicy {
    /// Every policy, the default first.
    pub const ALL: [Self; 3] = [Self::Delete, Self::RetainCrds, Self::Orphan];

    /// The value of the annotation.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Delete => "Delete",
            Self::RetainCrds => "RetainCRDs",
            Self::Orphan => "Orphan",
        }
    }

    /// The policy that the annotation selects; the default without one, nothing for another value.
    pub fn from_annotation(annotation: Option<&str>) -> Option<Self> {
        match annotation {
            None => Some(Self::Delete),
            Some(value) => Self::ALL.into_iter().find(|policy| policy.as_str() == value),
        }
    }

    /// Whether an object stays when the extension is deleted.
    pub fn keeps(self, key: &ObjectKey) -> bool {
        match self {
            Self::Delete => false,
            Self::RetainCrds => key.is_crd(),
            Self::Orphan => true,
        }
    }

    /// Whether an object stays that a newer revision no longer has.
    pub fn keeps_when_dropped(self, key: &ObjectKey) -> bool {
        self != Self::Delete && key.is_crd()
    }
}

/// The UID of the ClusterObjectSet that an object without owner reference belongs to, if it has the form of
/// retained objects.
pub fn retained_for(live: &Value) -> Option<&str> {
    if controller_of(live).is_some() {
        return None;
    }
    let annotations = live.pointer("/metadata/annotations")?.as_object()?;
    annotations.get(REVISION_ANNOTATION)?;
    annotations.get(OWNER_UID_ANNOTATION)?.as_str().filter(|uid| !uid.is_empty())
}

/// The extension and the package that an object was written for, by its label and its annotation.
pub fn written_for(object: &Value) -> Option<(&str, &str)> {
    let extension = object.pointer("/metadata/labels")?.get(OWNER_NAME_LABEL)?.as_str()?;
    let package = object.pointer("/metadata/annotations")?.get(PACKAGE_NAME)?.as_str()?;
    (!extension.is_empty() && !package.is_empty()).then_some((extension, package))
}

/// The JSON patch that gives an object of `owner` the form of its policy: owner reference or annotation.
/// Empty when it has it, and for objects of others.
///
/// One patch for both, so that the object has an owner at every moment.
pub fn form_patch(live: &Value, owner: &Owner) -> Vec<Value> {
    if !is_controlled_by(live, &owner.uid) {
        return Vec::new();
    }
    with_version(live, form_operations(live, owner))
}

/// The same for an object that the revision may take, whatever owns it now.
pub fn taking_form_patch(live: &Value, owner: &Owner) -> Vec<Value> {
    with_version(live, form_operations(live, owner))
}

/// Whether the object belongs to the ClusterObjectSet of this UID, by reference or by annotation.
pub(crate) fn is_controlled_by(live: &Value, uid: &str) -> bool {
    match controller_of(live) {
        Some(controller) => text(controller, "/uid") == uid,
        None => retained_for(live) == Some(uid),
    }
}

/// The operations that change the form of an object, whatever owns it now, into the one `owner` gives it. Empty
/// when applying the desired object is enough.
pub(crate) fn form_operations(live: &Value, owner: &Owner) -> Vec<Value> {
    let keeps = owner.policy.keeps(&ObjectKey::of(live));
    let ours = |reference: &Value| {
        text(reference, "/apiVersion").split('/').next().is_some_and(|group| group == GROUP)
    };
    let others: Vec<&Value> = owner_references(live).filter(|reference| !ours(reference)).collect();
    let annotated = live
        .pointer("/metadata/annotations")
        .and_then(Value::as_object)
        .is_some_and(|annotations| annotations.contains_key(OWNER_UID_ANNOTATION));
    let mut operations = Vec::new();
    if keeps {
        if owner_references(live).any(ours) {
            if live.pointer("/metadata/annotations").is_none() {
                operations.push(json!({"op": "add", "path": "/metadata/annotations", "value": {}}));
            }
            for (annotation, value) in
                [(OWNER_UID_ANNOTATION, owner.uid.clone()), (REVISION_ANNOTATION, owner.revision.to_string())]
            {
                operations.push(json!({"op": "add", "path": annotation_path(annotation), "value": value}));
            }
            operations.push(json!({"op": "add", "path": "/metadata/ownerReferences", "value": others}));
        }
    } else if annotated {
        let reference = owner.reference();
        let references: Vec<&Value> = others.into_iter().chain([&reference]).collect();
        operations.push(json!({"op": "add", "path": "/metadata/ownerReferences", "value": references}));
        operations.push(json!({"op": "remove", "path": annotation_path(OWNER_UID_ANNOTATION)}));
    }
    operations
}

/// Puts the test of the resource version before operations, if there are any.
pub(crate) fn with_version(live: &Value, mut operations: Vec<Value>) -> Vec<Value> {
    if !operations.is_empty() {
        let version = live.pointer("/metadata/resourceVersion").cloned().unwrap_or_default();
        operations.insert(0, json!({"op": "test", "path": "/metadata/resourceVersion", "value": version}));
    }
    operations
}

pub(crate) fn annotation_path(annotation: &str) -> String {
    format!("/metadata/annotations/{}", annotation.replace('~', "~0").replace('/', "~1"))
}

/// The explanation of a collision with an object that is retained for another owner.
pub(crate) fn retained_report(live: &Value, uid: &str) -> String {
    let whom = match written_for(live) {
        Some((extension, package)) => format!("ClusterExtension {extension:?} (package {package:?})"),
        None => "another owner".to_owned(),
    };
    format!(
        "Kept by the deletion policy of {whom}, for the ClusterObjectSet with UID {uid:?}: a ClusterExtension of the same name and package adopts it once that ClusterObjectSet is gone; for anybody else, delete the object or remove its annotations {OWNER_UID_ANNOTATION} and {REVISION_ANNOTATION}"
    )
}

/// Whether a CRD converts between its versions by a webhook.
pub fn converts_by_webhook(crd: &Value) -> bool {
    text(crd, "/spec/conversion/strategy") == "Webhook"
}

/// Checks that the objects of a CRD can be read without its conversion webhook.
///
/// # Errors
/// A sentence with the remedy.
pub fn readable_without_webhook(crd: &Value) -> Result<(), String> {
    if !converts_by_webhook(crd) {
        return Ok(());
    }
    let name = text(crd, "/metadata/name");
    let Some(storage) = storage_version(crd) else {
        return Err(format!("CRD {name:?} has no storage version: correct it"));
    };
    let stored = crd.pointer("/status/storedVersions").and_then(Value::as_array);
    let others: Vec<&str> = stored
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .filter(|version| *version != storage)
        .collect();
    if others.is_empty() {
        return Ok(());
    }
    Err(format!(
        "CRD {name:?} converts by a webhook that would go, and objects may be stored in {}, not only in its storage version {storage:?}: write each of them once without a change, then remove the others from status.storedVersions of the CRD; or set {DELETION_POLICY_ANNOTATION} to \"Orphan\", which keeps the webhook too",
        others.join(", ")
    ))
}

/// The JSON patch that leaves a CRD with webhook conversion serving only its storage version, without
/// conversion. Empty for all others.
pub fn without_webhook(crd: &Value) -> Vec<Value> {
    if !converts_by_webhook(crd) {
        return Vec::new();
    }
    let mut operations =
        vec![json!({"op": "add", "path": "/spec/conversion", "value": {"strategy": "None"}})];
    for (index, version) in versions(crd).enumerate() {
        let stored = version.get("storage") == Some(&json!(true));
        if version.get("served") != Some(&json!(stored)) {
            operations.push(
                json!({"op": "add", "path": format!("/spec/versions/{index}/served"), "value": stored}),
            );
        }
    }
    with_version(crd, operations)
}

fn versions(crd: &Value) -> impl Iterator<Item = &Value> {
    crd.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten()
}

fn storage_version(crd: &Value) -> Option<&str> {
    versions(crd).find(|version| version.get("storage") == Some(&json!(true)))?.get("name")?.as_str()
}

/// Gives the desired object the form of the owner's policy.
pub(crate) fn mark(metadata: &mut Map<String, Value>, key: &ObjectKey, owner: &Owner) {
    if owner.policy.keeps(key) {
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.insert(OWNER_UID_ANNOTATION.into(), owner.uid.clone().into());
        }
    } else {
        metadata.insert("ownerReferences".into(), json!([owner.reference()]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(policy: DeletionPolicy) -> Owner {
        Owner {
            api_version: "olm.operatorframework.io/v1".into(),
            kind: "ClusterObjectSet".into(),
            name: "ext-2".into(),
            uid: "two".into(),
            revision: 2,
            policy,
        }
    }

    fn crd_key() -> ObjectKey {
        ObjectKey::of(&json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}))
    }

    #[test]
    fn each_policy_keeps_what_it_says() {
        let map = ObjectKey::of(&json!({"apiVersion": "v1", "kind": "ConfigMap"}));
        let alike =
            ObjectKey::of(&json!({"apiVersion": "example.com/v1", "kind": "CustomResourceDefinition"}));
        // Policy; CRD, other object when the extension goes; CRD, other object when a revision drops it.
        let rows = [
            (DeletionPolicy::Delete, [false, false], [false, false]),
            (DeletionPolicy::RetainCrds, [true, false], [true, false]),
            (DeletionPolicy::Orphan, [true, true], [true, false]),
        ];
        for (policy, [crd, other], [dropped_crd, dropped_other]) in rows {
            assert_eq!(policy.keeps(&crd_key()), crd, "{policy:?}");
            assert_eq!(policy.keeps(&map), other, "{policy:?}");
            assert_eq!(policy.keeps(&alike), other, "{policy:?}: the group counts");
            assert_eq!(policy.keeps_when_dropped(&crd_key()), dropped_crd, "{policy:?}");
            assert_eq!(policy.keeps_when_dropped(&map), dropped_other, "{policy:?}");
            assert_eq!(DeletionPolicy::from_annotation(Some(policy.as_str())), Some(policy));
        }
        assert_eq!(DeletionPolicy::from_annotation(None), Some(DeletionPolicy::Delete));
        assert_eq!(DeletionPolicy::from_annotation(Some("orphan")), None);
    }

    fn live(metadata: &Value) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    }

    fn paths(operations: &[Value]) -> Vec<&str> {
        operations.iter().map(|operation| operation["path"].as_str().unwrap()).collect()
    }

    const UID_PATH: &str = "/metadata/annotations/olm.operatorframework.io~1owner-uid";

    #[test]
    fn a_reference_becomes_an_annotation_and_back_in_one_patch() {
        let reference = owner(DeletionPolicy::Delete).reference();
        let stranger = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "x"});
        let referenced = live(&json!({
            "resourceVersion": "7", "annotations": {REVISION_ANNOTATION: "2"},
            "ownerReferences": [stranger, reference],
        }));
        let patch = form_patch(&referenced, &owner(DeletionPolicy::Orphan));
        assert_eq!(
            paths(&patch),
            [
                "/metadata/resourceVersion",
                UID_PATH,
                "/metadata/annotations/olm.operatorframework.io~1revision",
                "/metadata/ownerReferences"
            ]
        );
        assert_eq!(patch[1]["value"], "two");
        assert_eq!(patch[3]["value"], json!([stranger]), "references of others stay");
        assert_eq!(form_patch(&referenced, &owner(DeletionPolicy::Delete)), Vec::<Value>::new());
        assert_eq!(form_patch(&referenced, &owner(DeletionPolicy::RetainCrds)), Vec::<Value>::new());

        let kept = live(&json!({
            "annotations": {REVISION_ANNOTATION: "2", OWNER_UID_ANNOTATION: "two"},
            "ownerReferences": [stranger],
        }));
        let patch = form_patch(&kept, &owner(DeletionPolicy::Delete));
        assert_eq!(paths(&patch), ["/metadata/resourceVersion", "/metadata/ownerReferences", UID_PATH]);
        assert_eq!(patch[1]["value"], json!([stranger, reference]));
        assert_eq!(patch[2]["op"], "remove");
        assert_eq!(form_patch(&kept, &owner(DeletionPolicy::Orphan)), Vec::<Value>::new());
    }

    #[test]
    fn objects_of_others_keep_their_form() {
        for metadata in [
            json!({"annotations": {REVISION_ANNOTATION: "1", OWNER_UID_ANNOTATION: "one"}}),
            json!({"ownerReferences": [{"apiVersion": "olm.operatorframework.io/v1", "uid": "one", "controller": true}]}),
            json!({"annotations": {OWNER_UID_ANNOTATION: "two"}}),
            json!({}),
        ] {
            for policy in DeletionPolicy::ALL {
                assert_eq!(form_patch(&live(&metadata), &owner(policy)), Vec::<Value>::new());
            }
        }
    }

    #[test]
    fn a_controller_reference_counts_before_the_annotation() {
        let both = live(&json!({
            "annotations": {REVISION_ANNOTATION: "2", OWNER_UID_ANNOTATION: "two"},
            "ownerReferences": [{"uid": "alien", "controller": true}],
        }));
        assert_eq!(retained_for(&both), None);
        assert!(!is_controlled_by(&both, "two"));
        assert!(is_controlled_by(&both, "alien"));
    }

    fn converting(stored: &[&str]) -> Value {
        json!({
            "metadata": {"name": "things.example.com", "resourceVersion": "3"},
            "spec": {
                "conversion": {"strategy": "Webhook", "webhook": {}},
                "versions": [
                    {"name": "v1", "served": true, "storage": false},
                    {"name": "v2", "served": true, "storage": true},
                ],
            },
            "status": {"storedVersions": stored},
        })
    }

    #[test]
    fn a_crd_goes_without_its_webhook_only_if_everything_is_stored_in_one_version() {
        assert_eq!(readable_without_webhook(&converting(&["v2"])), Ok(()));
        let error = readable_without_webhook(&converting(&["v1", "v2"])).unwrap_err();
        assert!(error.contains("stored in v1, not only in its storage version \"v2\""), "{error}");
        let mut plain = converting(&["v1", "v2"]);
        plain["spec"]["conversion"] = json!({"strategy": "None"});
        assert_eq!(readable_without_webhook(&plain), Ok(()));
        assert_eq!(without_webhook(&plain), Vec::<Value>::new());
    }

    #[test]
    fn without_its_webhook_a_crd_serves_its_storage_version_only() {
        let patch = without_webhook(&converting(&["v2"]));
        assert_eq!(
            patch,
            [
                json!({"op": "test", "path": "/metadata/resourceVersion", "value": "3"}),
                json!({"op": "add", "path": "/spec/conversion", "value": {"strategy": "None"}}),
                json!({"op": "add", "path": "/spec/versions/0/served", "value": false}),
            ]
        );
        let mut unserved = converting(&["v2"]);
        unserved["spec"]["versions"][1]["served"] = json!(false);
        assert_eq!(paths(&without_webhook(&unserved)).last(), Some(&"/spec/versions/1/served"));
    }
}
