//! The Secrets that hold the objects of revisions: created before the revision, adopted after it, and tidied up.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::{ByteString, api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch},
    core::PartialObjectMeta,
};
use olm_api::{
    names::{EXTENSION_FIELD_MANAGER, OBJECT_DATA_SECRET_TYPE, OWNER_NAME_LABEL, REVISION_NAME_LABEL},
    ownership::mark,
    v1::ClusterObjectSet,
};
use olm_runtime::{api_text, bounded, if_exists, patch_as, post_as};
use serde_json::json;

use crate::cluster_extension::act::revision::{RevisionWriter, controller_reference};

/// How long a Secret waits for its set. The request that creates the set may still be on its way when another replica
/// takes over, and a set without its content could never be rolled out. No request lasts longer: it is given up after
/// [`olm_runtime::REQUEST_TIMEOUT`], and by the API server after a minute.
const WAIT_FOR_SET: Duration = Duration::from_mins(2);

impl RevisionWriter<'_> {
    /// Sees to Secrets of content that have no owner, as a process that died or a request that failed leaves them. A
    /// Secret belongs to its set, whichever extension that was made for; without a set it would never be removed. What
    /// lies beside a set that no controller made stays as it is.
    ///
    /// Returns when the first of those can be removed that still wait for their set; with [`Timestamp::MAX`] for `now`,
    /// none does.
    pub(crate) async fn tidy_secrets(&self, now: Timestamp) -> Result<Option<Timestamp>, String> {
        let mine = ListParams::default().labels(&format!("{OWNER_NAME_LABEL}={}", self.extension.name_any()));
        // Others with this label are objects of a bundle, which a deletion policy may keep without an owner.
        let content = mine.clone().fields(&format!("type={OBJECT_DATA_SECRET_TYPE}"));
        // Listed, because the newest state decides what is removed: once for an extension, and after writes that failed.
        let failed = |e: kube::Error| format!("listing ref Secrets: {}", api_text(&e));
        let secrets = bounded(self.secrets().list_metadata(&content)).await.map_err(failed)?;
        let ownerless = |secret: &&PartialObjectMeta<Secret>| secret.owner_references().is_empty();
        let leftovers: Vec<_> = secrets.items.iter().filter(ownerless).collect();
        if leftovers.is_empty() {
            return Ok(None);
        }
        // Listed, because the Secrets of a set that the store does not have yet would be lost.
        let sets = bounded(self.set_api().list_metadata(&mine)).await.map_err(failed)?;
        let sets: BTreeMap<String, PartialObjectMeta<_>> =
            sets.items.into_iter().map(|set| (set.name_any(), set)).collect();
        let mut waiting = None;
        for secret in leftovers {
            let name = secret.name_any();
            let set = secret.labels().get(REVISION_NAME_LABEL).and_then(|set| sets.get(set));
            match set {
                Some(set) if mark(&set.metadata).is_none() => {}
                Some(set) => {
                    let adopted = if_exists(self.adopt_as(&set.metadata, &name)).await;
                    let failed = |e| format!("ensuring ownerReferences on ref Secrets: {}", api_text(&e));
                    adopted.map_err(failed)?;
                }
                None => match waits_until(&secret.metadata).filter(|end| *end > now) {
                    Some(end) => waiting = waiting.into_iter().chain([end]).min(),
                    None => self.remove_secret(&name).await?,
                },
            }
        }
        Ok(waiting)
    }

    pub(crate) async fn create_secret(
        &self,
        set: &str,
        name: &str,
        data: &BTreeMap<String, Vec<u8>>,
    ) -> Result<(), String> {
        let secret = Secret {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                namespace: Some(self.cx.system_namespace.clone()),
                labels: Some(BTreeMap::from([
                    (REVISION_NAME_LABEL.to_owned(), set.to_owned()),
                    (OWNER_NAME_LABEL.to_owned(), self.extension.name_any()),
                ])),
                ..ObjectMeta::default()
            },
            immutable: Some(true),
            type_: Some(OBJECT_DATA_SECRET_TYPE.to_owned()),
            data: Some(data.iter().map(|(key, bytes)| (key.clone(), ByteString(bytes.clone()))).collect()),
            ..Secret::default()
        };
        let params = post_as(EXTENSION_FIELD_MANAGER);
        let created = match bounded(self.secrets().create(&params, &secret)).await {
            Err(kube::Error::Api(status)) if status.is_already_exists() => {
                if self.stays(&secret).await? {
                    return Ok(());
                }
                bounded(self.secrets().create(&params, &secret)).await
            }
            created => created,
        };
        self.cx.contents.wrote(created.map_err(|e| api_text(&e))?);
        Ok(())
    }

    /// Accepts a Secret that exists only if it is what was to be written, as a process leaves it that dies before it
    /// writes the revision. Its name proves nothing: anybody who may create Secrets can compute it. One with an owner is
    /// of a revision of the same name that was deleted, and goes with it, even from under the new one. `false` for one of
    /// this extension that has other content and no owner: nothing of ours was ever written so, and it is removed.
    async fn stays(&self, wanted: &Secret) -> Result<bool, String> {
        let name = wanted.name_any();
        let found = bounded(self.secrets().get_opt(&name)).await.map_err(|e| api_text(&e))?;
        let goes = || Err("it belongs to a deleted revision, and is deleted with it".to_owned());
        let Some(found) = found.filter(|found| found.metadata.deletion_timestamp.is_none()) else {
            return goes();
        };
        if !is_written_as(&found, wanted) {
            if found.owner_references().is_empty() && is_of(&found, wanted) {
                self.remove_secret(&name).await?;
                return Ok(false);
            }
            return Err(format!(
                "Secret {}/{name} exists with content other than the objects of this revision: delete it so that the revision can be created",
                self.cx.system_namespace
            ));
        }
        if found.owner_references().is_empty() { Ok(true) } else { goes() }
    }

    pub(crate) async fn adopt(
        &self,
        set: &ObjectMeta,
        secrets: impl Iterator<Item = &str>,
    ) -> Result<(), String> {
        let names: BTreeSet<&str> = secrets.collect();
        for name in names {
            self.adopt_as(set, name).await.map_err(|e| api_text(&e))?;
        }
        Ok(())
    }

    pub(crate) async fn adopt_as(&self, set: &ObjectMeta, secret: &str) -> Result<(), kube::Error> {
        let patch = json!({"metadata": {"ownerReferences": [controller_reference::<ClusterObjectSet>(set)]}});
        let params = patch_as(EXTENSION_FIELD_MANAGER);
        // The answer would be the content once more.
        bounded(self.secrets().patch_metadata(secret, &params, &Patch::Merge(&patch))).await.map(drop)
    }

    async fn remove_secret(&self, name: &str) -> Result<(), String> {
        let removed = if_exists(self.secrets().delete(name, &DeleteParams::default())).await;
        removed.map(drop).map_err(|e| format!("removing leftover Secret {name:?}: {}", api_text(&e)))
    }

    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.cx.controller(), &self.cx.system_namespace)
    }
}

