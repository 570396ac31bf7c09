//! Reading catalogs that another process serves: fetched whole once per digest, kept on disk.
//!
//! Fetched content is ingested into a store of this process, so answers are the same as in process. A body of
//! another digest than the status names is not taken. While a catalog cannot be fetched,
//! the last good copy is used, across restarts too.

mod trust;

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use arc_swap::ArcSwap;
use async_trait::async_trait;
use olm_fbc::{CatalogError, PackageContent};
use olm_image::DiskBudget;
use olm_runtime::Clock;
use reqwest::{StatusCode, header};
use thiserror::Error;
use tokio::time::Instant;

pub use trust::{Trust, TrustError};

use super::{CatalogReader, LocalReader};
use crate::{
    CatalogFiles, CatalogStore, StoreError,
    limits::{CATALOG_BYTES_MAX, FETCH_TIMEOUT},
    store::digest_of,
};

/// After a failure the next one to ask waits this long before fetching is tried again.
const PAUSE: Duration = Duration::from_secs(2);

/// The address of a catalog, and its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteCatalog {
    /// Base of its addresses, without a slash at the end.
    pub base_url: String,
    /// Digest reference in its status.
    pub reference: String,
}

/// Knows the statuses of the catalogs.
pub trait CatalogDirectory: Send + Sync {
    /// Where `catalog` is served; `None` when its status names no content.
    fn find(&self, catalog: &str) -> Option<RemoteCatalog>;
}

/// The reader over another process' HTTPS server.
pub struct HttpReader {
    /// The client, or the reason why there is none yet.
    client: ArcSwap<Result<reqwest::Client, String>>,
    directory: Arc<dyn CatalogDirectory>,
    copies: LocalReader,
    clock: Arc<dyn Clock>,
    spool: PathBuf,
    disk: DiskBudget,
    attempts: parking_lot::Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<Option<Failure>>>>>,
}

/// The last failure to fetch a catalog.
struct Failure {
    reference: String,
    since: Instant,
    text: String,
}

