//! PackageManifests: the packages of all catalogs, served as an aggregated API.
//!
//! What a catalog shows is written to a file once for each content ([`Summary`]); memory holds names, labels and places
//! in that file. Answers are read from it piece by piece.

mod icon;
mod resource;
mod summary;

use std::{
    collections::VecDeque,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use catalogd::RegistryContent;
use olm_aggregate::{ApiServer, Registration, Resource};
use olm_api_classic::CatalogSource;
use olm_runtime::{Process, ProcessError};
use parking_lot::RwLock;
use tokio::sync::{broadcast::error::RecvError, watch};
use tokio_util::sync::CancellationToken;

use crate::{Content, Contents, SourceKey};
pub(crate) use summary::PACKAGE_MEMORY_MAX;
use summary::Summary;

/// The Service that kube-apiserver forwards requests to: the APIService of the manifests names it.
pub(crate) const SERVICE: &str = "packageserver-service";
const FIELD_MANAGER: &str = "olm-classic";
/// Versions that a watch can continue from. Older content keeps its file on disk for as long.
const VERSIONS_MAX: usize = 4;
/// Changes of catalogs that come together are shown at once.
const DEBOUNCE: Duration = Duration::from_millis(100);

/// The packages of all catalogs.
#[derive(Debug)]
pub struct Packages {
    /// The namespace whose catalogs every namespace sees.
    global_namespace: String,
    /// Folder for files of this process alone.
    folder: PathBuf,
    /// What is shown, and before it what was shown at earlier versions.
    shown: RwLock<VecDeque<Shown>>,
    version: watch::Sender<u64>,
    /// Whether the packages of all catalogs were shown once.
    read: AtomicBool,
}

/// What is shown at a version.
#[derive(Debug, Clone)]
struct Shown {
    version: u64,
    /// By namespace and name of the CatalogSource.
    catalogs: Arc<Vec<Arc<Catalog>>>,
}

/// A CatalogSource with the summary of its content.
#[derive(Debug)]
struct Catalog {
    key: SourceKey,
    source: Arc<CatalogSource>,
    summary: Arc<Summary>,
}

impl Packages {
    /// No packages yet. `folder` is for files that only live as long as this value.
    pub fn new(global_namespace: String, folder: PathBuf) -> Arc<Self> {
        let shown = RwLock::new(VecDeque::from([Shown { version: 1, catalogs: Arc::default() }]));
        let (version, read) = (watch::Sender::new(1), AtomicBool::new(false));
        Arc::new(Self { global_namespace, folder, shown, version, read })
    }

    /// Shows what the catalogs hold until `shutdown`.
    pub async fn follow(self: Arc<Self>, contents: Contents, shutdown: CancellationToken) {
        let (mut changes, mut read) = (contents.changes(), contents.read());
        loop {
            read.mark_unchanged();
            self.refresh(&contents).await;
            tokio::select! {
                () = shutdown.cancelled() => return,
                Ok(()) = read.changed() => continue,
                change = changes.recv() => if matches!(change, Err(RecvError::Closed)) { return },
            }
            while let Ok(Ok(_) | Err(RecvError::Lagged(_))) =
                tokio::time::timeout(DEBOUNCE, changes.recv()).await
            {}
        }
    }

    /// Shows what the catalogs hold now. Content that is shown already is not read again.
    pub async fn refresh(&self, contents: &Contents) {
        let all_read = contents.ready().is_ok();
        let before = self.shown().catalogs;
        let mut after = Vec::<Arc<Catalog>>::new();
        for (key, content) in contents.all() {
            let syntax = content.image_syntax();
            let Content { source, generation } = content;
            let reference = generation.reference();
            let known = after.iter().chain(before.iter()).find(|one| one.summary.reference() == reference);
            let summary = if let Some(known) = known {
                Ok(Arc::clone(&known.summary))
            } else {
                let folder = self.folder.clone();
                let work = tokio::task::spawn_blocking(move || {
                    Summary::write(&RegistryContent(generation), syntax, &folder)
                });
                work.await.unwrap_or_else(|error| Err(std::io::Error::other(error))).map(Arc::new)
            };
            match summary {
                Ok(summary) => after.push(Arc::new(Catalog { key, source, summary })),
                Err(error) => {
                    tracing::warn!(catalog = %key, %error, "packages of a catalog are not shown anew");
                    after.extend(before.iter().find(|one| one.key == key).cloned());
                }
            }
        }
        self.show(&before, after);
        self.read.store(all_read, Ordering::Release);
    }

    /// What is shown now.
    fn shown(&self) -> Shown {
        let none = || Shown { version: 1, catalogs: Arc::default() };
        self.shown.read().back().cloned().unwrap_or_else(none)
    }

    fn show(&self, before: &[Arc<Catalog>], after: Vec<Arc<Catalog>>) {
        let same = |one: &Arc<Catalog>, other: &Arc<Catalog>| {
            let (one, other) = (&**one, &**other);
            one.key == other.key
                && Arc::ptr_eq(&one.source, &other.source)
                && Arc::ptr_eq(&one.summary, &other.summary)
        };
        let is_same =
            before.len() == after.len() && before.iter().zip(&after).all(|(one, other)| same(one, other));
        if !is_same {
            // All replicas show the versions of the same objects, so that a watch can continue at another one.
            let versions =
                after.iter().filter_map(|one| one.source.metadata.resource_version.as_ref()?.parse().ok());
            let newest = versions.max().unwrap_or(0);
            let version = newest.max(self.version.borrow().saturating_add(1));
            let mut shown = self.shown.write();
            shown.push_back(Shown { version, catalogs: Arc::new(after) });
            let surplus = shown.len().saturating_sub(VERSIONS_MAX);
            shown.drain(..surplus);
            drop(shown);
            self.version.send_replace(version);
        }
    }
}

/// Serves `packages` as those of `contents` on `address`, and has kube-apiserver trust the server. `authorities` is the
/// ConfigMap of the serving certificate.
///
/// # Errors
/// The address cannot be listened on.
pub(crate) fn start(
    process: &mut Process,
    (server, packages): (Arc<ApiServer<Packages>>, Arc<Packages>),
    contents: Contents,
    (address, authorities): (&str, &str),
) -> Result<(), ProcessError> {
    let tls = process.tls_for(ApiServer::<Packages>::client_verifier())?;
    process.spawn_server("the server of packages", address, server.router(), tls)?;
    let (chance, shutdown) = (process.chance.clone(), process.shutdown.clone());
    process.spawn("the settings of authentication", server.follow(chance.clone(), shutdown.clone()));
    process.spawn("the packages", packages.follow(contents, shutdown.clone()));
    if process.publishes_authorities() {
        let registration = registration(process.namespace(), authorities);
        let client = process.client();
        process.spawn("the registration of packages", registration.run(client, chance, shutdown));
    }
    Ok(())
}

/// Whom kube-apiserver trusts as the server of the packages.
pub fn registration(namespace: &str, authorities: &str) -> Registration {
    Registration {
        names: Packages::NAMES,
        namespace: namespace.to_owned(),
        authorities: authorities.to_owned(),
        field_manager: FIELD_MANAGER,
    }
}

#[cfg(test)]
mod tests;
