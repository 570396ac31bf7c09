//! Sources whose image runs in a Pod: images that are no file-based catalog, or that are to run by request.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Pod, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::{
    Api, Resource, ResourceExt,
    api::{DeleteParams, ListParams, Patch},
};
use olm_api_classic::names::{CATALOG_SOURCE_LABEL, POD_HASH_LABEL, UPDATE_LABEL};
use olm_classic_core::source::{
    pod::{self, ENFORCE_LABEL, Settings},
    polling::{self, Polling},
    service, texts,
};
use olm_runtime::{Next, api_text, bounded, if_exists, patch_as, post_as};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{
    act::{self, FIELD_MANAGER},
    now,
    reconcile::{Reconcile, Reconciler},
    servers::Place,
};

/// Time to the next look at a Pod that polls; it also wakes the source.
const UPDATE_WAIT: Duration = Duration::from_secs(30);
/// Pods of a source that are looked at.
const PODS_MAX: u32 = 16;

impl Reconciler {
    /// Makes the Pod of a source and what belongs to it be there, and reads its content.
    pub(super) async fn pod(&self, reconcile: &mut Reconcile<'_>, image: &str) -> Next {
        let failed = |cause: &str| texts::ensure_failed(cause);
        let service = match service::name(&reconcile.key.name) {
            Ok(name) => name,
            Err(cause) => return self.trouble(reconcile, texts::REGISTRY_SERVER, failed(&cause)),
        };
        let polling = polling::polling(reconcile.source);
        let found = if self.leads() {
            Box::pin(self.ensure_pod(reconcile, image, &service)).await
        } else {
            self.pods(reconcile, CATALOG_SOURCE_LABEL).await.map(|mut pods| pods.pop())
        };
        let current = match found {
            Ok(found) => found,
            Err(cause) => return self.trouble(reconcile, texts::REGISTRY_SERVER, failed(&cause)),
        };
        let cause = current.as_ref().and_then(pod::failure);
        let Some(current) = current.filter(|pod| has_condition(pod, "Ready")) else {
            let cause = cause.map(|cause| format!(" ({cause})")).unwrap_or_default();
            let text = format!(
                "The Pod of {image} is not ready{cause}: see kubectl describe pod --selector olm.catalogSource={} for why.",
                reconcile.key.name
            );
            reconcile.report.health = self.failed(reconcile, text);
            reconcile.set_server(&service, texts::CONNECTING);
            self.servers.forget(&reconcile.slot);
            return Next::Await;
        };
        let next = self.read_pod(reconcile, &service, &current);
        // A digest stays what it is.
        let Some(polling) = polling.filter(|_| self.leads() && !image.contains('@')) else { return next };
        let polled = Box::pin(self.poll(reconcile, image, &polling, &current)).await;
        // It stays reported until the next one.
        if let Some(cause) = self.failed_polls.lock().get(&reconcile.key) {
            reconcile.report.problem = Some((texts::REGISTRY_SERVER, failed(cause)));
        }
        polled.map_or_else(Next::Retry, |wait| sooner(next, wait))
    }

    /// Notes what became of a Pod that polled.
    fn polled(&self, reconcile: &Reconcile<'_>, failure: Option<String>) {
        let mut failed = self.failed_polls.lock();
        match failure {
            None => drop(failed.remove(&reconcile.key)),
            Some(cause) => {
                let what = format!("update pod for catalog source {}", reconcile.key.name);
                failed.insert(reconcile.key.clone(), texts::ensuring(&what, &cause));
            }
        }
    }

    fn read_pod(&self, reconcile: &mut Reconcile<'_>, service: &str, pod: &Pod) -> Next {
        let address = service::address(service, &reconcile.key.namespace);
        let place = Place { address, pod: pod.uid() };
        let name = &reconcile.key.name;
        let advice =
            format!("See kubectl logs --selector olm.catalogSource={name} for what the server says.");
        self.visit(reconcile, place, &advice, |reconcile, state| reconcile.set_server(service, state))
    }

