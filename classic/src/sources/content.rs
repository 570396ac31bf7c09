//! Content of sources: where it is kept, and how it gets there from images and ConfigMaps.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
    io::{self, Cursor, Read},
    sync::Arc,
};

pub(super) use catalogd::FetchJobs;
use catalogd::{CatalogFiles, CatalogStore, Generation, StoreError};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use kube::{Api, Client};
use olm_api_classic::CatalogSource;
use olm_classic_core::source::config_map;
use olm_image::{Digest, Puller};
use olm_runtime::{bounded, keyring_of};

use crate::SourceKey;

/// Longest readable name of a slot; a file system takes 255 bytes.
const SLOT_BYTES_MAX: usize = 200;
/// Most Secrets of a source whose credentials are read.
const SECRETS_MAX: usize = 32;

/// What references to content of ConfigMaps begin with.
const CONFIG_MAP: &str = "configmap";
/// What references to content of registry servers begin with.
pub(super) const REGISTRY: &str = "registry";

/// The name of a source's content in the store. Neither namespaces nor names have an underscore.
pub(crate) fn slot(key: &SourceKey) -> String {
    let name = format!("{}_{}", key.namespace, key.name);
    if name.len() <= SLOT_BYTES_MAX {
        return name;
    }
    format!("{}__{}", key.namespace, Digest::of(name.as_bytes()).hex())
}

/// Whether a slot is that of a source. Those of ClusterCatalogs are named as they are, without an underscore.
pub(crate) fn is_of_source(slot: &str) -> bool {
    slot.contains('_')
}

/// The namespace of a slot's source.
pub(crate) fn namespace_of(slot: &str) -> &str {
    slot.split_once('_').map_or(slot, |(namespace, _)| namespace)
}

/// Whether content is that of an image: only those have repositories.
pub(crate) fn is_of_image(generation: &Generation) -> bool {
    generation.reference().contains('/')
}

/// Removes content of sources that do not exist.
pub(super) async fn collect(store: Arc<CatalogStore>, exists: impl Fn(&str) -> bool + Send + 'static) {
    let collected = tokio::task::spawn_blocking(move || store.retain(exists));
    match collected.await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(%error, "collecting content that belongs to no CatalogSource"),
        Err(error) => tracing::error!(%error, "collecting content that belongs to no CatalogSource"),
    }
}

/// The Secrets with the credentials of a source, by namespace and name: those of its ServiceAccount, then its own.
pub(crate) async fn pull_secrets(client: &Client, source: &CatalogSource) -> Vec<(String, String)> {
    let key = SourceKey::of(source);
    let mut names = account_secrets(client, &key).await;
    names.extend(source.spec.secrets.iter().filter(|name| !name.is_empty()).cloned());
    names.truncate(SECRETS_MAX);
    names.into_iter().map(|name| (key.namespace.clone(), name)).collect()
}

/// The puller with the credentials of the process, then those in Secrets, and a text that changes with those.
///
/// # Errors
/// A Secret cannot be read: the text names it.
pub(crate) async fn puller(
    client: &Client,
    puller: &Puller,
    secrets: &[(String, String)],
) -> Result<(Puller, String), String> {
    if secrets.is_empty() {
        return Ok((puller.clone(), String::new()));
    }
    let own = keyring_of(client, secrets).await.map_err(|error| error.to_string())?;
    let mut fingerprint = DefaultHasher::new();
    own.hash(&mut fingerprint);
    let mut keyring = (*puller.keyring().get()).clone();
    keyring.merge(own);
    Ok((puller.with_keyring(keyring), format!("{:x}", fingerprint.finish())))
}

/// The pull secrets of the ServiceAccount of a source's name, which upstream makes; it may be there from then.
async fn account_secrets(client: &Client, key: &SourceKey) -> Vec<String> {
    let api = Api::<ServiceAccount>::namespaced(client.clone(), &key.namespace);
    let account = bounded(api.get_opt(&key.name)).await.ok().flatten();
    let secrets = account.and_then(|account| account.image_pull_secrets).unwrap_or_default();
    secrets.into_iter().map(|secret| secret.name).filter(|name| !name.is_empty()).collect()
}

