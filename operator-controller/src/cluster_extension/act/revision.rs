//! Writes a revision: its Secrets, the ClusterObjectSet, and what keeps both together.
//!
//! Secrets come before the set that refers to them. A process that dies in between leaves Secrets without an
//! owner; the next reconcile, or the one that removes the finalizers, adopts those that have a set and removes the others.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{
    Api, Resource, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject},
    runtime::reflector::ObjectRef,
};
use olm_api::{
    names::{
        CATALOG_ANNOTATION, CATALOG_PROPERTIES_ANNOTATION, DECLARED_ANNOTATION, EXTENSION_FIELD_MANAGER,
        INPUTS_DIGEST_ANNOTATION, MIGRATED_FROM_HELM_LABEL, OWNER_KIND_LABEL, OWNER_NAME_LABEL,
        PROPERTIES_ANNOTATION, RETURNED_FROM_ANNOTATION, REVISION_OF_ANNOTATION, ROLLED_BACK_TO_ANNOTATION,
        TEARDOWN_FINALIZER, UNKNOWN_KINDS_ANNOTATION, WEBHOOK_CERTIFICATE_PROVIDER_ANNOTATION,
    },
    ownership::{revision_name, revision_of},
    v1::{ClusterExtension, ClusterObjectSet},
};
use olm_dependencies::REQUIREMENTS;
use olm_fbc::{PROPERTY_GVK, PROPERTY_PACKAGE, Property};
use olm_objectset::{Packed, default_probes, pack};
use olm_render::CertificateProvider;
use olm_runtime::{AccountRef, api_text, bounded, if_exists, post_as};
use serde_json::{Value, json};

use crate::{
    cluster_extension::{
        Context,
        observe::revisions::{Revision, Revisions},
        plan::Draft,
    },
    deletion_policy,
};

/// Archived revisions that are kept for people to look at.
const ARCHIVED_REVISIONS_KEPT: usize = 5;

/// Most bytes of the record of a bundle's catalog properties. All annotations of an object together may have
/// 256 KiB; the largest real record has 20 KB.
const CATALOG_PROPERTIES_BYTES_MAX: usize = 96 << 10;
/// Most bytes of the record of what the bundle itself declares to require.
const DECLARED_BYTES_MAX: usize = 16 << 10;

/// The record of a bundle's catalog properties. Of too many, those without effect on others' requirements go
/// first: what stays are package and kinds.
fn properties_text(properties: &[Property]) -> Result<String, String> {
    let encode = |all: &[&Property]| {
        serde_json::to_string(all).map_err(|e| format!("recording the properties of the catalog: {e}"))
    };
    let all: Vec<&Property> = properties.iter().collect();
    let text = encode(&all)?;
    if text.len() <= CATALOG_PROPERTIES_BYTES_MAX {
        return Ok(text);
    }
    let is_needed = |p: &&Property| {
        let kind = p.kind.as_str();
        [PROPERTY_PACKAGE, PROPERTY_GVK].contains(&kind) || REQUIREMENTS.contains(&kind)
    };
    let text = encode(&all.into_iter().filter(is_needed).collect::<Vec<_>>())?;
    if text.len() <= CATALOG_PROPERTIES_BYTES_MAX { Ok(text) } else { Ok("[]".to_owned()) }
}

/// The record of what the bundle itself declares to require; no list where it is too large for one.
fn declared_text(declared: &[Property]) -> String {
    let text = serde_json::to_string(declared).ok().filter(|text| text.len() <= DECLARED_BYTES_MAX);
    text.unwrap_or_else(|| "null".to_owned())
}

/// A revision to be written.
#[derive(Clone, Copy)]
pub(crate) struct NewRevision<'a> {
    pub(crate) number: i64,
    pub(crate) draft: &'a Draft,
    /// Whom it acts as; `None` only for what is taken over, which then waits for an account.
    pub(crate) account: Option<&'a AccountRef>,
    /// What is recorded of its plan; `None` when it is made of a Helm release.
    pub(crate) planned: Option<&'a [Recorded<'a>]>,
}

/// An annotation that a revision records something under, if there is anything.
pub(crate) type Recorded<'a> = (&'static str, Option<&'a str>);

/// Writes revisions of one extension.
#[derive(Clone, Copy)]
pub(crate) struct RevisionWriter<'a> {
    pub(crate) cx: &'a Context,
    pub(crate) extension: &'a ClusterExtension,
    /// UID of the ServiceAccount that the extension acts as, once it is known.
    pub(crate) account_uid: Option<&'a str>,
}