    /// The Pod that serves the source; it may not be ready.
    async fn ensure_pod(
        &self,
        reconcile: &Reconcile<'_>,
        image: &str,
        service: &str,
    ) -> Result<Option<Pod>, String> {
        let (source, name) = (reconcile.source, &reconcile.key.name);
        let account: ServiceAccount = typed(pod::service_account(source))?;
        let secrets = |account: &ServiceAccount| account.image_pull_secrets.clone().unwrap_or_default();
        let same_account = |found: &ServiceAccount| secrets(found) == secrets(&account);
        act::ensure(&self.client, source, &account, act::Differs::Remade, same_account)
            .await
            .map_err(|cause| texts::ensuring(&format!("service account: {name}"), &cause))?;
        let whats = ["grpc server network policy", "bundle unpack network policy"];
        for (policy, what) in pod::network_policies(source).into_iter().zip(whats) {
            let policy: NetworkPolicy = typed(policy)?;
            act::ensure(&self.client, source, &policy, act::Differs::Remade, |found| {
                found.spec == policy.spec
            })
            .await
            .map_err(|cause| texts::ensuring(&format!("{what} for catalog source {name}"), &cause))?;
        }
        act::ensure_service(&self.client, source, service, None, true)
            .await
            .map_err(|cause| texts::ensuring(&format!("service: {name}"), &cause))?;
        let replaced =
            Box::pin(async { self.replace_pods(reconcile, &self.wanted(reconcile, image).await?).await });
        replaced.await.map_err(|cause| texts::ensuring(&format!("pod: {name}-"), &cause))
    }

    /// The Pod as it is to be.
    async fn wanted(&self, reconcile: &Reconcile<'_>, image: &str) -> Result<Pod, String> {
        let restricted = self.is_restricted(reconcile).await?;
        let settings = Settings { restricted, ..self.options.pod_settings.clone() };
        typed(pod::pod(reconcile.source, image, &settings))
    }

    /// The Pods of a source that a label names it by and that are not being deleted, the newest last.
    async fn pods(&self, reconcile: &Reconcile<'_>, label: &str) -> Result<Vec<Pod>, String> {
        let label = format!("{label}={}", reconcile.key.name);
        let params = ListParams::default().labels(&label).limit(PODS_MAX);
        let found = bounded(self.api(reconcile).list(&params)).await.map_err(|error| api_text(&error))?;
        let mut pods = found.items;
        pods.retain(|pod| {
            service::is_owned(pod.meta(), reconcile.source) && pod.meta().deletion_timestamp.is_none()
        });
        pods.sort_by_key(|pod| pod.creation_timestamp().map(|time| time.0));
        Ok(pods)
    }

    /// Deletes Pods of the source that are not as wanted, and creates one if none is; the one that is.
    async fn replace_pods(&self, reconcile: &Reconcile<'_>, wanted: &Pod) -> Result<Option<Pod>, String> {
        let mut current = None;
        for pod in self.pods(reconcile, CATALOG_SOURCE_LABEL).await?.into_iter().rev() {
            if pod_hash(&pod) == pod_hash(wanted) && !is_dead(&pod) && current.is_none() {
                current = Some(pod);
            } else {
                self.delete(reconcile, &pod, DeleteParams::default()).await?;
            }
        }
        if current.is_none() {
            let created = bounded(self.api(reconcile).create(&post_as(FIELD_MANAGER), wanted)).await;
            created.map_err(|error| api_text(&error))?;
        }
        Ok(current)
    }

