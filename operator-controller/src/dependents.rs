//! Extensions whose bundle needs something that is not there yet: who they are, what they would bring, and when
//! to look again.
//!
//! They look again when anything is installed, when a CustomResourceDefinition appears, and when another one
//! begins to wait (both may be on a cycle). The same watch tells when the platform's ClusterVersion changes.
//! Nothing here survives the process; the next pass of each extension brings it back.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::{Stream, StreamExt, stream::SelectAll};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject},
    core::GroupVersionKind,
    runtime::watcher::{self, Event},
};
use olm_dependencies::Requirement;
use olm_fbc::Property;
use olm_runtime::Chance;
use olm_semver::Version;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::{kinds::Crd, platform::Platform};

/// Changes that come together wake once.
const GATHER: Duration = Duration::from_millis(50);
/// The CRD whose presence makes a cluster a platform with versions of its own.
const CLUSTER_VERSIONS: &str = "clusterversions.config.openshift.io";

/// A bundle that is chosen and not installed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pending {
    pub(crate) package: String,
    pub(crate) version: Option<Version>,
    pub(crate) properties: Vec<Property>,
    pub(crate) requirements: Vec<Requirement>,
}

/// The extensions that wait.
#[derive(Debug)]
pub(crate) struct Dependents {
    pending: Mutex<BTreeMap<String, Arc<Pending>>>,
    /// Those that have what they need, and look again when something goes.
    met: Mutex<BTreeSet<String>>,
    wake: mpsc::Sender<String>,
}

impl Dependents {
    pub(crate) fn new(wake: mpsc::Sender<String>) -> Self {
        Self { pending: Mutex::default(), met: Mutex::default(), wake }
    }

    /// Notes what an extension is about to install and lacks. When that is news, the others look again.
    pub(crate) async fn waits(&self, extension: &str, pending: Pending) {
        let news = {
            let mut all = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
            if all.get(extension).is_some_and(|known| **known == pending) {
                false
            } else {
                all.insert(extension.to_owned(), Arc::new(pending));
                true
            }
        };
        if news {
            self.wake_all_but(Some(extension)).await;
        }
    }

    /// The extension needs nothing, or is gone.
    pub(crate) fn needs_nothing(&self, extension: &str) {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).remove(extension);
        self.met.lock().unwrap_or_else(PoisonError::into_inner).remove(extension);
    }

    /// The extension has what it needs, or is installed without it.
    pub(crate) fn is_served(&self, extension: &str) {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).remove(extension);
        self.met.lock().unwrap_or_else(PoisonError::into_inner).insert(extension.to_owned());
    }

    /// Everyone who waits, by name.
    pub(crate) fn all(&self) -> BTreeMap<String, Arc<Pending>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Something was installed: those that wait look again.
    pub(crate) async fn wake(&self) {
        self.wake_all_but(None).await;
    }

    /// Something was removed: those that have what they need look again.
    pub(crate) async fn wake_met(&self) {
        let all = self.met.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for name in all {
            // A closed channel means that the process is ending.
            let _ = self.wake.send(name).await;
        }
    }

    async fn wake_all_but(&self, extension: Option<&str>) {
        for name in self.all().into_keys().filter(|name| Some(name.as_str()) != extension) {
            // A closed channel means that the process is ending.
            let _ = self.wake.send(name).await;
        }
    }
}

/// What the watches tell.
enum Told {
    Crd(Crd),
    ClusterVersion(Option<String>),
}

/// Follows the CustomResourceDefinitions that `changed_crds` names, and watches the ClusterVersion where there is one.
pub(crate) async fn run(
    client: Client,
    chance: &Chance,
    changed_crds: mpsc::Receiver<Crd>,
    dependents: Arc<Dependents>,
    platform: &Platform,
    wake_all: &impl AsyncFn(),
    shutdown: CancellationToken,
) {
    let mut changes = SelectAll::new();
    changes.push(crds(changed_crds).boxed());
    let mut watches_version = false;
    loop {
        let told = tokio::select! {
            () = shutdown.cancelled() => return,
            Some(told) = changes.next() => told,
        };
        match told {
            // Without that kind there is no such platform.
            Told::Crd(Crd::Listed) => {
                if !watches_version && platform.set(None) {
                    wake_all().await;
                }
            }
            Told::Crd(Crd::Changed(name)) => {
                if name == CLUSTER_VERSIONS && !watches_version {
                    watches_version = true;
                    changes.push(cluster_version(client.clone(), chance).boxed());
                }
                if !dependents.all().is_empty() {
                    tokio::time::sleep(GATHER).await;
                    dependents.wake().await;
                }
            }
            Told::ClusterVersion(version) => {
                if platform.set(version.as_deref()) {
                    wake_all().await;
                }
            }
        }
    }
}

fn crds(changed: mpsc::Receiver<Crd>) -> impl Stream<Item = Told> + Send {
    futures::stream::unfold(changed, |mut changed| async {
        changed.recv().await.map(|crd| (Told::Crd(crd), changed))
    })
}

fn cluster_version(client: Client, chance: &Chance) -> impl Stream<Item = Told> + Send + use<> {
    let kind = GroupVersionKind::gvk("config.openshift.io", "v1", "ClusterVersion");
    let resource = ApiResource::from_gvk_with_plural(&kind, "clusterversions");
    let api: Api<DynamicObject> = Api::all_with(client, &resource);
    let only = watcher::Config::default().fields("metadata.name=version");
    // A list without it says so only by its end.
    let mut listed = None;
    chance.watch(api, only).filter_map(move |event| {
        let version = |object: &DynamicObject| {
            let version = object.data.pointer("/status/desired/version").and_then(|v| v.as_str());
            version.map(str::to_owned)
        };
        let told = match event {
            Ok(Event::Apply(object)) => Some(Told::ClusterVersion(version(&object))),
            Ok(Event::Delete(_)) => Some(Told::ClusterVersion(None)),
            Ok(Event::Init) => {
                listed = None;
                None
            }
            Ok(Event::InitApply(object)) => {
                listed = version(&object);
                None
            }
            Ok(Event::InitDone) => Some(Told::ClusterVersion(listed.take())),
            Err(error) => {
                tracing::debug!(%error, "watch of ClusterVersions interrupted");
                None
            }
        };
        std::future::ready(told)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending(package: &str) -> Pending {
        Pending {
            package: package.to_owned(),
            version: None,
            properties: Vec::new(),
            requirements: Vec::new(),
        }
    }

    #[tokio::test]
    async fn who_begins_to_wait_wakes_the_others_once() {
        let (wake, mut woken) = mpsc::channel(8);
        let dependents = Dependents::new(wake);
        dependents.waits("a", pending("p")).await;
        dependents.waits("b", pending("q")).await;
        assert_eq!(woken.try_recv().as_deref(), Ok("a"));
        dependents.waits("b", pending("q")).await;
        assert!(woken.try_recv().is_err(), "no news");
        dependents.is_served("a");
        dependents.wake().await;
        assert_eq!(woken.try_recv().as_deref(), Ok("b"));
        assert!(woken.try_recv().is_err());
        dependents.wake_met().await;
        assert_eq!(woken.try_recv().as_deref(), Ok("a"));
        dependents.needs_nothing("a");
        dependents.wake_met().await;
        assert!(woken.try_recv().is_err());
    }
}
