//! A serving certificate that needs no other program: made here, kept in a Secret, its authority published in a
//! ConfigMap of the same name under `ca.crt`, and renewed while the program runs.
//!
//! All replicas serve the one that is kept; the first that sees that it is time makes the next one, and the
//! others' writes then conflict and are not repeated. While the cluster does not let us keep it, a certificate of this
//! process alone is served, with a warning.

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
    runtime::watcher,
};
use olm_certs::{AUTHORITIES_KEY, Content, Step, Wanted, certified_key, new_secret};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{ServingCert, TlsError, common_name, self_signed};
use crate::{
    api_text, bounded,
    chance::Chance,
    watch::{Metadata, metadata_of},
};

/// Between two looks at the Secret; changes of it are seen at once.
const LOOK_INTERVAL: Duration = Duration::from_hours(1);
/// Between two looks after one that failed.
const RETRY_INTERVAL: Duration = Duration::from_secs(30);
/// Changes that come together are looked at once.
const DEBOUNCE: Duration = Duration::from_millis(200);
/// How long the start waits for the API server before it serves a certificate of its own.
const OPEN_TIMEOUT: Duration = Duration::from_secs(5);
/// Other replicas may write at the same time.
const ATTEMPTS: usize = 4;
/// Life of a certificate.
const LIFE: Duration = Duration::from_hours(90 * 24);
/// How long a new authority is published before its certificate is served. Clients may read the bundle now and then only.
const PUBLISHED: Duration = Duration::from_hours(24);

/// Keeps a serving certificate in a Secret.
pub struct ServingSecret {
    secrets: Api<Secret>,
    metadata: Api<Metadata>,
    maps: Api<ConfigMap>,
    namespace: String,
    name: String,
    names: Vec<String>,
    serving: Arc<ServingCert>,
    /// The certificate that is served, as PEM; empty while it is one of this process.
    shown: String,
    chance: Chance,
}

impl ServingSecret {
    /// Takes the certificate for `names` from the Secret, making it if need be.
    ///
    /// # Errors
    /// A name is none. That the cluster does not keep it is a warning, and tried again.
    pub async fn open(
        client: Client,
        namespace: &str,
        name: &str,
        names: &[String],
        chance: &Chance,
    ) -> Result<Self, TlsError> {
        let mut this = Self {
            secrets: Api::namespaced(client.clone(), namespace),
            metadata: metadata_of::<Secret>(client.clone(), Some(namespace)),
            maps: Api::namespaced(client, namespace),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            names: names.to_vec(),
            serving: self_signed(names)?.serving,
            shown: String::new(),
            chance: chance.clone(),
        };
        let looked = tokio::time::timeout(OPEN_TIMEOUT, this.look()).await;
        let slow = || TlsError(format!("no answer from the API server within {} s", OPEN_TIMEOUT.as_secs()));
        if let Err(error) = looked.unwrap_or_else(|_| Err(slow())) {
            tracing::warn!(%error, "serving with a certificate of this process only until it can be kept");
        }
        Ok(this)
    }

    /// What connections are answered with.
    pub fn serving(&self) -> Arc<ServingCert> {
        Arc::clone(&self.serving)
    }