    /// Has a second Pod pull the image again when that is due, and take over if it got another one. Time to the next look.
    async fn poll(
        &self,
        reconcile: &mut Reconcile<'_>,
        image: &str,
        polling: &Polling,
        current: &Pod,
    ) -> Result<Duration, String> {
        let mut updates = self.pods(reconcile, UPDATE_LABEL).await?;
        for stale in updates.extract_if(.., |update| pod_hash(update) != pod_hash(current)) {
            self.delete(reconcile, &stale, DeleteParams::default()).await?;
        }
        let Some(update) = updates.pop() else {
            let now = now(&self.clock);
            let left = polling::next_check(reconcile.source, polling, now);
            if !left.is_zero() {
                return Ok(polling::jittered(left, self.chance.fraction()).max(Duration::from_secs(1)));
            }
            let wanted = pod::update_pod(reconcile.source, self.wanted(reconcile, image).await?);
            let created = bounded(self.api(reconcile).create(&post_as(FIELD_MANAGER), &wanted)).await;
            created.map_err(|error| api_text(&error))?;
            reconcile.report.polled = Some(now);
            return Ok(UPDATE_WAIT);
        };
        if let Some(state) = pod::failure(&update) {
            self.delete(reconcile, &update, DeleteParams::default()).await?;
            self.polled(reconcile, Some(texts::update_failed(&update.name_any(), &state)));
            return Ok(polling.interval);
        }
        if !has_condition(&update, "Ready") {
            return Ok(UPDATE_WAIT);
        }
        if pod::image_id(&update) == pod::image_id(current) {
            self.delete(reconcile, &update, DeleteParams::default()).await?;
        } else {
            self.promote(reconcile, &update).await?;
            self.delete(reconcile, current, DeleteParams::default().grace_period(1)).await?;
        }
        self.polled(reconcile, None);
        Ok(polling.interval)
    }

    /// Leads clients to a Pod that polled.
    async fn promote(&self, reconcile: &Reconcile<'_>, update: &Pod) -> Result<(), String> {
        let labels = json!({CATALOG_SOURCE_LABEL: reconcile.key.name, UPDATE_LABEL: null});
        let patch = Patch::Merge(json!({"metadata": {"uid": update.uid(), "labels": labels}}));
        let (api, name, params) = (self.api(reconcile), update.name_any(), patch_as(FIELD_MANAGER));
        bounded(api.patch_metadata(&name, &params, &patch))
            .await
            .map(|_| ())
            .map_err(|error| api_text(&error))
    }

    async fn delete(&self, reconcile: &Reconcile<'_>, pod: &Pod, params: DeleteParams) -> Result<(), String> {
        if_exists(self.api(reconcile).delete(&pod.name_any(), &params))
            .await
            .map(|_| ())
            .map_err(|error| api_text(&error))
    }

    fn api(&self, reconcile: &Reconcile<'_>) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &reconcile.key.namespace)
    }

    async fn is_restricted(&self, reconcile: &Reconcile<'_>) -> Result<bool, String> {
        let api = Api::<Namespace>::all(self.client.clone());
        let namespace =
            bounded(api.get_metadata(&reconcile.key.namespace)).await.map_err(|error| api_text(&error))?;
        Ok(namespace.labels().get(ENFORCE_LABEL).is_some_and(|level| level == "restricted"))
    }
}

/// What is next, but no later than after a time.
fn sooner(next: Next, wait: Duration) -> Next {
    match next {
        Next::Await => Next::After(wait),
        Next::After(other) => Next::After(other.min(wait)),
        other => other,
    }
}

fn pod_hash(pod: &Pod) -> Option<&String> {
    pod.labels().get(POD_HASH_LABEL)
}

/// Whether a Pod runs no more, crashes again and again, or is about to be removed from its node.
fn is_dead(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Failed" | "Succeeded"))
        || has_condition(pod, "DisruptionTarget")
        || pod::is_stuck(pod)
}

fn has_condition(pod: &Pod, type_: &str) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == type_ && condition.status == "True")
}

fn typed<K: DeserializeOwned>(object: Value) -> Result<K, String> {
    serde_json::from_value(object).map_err(|error| error.to_string())
}