#[derive(Debug, Error)]
enum FetchError {
    #[error("{}", message(.0))]
    Request(#[from] reqwest::Error),
    #[error("{0}")]
    NoClient(String),
    #[error("catalog server answered {0}")]
    Status(StatusCode),
    #[error("catalog server has other content than the catalog's status names")]
    OtherDigest,
    #[error("catalog has more than {CATALOG_BYTES_MAX} bytes")]
    TooLarge,
    #[error("keeping the catalog: {0}")]
    Spool(#[from] io::Error),
    #[error("keeping the catalog: {0}")]
    Store(#[from] StoreError),
    #[error("internal: {0}")]
    Thread(#[from] tokio::task::JoinError),
}

/// An error with its causes; one of the proxy's is marked as Go's client does, which people search for.
fn message(error: &reqwest::Error) -> String {
    let text = olm_text::causes(error);
    let proxied = ["HTTPS_PROXY", "https_proxy"]
        .iter()
        .any(|name| std::env::var_os(name).is_some_and(|v| !v.is_empty()));
    if proxied && error.is_connect() { format!("proxyconnect tcp: {text}") } else { text }
}

impl HttpReader {
    /// Keeps copies below `cache_dir`, which count on `disk`. Without a client for now: the server's authority is to be
    /// found first. Blocks while it checks the copies of an earlier process.
    pub fn new(
        directory: Arc<dyn CatalogDirectory>,
        clock: Arc<dyn Clock>,
        cache_dir: &Path,
        disk: DiskBudget,
    ) -> Result<Self, StoreError> {
        let copies = LocalReader::new(Arc::new(CatalogStore::open_within(cache_dir, disk.clone())?));
        let spool = cache_dir.to_owned();
        let none = "the authority of the catalog server is not known yet";
        let client = ArcSwap::from_pointee(Err(none.to_owned()));
        Ok(Self { client, directory, copies, clock, spool, disk, attempts: parking_lot::Mutex::default() })
    }

    /// Reads through this client from now on, which knows the server's authority; without one, for the given reason.
    pub fn set_client(&self, client: Result<reqwest::Client, String>) {
        self.client.store(Arc::new(client));
    }

    /// Fetches the content that the catalog's status names, if it is not here yet. The store reports it as a change.
    ///
    /// # Errors
    /// The text is the reason.
    pub async fn refresh(&self, catalog: &str) -> Result<(), String> {
        match self.directory.find(catalog) {
            Some(remote) => self.update(catalog, &remote).await,
            None => Ok(()),
        }
    }

    /// The copies; the store reports newer ones as changes.
    pub fn store(&self) -> &Arc<CatalogStore> {
        &self.copies.store
    }

    /// Fetches the content that the status names; one at a time for each catalog.
    async fn update(&self, catalog: &str, remote: &RemoteCatalog) -> Result<(), String> {
        let held =
            || self.store().generation(catalog).is_some_and(|held| held.reference() == remote.reference);
        if held() {
            return Ok(());
        }
        let attempt = {
            let mut attempts = self.attempts.lock();
            Arc::clone(attempts.entry(catalog.to_owned()).or_default())
        };
        let mut failure = attempt.lock().await;
        if held() {
            return Ok(());
        }
        if let Some(before) = failure.as_ref()
            && before.reference == remote.reference
            && before.since.elapsed() < PAUSE
        {
            return Err(before.text.clone());
        }
        match self.fetch(catalog, remote).await {
            Ok(()) => {
                *failure = None;
                Ok(())
            }
            Err(error) => {
                let text = error.to_string();
                tracing::warn!(catalog, error = text, "fetching catalog content");
                *failure = Some(Failure {
                    reference: remote.reference.clone(),
                    since: Instant::now(),
                    text: text.clone(),
                });
                Err(text)
            }
        }
    }

    async fn fetch(&self, catalog: &str, remote: &RemoteCatalog) -> Result<(), FetchError> {
        let url = format!("{}/api/v1/all", remote.base_url);
        let client = self.client.load_full();
        let client = client.as_ref().as_ref().map_err(|reason| FetchError::NoClient(reason.clone()))?;
        let mut response = client.get(url).timeout(FETCH_TIMEOUT).send().await?;
        if response.status() != StatusCode::OK {
            return Err(FetchError::Status(response.status()));
        }
        let digest = digest_of(&remote.reference);
        // Upstream's server sends no tag; there the status has to be trusted.
        let tag = response.headers().get(header::ETAG);
        if tag.is_some_and(|tag| tag.as_bytes() != format!("\"{digest}\"").as_bytes()) {
            return Err(FetchError::OtherDigest);
        }
        let mut spool = tempfile::tempfile_in(&self.spool)?;
        let mut charge = self.disk.empty();
        let mut bytes = 0_u64;
        while let Some(chunk) = response.chunk().await? {
            bytes += chunk.len() as u64;
            if bytes > CATALOG_BYTES_MAX {
                return Err(FetchError::TooLarge);
            }
            // To the page cache: short enough to be done here.
            charge.grow(chunk.len() as u64).map_err(io::Error::from)?;
            spool.write_all(&chunk)?;
        }
        let (store, catalog, reference) =
            (Arc::clone(self.store()), catalog.to_owned(), remote.reference.clone());
        let now = self.clock.now();
        tokio::task::spawn_blocking(move || store.install(&catalog, &reference, now, &Fetched(spool)))
            .await??;
        Ok(())
    }
}

/// A package is fetched if the catalog's status names other content than is here; nothing is fetched for
/// [`CatalogReader::mentioning`] and [`CatalogReader::packages`].
#[async_trait]
impl CatalogReader for HttpReader {
    async fn package(&self, catalog: &str, package: &str) -> Result<Arc<PackageContent>, CatalogError> {
        let not_served = || CatalogError::NotServed { catalog: catalog.to_owned() };
        let remote = self.directory.find(catalog).ok_or_else(not_served)?;
        let updated = self.update(catalog, &remote).await;
        if let Err(cause) = updated
            && self.store().generation(catalog).is_none()
        {
            return Err(CatalogError::Read { catalog: catalog.to_owned(), cause });
        }
        self.copies.package(catalog, package).await
    }

    async fn mentioning(&self, catalog: &str, text: &str) -> Result<Vec<PackageContent>, CatalogError> {
        self.copies.mentioning(catalog, text).await
    }

    async fn packages(&self, catalog: &str) -> Result<Vec<String>, CatalogError> {
        self.copies.packages(catalog).await
    }
}

/// The one file that a fetched catalog is.
struct Fetched(File);

impl CatalogFiles for Fetched {
    fn paths(&self) -> Vec<String> {
        vec!["catalog.jsonl".to_owned()]
    }

    fn open<'a>(&'a self, _: &str) -> io::Result<Box<dyn Read + Send + 'a>> {
        let mut file = &self.0;
        file.seek(SeekFrom::Start(0))?;
        Ok(Box::new(file))
    }
}

#[cfg(test)]
mod tests;
