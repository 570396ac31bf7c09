//! Writes of a controller to the objects that it reconciles: status, finalizers and what is recorded beside them.

mod error_text;
mod own_writes;

use std::{collections::BTreeMap, fmt::Debug, sync::Arc, time::Duration};

use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ListParams, ObjectMeta, Patch},
    core::{NamespaceResourceScope, object::HasStatus},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;

pub use error_text::{api_text, is_namespace_missing, is_namespace_terminating};
pub use own_writes::OwnWrites;
pub(crate) use own_writes::version;

use crate::{
    client::{as_conflict, bounded, if_exists, patch_as, post_as},
    clock::Clock,
};

/// Attempts to change finalizers of an object that others write all the time; after them, its next event has to do.
const ATTEMPTS: usize = 3;

/// The API of an object's namespace, or of all objects without one.
type ApiOf<K> = Box<dyn Fn(&K) -> Api<K> + Send + Sync>;

/// Writes the objects of one kind, and knows its own writes.
pub struct ObjectWriter<K> {
    api: ApiOf<K>,
    field_manager: &'static str,
    clock: Arc<dyn Clock>,
    own: OwnWrites,
}

impl<K> ObjectWriter<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + 'static,
{
    /// Writes objects in namespaces, in the name of a field manager.
    pub fn namespaced(client: Client, field_manager: &'static str, clock: Arc<dyn Clock>) -> Self {
        let api = move |object: &K| {
            Api::namespaced(client.clone(), object.meta().namespace.as_deref().unwrap_or_default())
        };
        Self { api: Box::new(api), field_manager, clock, own: OwnWrites::default() }
    }
}

impl<K> ObjectWriter<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned + 'static,
{
    /// Writes objects without a namespace, in the name of a field manager.
    pub fn new(client: Client, field_manager: &'static str, clock: Arc<dyn Clock>) -> Self {
        let api = move |_: &K| Api::all(client.clone());
        Self { api: Box::new(api), field_manager, clock, own: OwnWrites::default() }
    }

    /// How long to wait for the watch when it shows the object as it was before the last write.
    pub fn behind(&self, object: &K) -> Option<Duration> {
        self.own.behind(object, self.clock.now())
    }

    /// What is left of `spacing` since this process last wrote the object; none if it is over, or no write is remembered.
    pub fn left(&self, object: &K, spacing: Duration) -> Option<Duration> {
        let since = self.own.since(object, self.clock.now())?;
        spacing.checked_sub(since).filter(|left| !left.is_zero())
    }

    /// Keeps the version of an object that was written in another way.
    pub fn wrote(&self, object: &impl Resource) {
        self.own.wrote(object, self.clock.now());
    }

    /// Forgets the writes of an object (UID) that is gone.
    pub fn forget(&self, uid: &str) {
        self.own.forget(uid);
    }

    /// Replaces the status if it is another one. Returns the object after the write; none when nothing was written, as
    /// the status is that one already or the object is gone.
    ///
    /// # Errors
    /// The API server's answer.
    pub async fn set_status(&self, object: &K, status: K::Status) -> Result<Option<K>, String>
    where
        K: HasStatus,
        K::Status: Clone + Default + PartialEq,
    {
        if object.status().cloned().unwrap_or_default() == status {
            return Ok(None);
        }
        let mut updated = object.clone();
        *updated.status_mut() = Some(status);
        updated.meta_mut().managed_fields = None;
        let params = post_as(self.field_manager);
        let written =
            if_exists((self.api)(object).replace_status(&object.name_any(), &params, &updated)).await;
        let written = written.map_err(|e| api_text(&e))?;
        if let Some(written) = &written {
            self.wrote(written);
        }
        Ok(written)
    }

    /// Adds finalizers and what `also` changes of labels and annotations, in one write. Returns the object after it; none
    /// when everything was there already.
    ///
    /// # Errors
    /// The API server's answer.
    pub async fn add_finalizers(
        &self,
        object: &K,
        finalizers: &[&str],
        also: impl Fn(&mut ObjectMeta) + Send + Sync,
    ) -> Result<Option<K>, String> {
        let add = |meta: &mut ObjectMeta| {
            let present = meta.finalizers.get_or_insert_default();
            for finalizer in finalizers {
                if !present.iter().any(|name| name == finalizer) {
                    present.push((*finalizer).to_owned());
                }
            }
            also(meta);
        };
        self.edit(object, add).await
    }

