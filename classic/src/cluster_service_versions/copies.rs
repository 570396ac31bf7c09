//! Copies of operators in the namespaces that they serve: made, kept as they are to be, and deleted.

use std::time::Duration;

use kube::{
    Api, Resource, ResourceExt,
    api::{DeleteParams, Preconditions},
    runtime::reflector::ObjectRef,
};
use olm_api_classic::{ClusterServiceVersion, names::COPIED_FROM_LABEL};
use olm_classic_core::csv::{
    chain::is_copy,
    copied::{CONFIG, DISABLED, Digest, copy, is_disabled, is_for_all, is_stale, namespaces},
};
use olm_runtime::{Next, api_text, bounded, if_exists, post_as};

use super::{Observed, Reconciler};
use crate::operators::{FIELD_MANAGER, Interest, live};

/// Most copies that one reconcile writes: an operator with many namespaces must not hold up the others.
const WRITES_MAX: usize = 50;
/// The time after which the next ones are written.
const REST: Duration = Duration::from_millis(100);

impl Reconciler {
    /// Whether operators for all namespaces are left without copies.
    pub(super) fn are_copies_disabled(&self) -> bool {
        let config = self.stores.configs.get(&ObjectRef::new(CONFIG));
        is_disabled(config.as_ref().and_then(|config| config.0.as_ref().ok()))
    }

    /// Makes the copies of an operator be there. Whether all are.
    pub(super) async fn ensure_copies(&self, observed: &mut Observed<'_>) -> Result<bool, String> {
        let csv = observed.csv;
        observed.interests.insert(Interest::Settings);
        let disabled = self.are_copies_disabled();
        if is_for_all(csv) && disabled {
            self.announce(observed).await;
            return Ok(true);
        }
        let wanted = namespaces(csv, &live(&self.stores.namespaces), disabled);
        let copies = Interest::CopyOf(format!("{}/{}", observed.namespace, observed.name));
        observed.interests.extend([Interest::Namespaces, copies]);
        if wanted.is_empty() {
            return Ok(true);
        }
        let (digest, mut written) = (Digest::of(&copy(csv, "")), 0);
        for namespace in &wanted {
            let found = self.stores.csvs.get(&ObjectRef::new(&observed.name).within(namespace));
            let found = found.as_ref().map(|found| found.0.as_ref());
            let known = match found {
                None => None,
                Some(Ok(found)) if is_copy(found) => Some(found),
                // An operator of that namespace, or something that does not parse.
                Some(_) => continue,
            };
            if known.map(Digest::of_trimmed).as_ref() == Some(&digest) {
                continue;
            }
            if written == WRITES_MAX {
                return Ok(false);
            }
            written += 1;
            self.write_copy(copy(csv, namespace), known, &digest).await?;
        }
        Ok(true)
    }

    /// Writes a copy, and its status. What others do to it meanwhile has an event.
    async fn write_copy(
        &self,
        mut wanted: ClusterServiceVersion,
        known: Option<&ClusterServiceVersion>,
        digest: &Digest,
    ) -> Result<(), String> {
        let (namespace, name) = (wanted.namespace().unwrap_or_default(), wanted.name_any());
        let failed = |error: &kube::Error| format!("copying to {namespace}: {}", api_text(error));
        let api: Api<ClusterServiceVersion> = Api::namespaced(self.client.clone(), &namespace);
        let params = post_as(FIELD_MANAGER);
        wanted.metadata.resource_version = known.and_then(ResourceExt::resource_version);
        let is_as_wanted = known.is_some_and(|known| Digest::of_trimmed(known).object == digest.object);
        if !is_as_wanted {
            let written = if known.is_some() {
                bounded(api.replace(&name, &params, &wanted)).await
            } else {
                bounded(api.create(&params, &wanted)).await
            };
            match written {
                Ok(written) => wanted.metadata.resource_version = written.resource_version(),
                Err(error) if is_overtaken(&error) => return Ok(()),
                Err(error) => return Err(failed(&error)),
            }
        }
        match bounded(api.replace_status(&name, &params, &wanted)).await {
            Err(error) if !is_overtaken(&error) => Err(failed(&error)),
            _ => Ok(()),
        }
    }

    /// Publishes that an operator is not copied, once, where an administrator asked for that.
    async fn announce(&self, observed: &Observed<'_>) {
        let config = self.stores.configs.get(&ObjectRef::new(CONFIG));
        let features = config.as_ref().and_then(|config| config.0.as_ref().ok()?.spec.features.as_ref());
        let is_asked = features.is_some_and(|features| features.disable_copied_csvs == Some(true));
        let uid = observed.csv.uid().unwrap_or_default();
        if is_asked && self.announced.lock().insert(uid) {
            let note = format!("CSV copying disabled for {}/{}", observed.namespace, observed.name);
            self.events.publish(&observed.csv.object_ref(&()), true, DISABLED, &note).await;
        }
    }

    /// Deletes a copy that is not to be any more. Copies take no part in anything else.
    pub(super) async fn keep_copy(&self, observed: &mut Observed<'_>) -> Result<Next, String> {
        let from = observed.csv.labels().get(COPIED_FROM_LABEL).cloned().unwrap_or_default();
        let original = self.stores.csvs.get(&ObjectRef::new(&observed.name).within(&from));
        let original = original.as_ref().and_then(|original| original.0.as_ref().ok());
        let original_key = Interest::Original(format!("{from}/{}", observed.name));
        observed.interests = [Interest::Part, Interest::Settings, original_key].into();
        let is_over = is_stale(observed.csv, original, self.are_copies_disabled());
        if is_over && observed.csv.metadata.deletion_timestamp.is_none() {
            let api: Api<ClusterServiceVersion> = Api::namespaced(self.client.clone(), &observed.namespace);
            let preconditions = Preconditions { uid: observed.csv.uid(), resource_version: None };
            let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
            let deleted = if_exists(api.delete(&observed.name, &params)).await;
            deleted.map_err(|error| format!("deleting a copy: {}", api_text(&error)))?;
        }
        Ok(Next::Await)
    }
}

/// What follows a reconcile after which copies are missing, unless something is due earlier.
pub(super) fn then_more(next: Next) -> Next {
    match next {
        Next::Await | Next::Blocked(_) => Next::After(REST),
        Next::After(wait) => Next::After(wait.min(REST)),
        Next::Retry(text) | Next::RetryWithin(text, _) | Next::RetryAfter(text, _) => {
            Next::RetryAfter(text, REST)
        }
    }
}

/// Whether a write came too late: the object was written, made or deleted meanwhile, or its namespace goes.
fn is_overtaken(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => {
            matches!(status.code, 404 | 409) || olm_runtime::is_namespace_terminating(status)
        }
        _ => false,
    }
}