/// The reference to a controller that the owned object goes with.
pub(crate) fn controller_reference<K: Resource<DynamicType = ()>>(owner: &ObjectMeta) -> OwnerReference {
    OwnerReference {
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        name: owner.name.clone().unwrap_or_default(),
        uid: owner.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

impl RevisionWriter<'_> {
    /// Writes a new revision; its name.
    ///
    /// # Errors
    /// The text says at which step, in upstream's words.
    pub(crate) async fn create(
        &self,
        new: &NewRevision<'_>,
        revisions: &Revisions,
    ) -> Result<String, String> {
        self.remove_old(revisions).await.map_err(|e| format!("garbage collecting old revisions: {e}"))?;
        let name = self.revision_name(new.number);
        if let Some(why) = self.waits_for(&name) {
            return Err(format!("creating new Revision: {why}"));
        }
        let packed =
            pack(&name, &new.draft.phases).map_err(|e| format!("packing objects into Secrets: {e}"))?;
        for secret in &packed.secrets {
            let created = self.create_secret(&name, &secret.name, &secret.data).await;
            created.map_err(|e| format!("creating ref Secret {:?}: {e}", secret.name))?;
        }
        let set = self.object_set(&name, new, &packed)?;
        let created = self.create_set(set).await.map_err(|e| format!("creating new Revision: {e}"))?;
        self.adopt(&created.metadata, packed.secrets.iter().map(|s| s.name.as_str()))
            .await
            .map_err(|e| format!("patching ownerReferences on ref Secrets: {e}"))?;
        Ok(name)
    }

    /// Brings the mutable part of the latest revision up to date: its deadline, the record of its inputs, the catalog
    /// that has its bundle with the bundle's properties there, if there is one, and `account`, whom it acts as. Without
    /// an account that part stays as it is.
    pub(crate) async fn refresh(
        &self,
        revision: &Revision,
        account: Option<&AccountRef>,
        inputs_digest: &str,
        origin: Option<(&str, &[Property])>,
    ) -> Result<(), String> {
        let deadline = self.extension.spec.progress_deadline_minutes;
        let recorded =
            origin.is_none_or(|(catalog, _)| revision.annotation(CATALOG_ANNOTATION) == Some(catalog));
        if recorded
            && account.is_none_or(|account| revision.account.as_ref() == Some(account))
            && revision.set.spec.progress_deadline_minutes == deadline
            && revision.annotation(INPUTS_DIGEST_ANNOTATION) == Some(inputs_digest)
            && revision.set.annotations().get(UNKNOWN_KINDS_ANNOTATION) == self.unknown_kinds()
        {
            return Ok(());
        }
        let mut annotations = json!(account.map(|account| self.acting_as(account)).unwrap_or_default());
        annotations[INPUTS_DIGEST_ANNOTATION] = inputs_digest.into();
        annotations[UNKNOWN_KINDS_ANNOTATION] = json!(self.unknown_kinds());
        if let Some((catalog, properties)) = origin {
            annotations[CATALOG_ANNOTATION] = catalog.into();
            annotations[CATALOG_PROPERTIES_ANNOTATION] = properties_text(properties)?.into();
        }
        let patch = json!({
            // Not on a set of the same name that was made since.
            "metadata": {"uid": revision.uid, "annotations": annotations},
            "spec": {"progressDeadlineMinutes": deadline},
        });
        let patched = self.cx.patch_set(self.extension, &revision.name, patch).await;
        patched.map(drop).map_err(|e| format!("patching {} Revision: {}", revision.name, api_text(&e)))
    }

    fn unknown_kinds(&self) -> Option<&String> {
        self.extension.annotations().get(UNKNOWN_KINDS_ANNOTATION)
    }

    fn revision_name(&self, number: i64) -> String {
        revision_name(&self.extension.name_any(), number)
    }

    /// The number of the next revision. Those whose names other sets have are left out, which cannot be written over
    /// and would stand in the way as long as their owner wants.
    ///
    /// # Errors
    /// There is no number left.
    pub(crate) fn next_number(&self, revisions: &Revisions) -> Result<i64, String> {
        let mut number = revisions.last_number();
        loop {
            number = number.checked_add(1).ok_or("the numbers of revisions are used up")?;
            let found = self.cx.sets.get(&ObjectRef::new(&self.revision_name(number)));
            if found.is_none_or(|found| !self.is_taken_by(found.meta())) {
                return Ok(number);
            }
        }
    }

    /// Whether a set that has the name of a revision is neither one nor on its way out.
    fn is_taken_by(&self, set: &ObjectMeta) -> bool {
        let name = self.extension.name_any();
        revision_of(set).is_none_or(|owner| owner.name != name)
    }

    /// A set of an earlier extension of this name that has the name of the revision: it is on its way out.
    fn waits_for(&self, name: &str) -> Option<String> {
        let found = self.cx.sets.get(&ObjectRef::new(name))?;
        let owner = revision_of(found.meta())?;
        (Some(owner.uid) != self.extension.metadata.uid.as_deref()).then(|| {
            format!(
                "ClusterObjectSet {name:?} belongs to an earlier ClusterExtension of this name and still exists: delete it so that the new revision can be created"
            )
        })
    }

    async fn remove_old(&self, revisions: &Revisions) -> Result<(), String> {
        for revision in revisions.superfluous(ARCHIVED_REVISIONS_KEPT) {
            let deleted = if_exists(self.set_api().delete(&revision.name, &DeleteParams::background())).await;
            deleted.map_err(|e| api_text(&e))?;
        }
        Ok(())
    }

    /// What the revision records beside its content.
    fn annotations(&self, new: &NewRevision<'_>) -> Result<BTreeMap<String, String>, String> {
        let NewRevision { draft, account, planned, .. } = *new;
        let mut annotations = draft.bundle.annotations();
        let uid = self.extension.uid().unwrap_or_default();
        let target = draft.rolled_back_to.map(|number| number.to_string());
        let properties =
            draft.catalog.as_ref().map(|_| properties_text(&draft.catalog_properties)).transpose()?;
        let declared = (!draft.declared.is_empty()).then(|| declared_text(&draft.declared));
        let mut recorded: Vec<Recorded<'_>> = vec![
            (REVISION_OF_ANNOTATION, Some(uid.as_str())),
            (
                WEBHOOK_CERTIFICATE_PROVIDER_ANNOTATION,
                draft.certificate_provider.map(CertificateProvider::as_str),
            ),
            (PROPERTIES_ANNOTATION, draft.properties.as_deref()),
            (CATALOG_ANNOTATION, draft.catalog.as_deref()),
            (CATALOG_PROPERTIES_ANNOTATION, properties.as_deref()),
            (DECLARED_ANNOTATION, declared.as_deref()),
            (ROLLED_BACK_TO_ANNOTATION, target.as_deref()),
            (RETURNED_FROM_ANNOTATION, draft.returned_from.as_deref()),
            (UNKNOWN_KINDS_ANNOTATION, self.unknown_kinds().map(String::as_str)),
        ];
        recorded.extend(planned.into_iter().flatten());
        let account = account.into_iter().flat_map(|account| self.acting_as(account));
        let recorded = recorded.into_iter().filter_map(|(key, value)| Some((key, value?)));
        annotations.extend(account.chain(recorded).map(|(key, value)| (key.to_owned(), value.to_owned())));
        annotations.extend(deletion_policy::extension::of_revision(self.extension));
        Ok(annotations)
    }

    fn object_set(&self, name: &str, new: &NewRevision<'_>, packed: &Packed) -> Result<Value, String> {
        let extension = self.extension;
        let annotations = self.annotations(new)?;
        let phases: Vec<Value> = packed
            .phases
            .iter()
            .map(|(phase, objects)| {
                let references: Vec<Value> = objects
                    .iter()
                    .map(|o| json!({"ref": {"name": o.secret, "namespace": self.cx.system_namespace, "key": o.key}}))
                    .collect();
                json!({"name": phase, "objects": references})
            })
            .collect();
        let mut set = json!({
            "apiVersion": ClusterObjectSet::api_version(&()),
            "kind": ClusterObjectSet::kind(&()),
            "metadata": {
                "name": name,
                // Every active revision has it: from the beginning, it costs no write of its own.
                "finalizers": [TEARDOWN_FINALIZER],
                "labels": {
                    OWNER_KIND_LABEL: ClusterExtension::kind(&()),
                    OWNER_NAME_LABEL: extension.name_any(),
                },
                "annotations": annotations,
                "ownerReferences": [controller_reference::<ClusterExtension>(&extension.metadata)],
            },
            "spec": {
                "lifecycleState": "Active",
                "revision": new.number,
                "collisionProtection": "Prevent",
                "phases": phases,
                "progressionProbes": default_probes(),
            },
        });
        if new.planned.is_none() {
            set["metadata"]["labels"][MIGRATED_FROM_HELM_LABEL] = "true".into();
            // Objects that Helm made and that were taken from it are the revision's as well.
            set["spec"]["collisionProtection"] = "IfNoController".into();
        }
        if let Some(minutes) = extension.spec.progress_deadline_minutes {
            set["spec"]["progressDeadlineMinutes"] = minutes.into();
        }
        Ok(set)
    }

    /// Creates the set. What has its name by now was made by another user and is not touched.
    async fn create_set(&self, set: Value) -> Result<DynamicObject, String> {
        let api: Api<DynamicObject> =
            Api::all_with(self.cx.controller(), &ApiResource::erase::<ClusterObjectSet>(&()));
        let params = post_as(EXTENSION_FIELD_MANAGER);
        let set = serde_json::from_value(set).map_err(|e| e.to_string())?;
        let created = bounded(api.create(&params, &set)).await.map_err(|e| api_text(&e))?;
        self.cx.wrote_set(self.extension, &created.metadata);
        Ok(created)
    }

    pub(crate) fn set_api(&self) -> Api<ClusterObjectSet> {
        Api::all(self.cx.controller())
    }
}