    /// Removes finalizers. Returns the object after the write; none when they were gone already.
    ///
    /// # Errors
    /// The API server's answer.
    pub async fn remove_finalizers(&self, object: &K, finalizers: &[&str]) -> Result<Option<K>, String> {
        let remove = |meta: &mut ObjectMeta| {
            let present = meta.finalizers.get_or_insert_default();
            present.retain(|name| !finalizers.contains(&name.as_str()));
        };
        self.edit(object, remove).await
    }

    /// Changes metadata by a JSON patch with a test, so that no other program's change is undone.
    ///
    /// After a conflict the object is read and changed again: waiting for the event of the other write would be waiting
    /// for ever where that changed nothing. An object that is being deleted meanwhile, or that was created again, is left
    /// to its next reconcile.
    async fn edit(
        &self,
        object: &K,
        edit: impl Fn(&mut ObjectMeta) + Send + Sync,
    ) -> Result<Option<K>, String> {
        let failed = |error: &kube::Error| format!("error updating finalizers: {}", api_text(error));
        let (name, params, before) = (object.name_any(), patch_as(self.field_manager), object.meta());
        let (api, mut newer) = ((self.api)(object), None::<K>);
        for attempt in 1..=ATTEMPTS {
            let present = newer.as_ref().unwrap_or(object).meta();
            let is_same =
                (&present.uid, &present.deletion_timestamp) == (&before.uid, &before.deletion_timestamp);
            let Some(operations) = difference(present, &edit).filter(|_| is_same) else { return Ok(None) };
            let patch = serde_json::from_value(operations).map_err(|e| e.to_string())?;
            let patched = if_exists(api.patch(&name, &params, &Patch::Json::<()>(patch))).await;
            match patched.map_err(as_conflict) {
                Ok(written) => {
                    match (&before.uid, &written) {
                        // It may be gone by this.
                        (Some(uid), Some(_)) if before.deletion_timestamp.is_some() => self.forget(uid),
                        (_, Some(written)) => self.wrote(written),
                        (_, None) => {}
                    }
                    return Ok(written);
                }
                Err(kube::Error::Api(status)) if attempt < ATTEMPTS && status.is_conflict() => {
                    // Controllers may list what they watch, but not get each kind.
                    let by_name = ListParams::default().fields(&format!("metadata.name={name}"));
                    newer = bounded(api.list(&by_name)).await.map_err(|e| failed(&e))?.items.pop();
                    if newer.is_none() {
                        return Ok(None);
                    }
                }
                Err(error) => return Err(failed(&error)),
            }
        }
        Ok(None)
    }
}

/// The JSON patch for an edit; none when it changes nothing. Lists and maps are replaced as wholes: there may be none that
/// an entry could be added to.
fn difference(present: &ObjectMeta, edit: &impl Fn(&mut ObjectMeta)) -> Option<serde_json::Value> {
    let mut after = present.clone();
    edit(&mut after);
    // An empty list or map is not kept by the API server: it is the same as none.
    let fields = |meta: &ObjectMeta| {
        let map = |map: &Option<BTreeMap<String, String>>| json!(map.clone().unwrap_or_default());
        [json!(meta.finalizers.as_deref().unwrap_or_default()), map(&meta.labels), map(&meta.annotations)]
    };
    let changed =
        ["finalizers", "labels", "annotations"].into_iter().zip(fields(present)).zip(fields(&after));
    let replaced = changed.filter(|((_, before), after)| before != after).map(
        |((field, _), value)| json!({"op": "add", "path": format!("/metadata/{field}"), "value": value}),
    );
    let test = json!({"op": "test", "path": "/metadata/resourceVersion", "value": present.resource_version});
    let operations: Vec<_> = std::iter::once(test).chain(replaced).collect();
    (operations.len() > 1).then(|| operations.into())
}

#[cfg(test)]
mod tests;