/// Why a ConfigMap's content is not served.
#[derive(Debug)]
pub(super) enum Unusable {
    /// It is no catalog: the text says why.
    Content(String),
    /// The store failed.
    Store(String),
}

/// Serves the content of a ConfigMap, unless it is served already.
pub(super) async fn take_config_map(
    store: &Arc<CatalogStore>,
    slot: String,
    map: &ConfigMap,
    now: Timestamp,
) -> Result<Arc<Generation>, Unusable> {
    let data = map.data.clone().unwrap_or_default();
    let reference = format!("{CONFIG_MAP}@{}", digest(&data));
    if let Some(held) = store.generation(&slot).filter(|held| held.reference() == reference) {
        return Ok(held);
    }
    let store = Arc::clone(store);
    let taken = tokio::task::spawn_blocking(move || {
        let documents = config_map::documents(&data).map_err(|error| Unusable::Content(error.to_string()))?;
        if documents.is_empty() {
            return Err(Unusable::Content("the ConfigMap has no packages".to_owned()));
        }
        store.install(&slot, &reference, now, &OneFile(documents)).map_err(|error| match error {
            StoreError::Ingest(error) => Unusable::Content(error.to_string()),
            other => Unusable::Store(other.to_string()),
        })
    });
    taken.await.unwrap_or_else(|error| Err(Unusable::Store(error.to_string())))
}

fn digest(data: &BTreeMap<String, String>) -> Digest {
    let mut bytes = Vec::new();
    for text in data.iter().flat_map(|(key, value)| [key, value]) {
        bytes.extend(text.len().to_le_bytes());
        bytes.extend(text.as_bytes());
    }
    Digest::of(&bytes)
}

/// A catalog of one file of JSON lines.
pub(crate) struct OneFile(pub(crate) Vec<u8>);

impl CatalogFiles for OneFile {
    fn paths(&self) -> Vec<String> {
        vec!["catalog.json".to_owned()]
    }

    fn open<'a>(&'a self, _: &str) -> io::Result<Box<dyn Read + Send + 'a>> {
        Ok(Box::new(Cursor::new(&self.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_source_has_a_slot_of_its_own_that_is_a_file_name() {
        let key = |namespace: &str, name: &str| SourceKey { namespace: namespace.into(), name: name.into() };
        assert_eq!(slot(&key("happy", "busy.box")), "happy_busy.box");
        let long = slot(&key("n", &"a".repeat(253)));
        assert!(long.len() < SLOT_BYTES_MAX && long.starts_with("n__"), "{long}");
        assert_eq!((namespace_of(&long), namespace_of("happy_busy.box")), ("n", "happy"));
        assert_ne!(long, slot(&key("n", &format!("{}b", "a".repeat(252)))));
        assert_ne!(slot(&key("a-b", "c")), slot(&key("a", "b-c")));
    }

    #[tokio::test]
    async fn a_config_map_is_served_and_what_is_broken_replaces_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(CatalogStore::open(folder.path()).unwrap());
        let map = |packages: &str| ConfigMap {
            data: Some(BTreeMap::from([
                ("packages".to_owned(), packages.to_owned()),
                (
                    "clusterServiceVersions".to_owned(),
                    "[{metadata: {name: lamp.v1}, spec: {version: 1.0.0}}]".to_owned(),
                ),
            ])),
            ..ConfigMap::default()
        };
        let good = map("[{packageName: lamp, channels: [{name: stable, currentCSV: lamp.v1}]}]");
        let take = async |map: &ConfigMap| {
            take_config_map(&store, "n_c".to_owned(), map, Timestamp::UNIX_EPOCH).await
        };
        let first = take(&good).await.unwrap();
        assert_eq!(first.packages().collect::<Vec<_>>(), ["lamp"]);
        assert!(Arc::ptr_eq(&first, &take(&good).await.unwrap()), "the same content is not read again");
        let broken = take(&map("[{packageName: ")).await.unwrap_err();
        assert!(matches!(broken, Unusable::Content(text) if text.starts_with("the key packages")));
        assert!(Arc::ptr_eq(&first, &store.generation("n_c").unwrap()));
    }
}
