//! Which resource serves a kind: cached discovery, refreshed when a kind is not found.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject},
};
use parking_lot::Mutex;
use thiserror::Error;
use tokio::time::Instant;

use crate::client::bounded;

/// A kind that was not found is looked up again after this time at the earliest.
const REFRESH_FLOOR: Duration = Duration::from_millis(500);
/// The same while what brings kinds is followed: a kind that comes is not found by a lookup, but by its event.
const FOLLOWED_REFRESH_FLOOR: Duration = Duration::from_secs(10);

/// A kind as the API server serves it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Kind {
    /// Group, version, kind and plural.
    pub resource: ApiResource,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
}

impl Kind {
    /// Its objects; those of a namespace where it has namespaces.
    pub fn api(&self, client: &Client, namespace: &str) -> Api<DynamicObject> {
        if self.namespaced && !namespace.is_empty() {
            Api::namespaced_with(client.clone(), namespace, &self.resource)
        } else {
            Api::all_with(client.clone(), &self.resource)
        }
    }
}

/// Why a kind could not be mapped.
#[derive(Debug, Error)]
pub enum DiscoveryError {
    /// The API server does not know the kind.
    #[error("no matches for kind {kind:?} in version {api_version:?}")]
    Unknown {
        /// `group/version`.
        api_version: String,
        /// Kind.
        kind: String,
    },
    /// The API server did not answer, or an aggregated API is down.
    #[error("discovering {api_version:?}: {source}")]
    Unavailable {
        /// `group/version`.
        api_version: String,
        /// The API server's answer.
        source: kube::Error,
    },
}

struct GroupVersion {
    kinds: BTreeMap<String, Kind>,
    fetched: Instant,
}

/// Maps kinds to resources.
#[derive(Clone)]
pub struct Discovery {
    client: Client,
    cache: Arc<Mutex<BTreeMap<String, GroupVersion>>>,
    is_followed: Arc<AtomicBool>,
}

impl Discovery {
    /// An empty cache over `client`.
    pub fn new(client: Client) -> Self {
        Self { client, cache: Arc::default(), is_followed: Arc::default() }
    }

    /// The resource of a kind.
    ///
    /// # Errors
    /// The cluster does not serve the kind, or its API does not answer.
    pub async fn kind(&self, api_version: &str, kind: &str) -> Result<Kind, DiscoveryError> {
        let unknown =
            || DiscoveryError::Unknown { api_version: api_version.to_owned(), kind: kind.to_owned() };
        {
            let cache = self.cache.lock();
            if let Some(known) = cache.get(api_version) {
                if let Some(found) = known.kinds.get(kind) {
                    return Ok(found.clone());
                }
                if known.fetched.elapsed() < self.refresh_floor() {
                    return Err(unknown());
                }
            }
        }
        let kinds = self.fetch(api_version).await?;
        let found = kinds.get(kind).cloned();
        let entry = GroupVersion { kinds, fetched: Instant::now() };
        self.cache.lock().insert(api_version.to_owned(), entry);
        found.ok_or_else(unknown)
    }

    /// From now on [`Discovery::forget_group`] is called whenever something that brings kinds changes.
    pub fn set_followed(&self) {
        self.is_followed.store(true, Ordering::Relaxed);
    }

    fn refresh_floor(&self) -> Duration {
        if self.is_followed.load(Ordering::Relaxed) { FOLLOWED_REFRESH_FLOOR } else { REFRESH_FLOOR }
    }

    /// Forgets what is known of a group and version, because its CustomResourceDefinition changed.
    pub fn forget(&self, api_version: &str) {
        self.cache.lock().remove(api_version);
    }

    /// Forgets what is known of all versions of a group, because something that brings its kinds changed.
    pub fn forget_group(&self, group: &str) {
        let of_group = |api_version: &String| api_version.split_once('/').map_or("", |(g, _)| g) == group;
        self.cache.lock().retain(|known, _| !of_group(known));
    }

    async fn fetch(&self, api_version: &str) -> Result<BTreeMap<String, Kind>, DiscoveryError> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let listed = if group.is_empty() {
            bounded(self.client.list_core_api_resources(version)).await
        } else {
            bounded(self.client.list_api_group_resources(api_version)).await
        };
        let listed = match listed {
            Ok(listed) => listed,
            // For a group that is not served the answer is a plain page, without a status.
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(BTreeMap::new()),
            Err(source) => {
                return Err(DiscoveryError::Unavailable { api_version: api_version.to_owned(), source });
            }
        };
        let kinds = listed.resources.into_iter().filter(|r| !r.name.contains('/')).map(|r| {
            let resource = ApiResource {
                group: group.to_owned(),
                version: version.to_owned(),
                api_version: api_version.to_owned(),
                kind: r.kind.clone(),
                plural: r.name,
            };
            (r.kind, Kind { resource, namespaced: r.namespaced })
        });
        Ok(kinds.collect())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use kube::client::Body;

    use super::*;

    /// A kind that is not served costs one request, until what brings kinds changes or the time has passed.
    #[tokio::test(start_paused = true)]
    async fn a_kind_that_is_not_served_is_looked_up_again_when_it_may_have_come() {
        let requests = Arc::new(AtomicUsize::new(0));
        let count = requests.clone();
        let client = Client::new(
            tower::service_fn(move |_: http::Request<Body>| {
                count.fetch_add(1, Ordering::Relaxed);
                let answer =
                    http::Response::builder().status(404).body(Body::from(b"404 page not found".to_vec()));
                async move { answer }
            }),
            "default",
        );
        let discovery = Discovery::new(client);
        let look_up = async |after: Duration| {
            tokio::time::advance(after).await;
            let found = discovery.kind("monitoring.coreos.com/v1", "ServiceMonitor").await;
            assert!(matches!(found, Err(DiscoveryError::Unknown { .. })));
            requests.load(Ordering::Relaxed)
        };
        assert_eq!(look_up(Duration::ZERO).await, 1);
        assert_eq!(look_up(Duration::from_millis(400)).await, 1);
        assert_eq!(look_up(Duration::from_millis(200)).await, 2);
        discovery.set_followed();
        assert_eq!(look_up(Duration::from_secs(9)).await, 2);
        discovery.forget_group("monitoring.coreos.com");
        assert_eq!(look_up(Duration::ZERO).await, 3);
        assert_eq!(look_up(Duration::from_secs(11)).await, 4);
    }
}
