//! Writes a revision: its Secrets, the ClusterObjectSet, and what keeps both together.
//!
//! Secrets come before the set that refers to them. A process that dies in between leaves Secrets without an
//! owner; the next pass, or the one that lets the extension go, adopts those that have a set and removes the others.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Api, Resource, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
    runtime::reflector::ObjectRef,
};
use olm_api::{
    names::{
        ADDED_PERMISSIONS_ANNOTATION, CATALOG_ANNOTATION, CATALOG_PROPERTIES_ANNOTATION,
        CONTENT_DIGEST_ANNOTATION, CRD_CHANGES_ANNOTATION, EXTENSION_FIELD_MANAGER, INPUTS_DIGEST_ANNOTATION,
        MIGRATED_FROM_HELM_LABEL, OWNER_KIND_LABEL, OWNER_NAME_LABEL, PLAN_DIGEST_ANNOTATION,
        PROPERTIES_ANNOTATION, RENDERED_DIGEST_ANNOTATION, REVISION_OF_ANNOTATION, ROLLED_BACK_TO_ANNOTATION,
        TEARDOWN_FINALIZER, UNKNOWN_KINDS_ANNOTATION, WEBHOOK_CERTIFICATE_PROVIDER_ANNOTATION,
    },
    ownership::{revision_name, revision_of},
    v1::{ClusterExtension, ClusterObjectSet},
};
use olm_fbc::Property;
use olm_objectset::{Packed, Phase, default_probes, pack};
use olm_render::CertificateProvider;
use olm_runtime::{AccountRef, api_text, bounded};
use serde_json::{Value, json};

use crate::{
    cluster_extension::{
        Context,
        observe::revisions::{BundleRecord, Revision, Revisions},
    },
    deletion_policy,
};

/// Archived revisions that are kept for people to look at.
const ARCHIVED_REVISIONS_KEPT: usize = 5;

/// Most bytes of the record of a bundle's catalog properties. All annotations of an object together may have
/// 256 KiB; the largest real record has 20 KB.
const CATALOG_PROPERTIES_BYTES_MAX: usize = 96 << 10;

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
    let is_needed = |p: &&Property| ["olm.package", "olm.gvk"].contains(&p.kind.as_str());
    let text = encode(&all.into_iter().filter(is_needed).collect::<Vec<_>>())?;
    if text.len() <= CATALOG_PROPERTIES_BYTES_MAX { Ok(text) } else { Ok("[]".to_owned()) }
}

/// Digests by which a revision is known again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Digests<'a> {
    /// Of everything it is made from.
    pub(crate) inputs: &'a str,
    /// Of what was rendered, and of the reinstallation that was asked for.
    pub(crate) rendered: &'a str,
    /// Of its objects.
    pub(crate) content: &'a str,
    /// Of the plan it was made by.
    pub(crate) plan: &'a str,
}

/// A revision to be written.
#[derive(Debug, Clone)]
pub(crate) struct NewRevision<'a> {
    pub(crate) number: i64,
    pub(crate) bundle: &'a BundleRecord,
    /// Whom it acts as; `None` only for what is taken over, which then waits for an account.
    pub(crate) account: Option<&'a AccountRef>,
    pub(crate) phases: &'a [Phase],
    /// What it was made from; `None` when a Helm release was.
    pub(crate) made_from: Option<Digests<'a>>,
    /// Who makes the certificates of its webhooks, if it has any.
    pub(crate) certificate_provider: Option<CertificateProvider>,
    /// The CSV's `olm.properties`, carried over unchanged.
    pub(crate) properties: Option<&'a str>,
    /// The catalog the bundle comes from.
    pub(crate) catalog: Option<&'a str>,
    /// The bundle's properties there.
    pub(crate) catalog_properties: &'a [Property],
    /// CRD changes that were accepted and CRDs that are no longer there, as recorded.
    pub(crate) crd_changes: Option<String>,
    /// A sentence about the permissions that its bundle has beyond those of the one installed before.
    pub(crate) added_permissions: Option<&'a str>,
    /// The revision whose objects come back with it.
    pub(crate) rolled_back_to: Option<i64>,
}

/// Writes revisions of one extension.
#[derive(Clone, Copy)]
pub(crate) struct RevisionWriter<'a> {
    pub(crate) cx: &'a Context,
    pub(crate) extension: &'a ClusterExtension,
    /// UID of the ServiceAccount that the extension acts as, once it is known.
    pub(crate) account_uid: Option<&'a str>,
}