    /// Follows the Secret and renews the certificate until `shutdown`.
    pub async fn run(mut self, shutdown: CancellationToken) {
        let config = watcher::Config::default().fields(&format!("metadata.name={}", self.name));
        let mut changes = self.chance.watch(self.metadata.clone(), config).boxed();
        let mut wait = if self.shown.is_empty() { RETRY_INTERVAL } else { LOOK_INTERVAL };
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
                Some(_) = changes.next() => {}
            }
            while let Ok(Some(_)) = tokio::time::timeout(DEBOUNCE, changes.next()).await {}
            wait = LOOK_INTERVAL;
            if let Err(error) = self.look().await {
                tracing::warn!(%error, "serving certificate not renewed, the old one stays");
                wait = RETRY_INTERVAL;
            }
        }
    }

    /// Looks at the Secret once, does what is due, and serves what it holds then.
    async fn look(&mut self) -> Result<(), TlsError> {
        for _ in 0..ATTEMPTS {
            let secret = bounded(self.secrets.get_opt(&self.name))
                .await
                .map_err(|error| self.failed("reading Secret", &error))?;
            let content = secret.as_ref().map(Content::of).unwrap_or_default();
            let (wanted, now) = (self.wanted(), Timestamp::now());
            let content = match content.step(&wanted, now) {
                Step::Rest(_) => content,
                due => {
                    tracing::info!(secret = self.name, ?due, "serving certificate");
                    let changed = content.after(due, &wanted, now)?;
                    match self.write(secret, changed.clone()).await {
                        Ok(()) => changed,
                        Err(kube::Error::Api(status))
                            if status.is_conflict() || status.is_already_exists() =>
                        {
                            continue;
                        }
                        Err(error) => return Err(self.failed("writing Secret", &error)),
                    }
                }
            };
            // Published first: clients that meet the new certificate must be able to check it.
            let published = self.publish(&content.authorities).await;
            self.show(&content)?;
            return published;
        }
        Err(TlsError(format!("Secret {}/{} changes too often", self.namespace, self.name)))
    }

    fn wanted(&self) -> Wanted<'_> {
        let (common_name, names) = (common_name(&self.names), &self.names);
        Wanted { common_name, names, lifetime: LIFE, settle_max: PUBLISHED }
    }

    /// Writes the Secret, if it still is as it was read.
    async fn write(&self, before: Option<Secret>, content: Content) -> Result<(), kube::Error> {
        let params = PostParams::default();
        let Some(before) = before else {
            let mut secret = new_secret(&self.namespace, &self.name);
            content.fill(&mut secret);
            return bounded(self.secrets.create(&params, &secret)).await.map(drop);
        };
        let version = before.metadata.resource_version;
        let patch = json!({ "metadata": { "resourceVersion": version }, "data": content.patch() });
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        bounded(self.secrets.patch(&self.name, &params, &patch)).await.map(drop)
    }

    /// Writes the authorities into the ConfigMap, if it has others.
    async fn publish(&self, authorities: &str) -> Result<(), TlsError> {
        let data = json!({ AUTHORITIES_KEY: authorities });
        let found =
            bounded(self.maps.get_opt(&self.name)).await.map_err(|e| self.failed("reading ConfigMap", &e))?;
        let written = match found {
            Some(map) if json!(map.data) == data => return Ok(()),
            Some(_) => {
                let patch = Patch::Merge(json!({ "data": data }));
                bounded(self.maps.patch(&self.name, &PatchParams::default(), &patch)).await
            }
            None => {
                let map = ConfigMap {
                    data: serde_json::from_value(data).ok(),
                    metadata: kube::core::ObjectMeta { name: Some(self.name.clone()), ..Default::default() },
                    ..ConfigMap::default()
                };
                bounded(self.maps.create(&PostParams::default(), &map)).await
            }
        };
        match written {
            // Another replica was faster, with the same content.
            Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
            Err(error) => Err(self.failed("writing ConfigMap", &error)),
            Ok(_) => Ok(()),
        }
    }

    /// Serves what the Secret holds.
    fn show(&mut self, content: &Content) -> Result<(), TlsError> {
        if let Some(pair) = &content.serving
            && pair.certificate != self.shown
        {
            self.serving.replace(certified_key(pair.certificate.as_bytes(), pair.key.as_bytes())?);
            self.shown.clone_from(&pair.certificate);
            tracing::info!(secret = self.name, "serving the certificate that the Secret holds");
        }
        Ok(())
    }

    fn failed(&self, action: &str, error: &kube::Error) -> TlsError {
        TlsError(format!("{action} {}/{}: {}", self.namespace, self.name, api_text(error)))
    }
}