/// When a Secret without a set has waited long enough for it.
fn waits_until(secret: &ObjectMeta) -> Option<Timestamp> {
    secret.creation_timestamp.as_ref()?.0.checked_add(WAIT_FOR_SET).ok()
}

/// Whether a Secret is content of the same extension as the one that is to be written.
fn is_of(found: &Secret, wanted: &Secret) -> bool {
    found.type_ == wanted.type_
        && found.labels().get(OWNER_NAME_LABEL) == wanted.labels().get(OWNER_NAME_LABEL)
}

/// Whether the Secret that was found is the one that was to be written.
fn is_written_as(found: &Secret, wanted: &Secret) -> bool {
    let marks = |secret: &Secret| {
        let mark = |label: &str| secret.labels().get(label).cloned();
        [mark(REVISION_NAME_LABEL), mark(OWNER_NAME_LABEL)]
    };
    found.data == wanted.data
        && found.type_ == wanted.type_
        && found.immutable == wanted.immutable
        && marks(found) == marks(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_taken_for_ours_only_with_its_content() {
        let secret = |bytes: &str, set: &str, immutable: bool| Secret {
            metadata: ObjectMeta {
                labels: Some([(REVISION_NAME_LABEL.to_owned(), set.to_owned())].into()),
                ..ObjectMeta::default()
            },
            immutable: Some(immutable),
            type_: Some(OBJECT_DATA_SECRET_TYPE.to_owned()),
            data: Some([("k".to_owned(), ByteString(bytes.as_bytes().to_vec()))].into()),
            ..Secret::default()
        };
        let wanted = secret("a", "ext-1", true);
        assert!(is_written_as(&wanted.clone(), &wanted));
        for other in [secret("b", "ext-1", true), secret("a", "ext-2", true), secret("a", "ext-1", false)] {
            assert!(!is_written_as(&other, &wanted), "{other:?}");
        }
        assert!(!is_written_as(&Secret { type_: Some("Opaque".into()), ..wanted.clone() }, &wanted));
        assert!(!is_written_as(&Secret { data: None, ..wanted.clone() }, &wanted));
    }
}