impl RevisionWriter<'_> {
    /// Writes a new revision; its name.
    ///
    /// # Errors
    /// The text says at which step, in the original's words.
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
        let packed = pack(&name, new.phases).map_err(|e| format!("packing objects into Secrets: {e}"))?;
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
    ///
    /// # Errors
    /// The API server's answer.
    pub(crate) async fn refresh(
        &self,
        revision: &Revision,
        account: Option<&AccountRef>,
        inputs_digest: &str,
        origin: Option<(&str, &[Property])>,
    ) -> Result<(), String> {
        let deadline = self.extension.spec.progress_deadline_minutes;
        let recorded = origin.is_none_or(|(catalog, _)| revision.catalog.as_deref() == Some(catalog));
        if recorded
            && account.is_none_or(|account| revision.account.as_ref() == Some(account))
            && revision.progress_deadline_minutes == deadline
            && revision.inputs_digest.as_deref() == Some(inputs_digest)
            && revision.unknown_kinds.as_ref() == self.unknown_kinds()
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
        let params =
            PatchParams { field_manager: Some(EXTENSION_FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let patched = bounded(self.set_api().patch(&revision.name, &params, &Patch::Merge(&patch))).await;
        patched.map(drop).map_err(|e| format!("patching {} Revision: {}", revision.name, api_text(&e)))
    }

    fn unknown_kinds(&self) -> Option<&String> {
        self.extension.annotations().get(UNKNOWN_KINDS_ANNOTATION)
    }

    fn revision_name(&self, number: i64) -> String {
        revision_name(&self.extension.name_any(), number)
    }

    /// The number of the next revision. Those whose names other sets have are left out, which cannot be written over
    /// and would stand in the way for as long as somebody wants.
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
                "ClusterObjectSet {name:?} is not a revision of this extension, it belongs to an earlier ClusterExtension of this name, and has not gone yet: delete it to let the revision be made"
            )
        })
    }

    async fn remove_old(&self, revisions: &Revisions) -> Result<(), String> {
        for revision in revisions.superfluous(ARCHIVED_REVISIONS_KEPT) {
            match bounded(self.set_api().delete(&revision.name, &DeleteParams::background())).await {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.is_not_found() => {}
                Err(error) => return Err(api_text(&error)),
            }
        }
        Ok(())
    }

    /// What the extension asks of its revisions.
    fn policies(&self) -> impl Iterator<Item = (String, String)> {
        let unknown_kinds = self.unknown_kinds().map(|v| (UNKNOWN_KINDS_ANNOTATION.to_owned(), v.clone()));
        unknown_kinds.into_iter().chain(deletion_policy::extension::of_revision(self.extension))
    }

    /// What the revision records beside its content.
    fn annotations(&self, new: &NewRevision<'_>) -> Result<BTreeMap<String, String>, String> {
        let mut annotations = new.bundle.annotations();
        let account = new.account.into_iter().flat_map(|account| self.acting_as(account));
        let digests = new.made_from.into_iter().flat_map(|digests| {
            [
                (INPUTS_DIGEST_ANNOTATION, digests.inputs),
                (RENDERED_DIGEST_ANNOTATION, digests.rendered),
                (CONTENT_DIGEST_ANNOTATION, digests.content),
                (PLAN_DIGEST_ANNOTATION, digests.plan),
            ]
        });
        annotations.extend(account.chain(digests).map(|(key, value)| (key.to_owned(), value.to_owned())));
        annotations.insert(REVISION_OF_ANNOTATION.to_owned(), self.extension.uid().unwrap_or_default());
        if let Some(provider) = new.certificate_provider {
            annotations
                .insert(WEBHOOK_CERTIFICATE_PROVIDER_ANNOTATION.to_owned(), provider.as_str().to_owned());
        }
        if let Some(properties) = new.properties {
            annotations.insert(PROPERTIES_ANNOTATION.to_owned(), properties.to_owned());
        }
        if let Some(catalog) = new.catalog {
            annotations.insert(CATALOG_ANNOTATION.to_owned(), catalog.to_owned());
            let properties = properties_text(new.catalog_properties)?;
            annotations.insert(CATALOG_PROPERTIES_ANNOTATION.to_owned(), properties);
        }
        annotations.extend(self.policies());
        if let Some(changes) = &new.crd_changes {
            annotations.insert(CRD_CHANGES_ANNOTATION.to_owned(), changes.clone());
        }
        if let Some(added) = new.added_permissions {
            annotations.insert(ADDED_PERMISSIONS_ANNOTATION.to_owned(), added.to_owned());
        }
        if let Some(target) = new.rolled_back_to {
            annotations.insert(ROLLED_BACK_TO_ANNOTATION.to_owned(), target.to_string());
        }
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
                "ownerReferences": [{
                    "apiVersion": ClusterExtension::api_version(&()),
                    "kind": ClusterExtension::kind(&()),
                    "name": extension.name_any(),
                    "uid": extension.uid(),
                    "controller": true,
                    "blockOwnerDeletion": true,
                }],
            },
            "spec": {
                "lifecycleState": "Active",
                "revision": new.number,
                "collisionProtection": "Prevent",
                "phases": phases,
                "progressionProbes": default_probes(),
            },
        });
        if new.made_from.is_none() {
            set["metadata"]["labels"][MIGRATED_FROM_HELM_LABEL] = "true".into();
            // Objects that Helm made and somebody took out of its hands are the revision's as well.
            set["spec"]["collisionProtection"] = "IfNoController".into();
        }
        if let Some(minutes) = extension.spec.progress_deadline_minutes {
            set["spec"]["progressDeadlineMinutes"] = minutes.into();
        }
        Ok(set)
    }

    /// Creates the set. What has its name by now was made by somebody else and is not touched.
    async fn create_set(&self, set: Value) -> Result<DynamicObject, String> {
        let api: Api<DynamicObject> =
            Api::all_with(self.cx.controller(), &ApiResource::erase::<ClusterObjectSet>(&()));
        let params =
            PostParams { field_manager: Some(EXTENSION_FIELD_MANAGER.to_owned()), ..PostParams::default() };
        let set = serde_json::from_value(set).map_err(|e| e.to_string())?;
        bounded(api.create(&params, &set)).await.map_err(|e| api_text(&e))
    }

    pub(crate) fn set_api(&self) -> Api<ClusterObjectSet> {
        Api::all(self.cx.controller())
    }
}
