//! Reading the whole catalog of a foreign server, as documents of a file-based catalog.

use std::{collections::BTreeSet, io};

use olm_classic_core::registry_model::{Bundle, CatalogTooLarge, Documents, Package};
use thiserror::Error;
use tokio::time::timeout;

use crate::{ClientError, RegistryClient, limits::CATALOG_BYTES_MAX};

/// Why a catalog could not be read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The server failed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The catalog is larger than is read.
    #[error(transparent)]
    TooLarge(#[from] CatalogTooLarge),
    /// What was read could not be kept.
    #[error("the content cannot be stored: {0}")]
    Store(#[from] io::Error),
}

/// Takes the documents, line by line.
struct Lines<S> {
    documents: Documents,
    sink: S,
    bytes: usize,
}

impl<S: FnMut(&[u8]) -> io::Result<()>> Lines<S> {
    fn put(&mut self, line: Option<Vec<u8>>) -> Result<(), ReadError> {
        let Some(line) = line else { return Ok(()) };
        self.bytes = self.bytes.saturating_add(line.len());
        if self.bytes > CATALOG_BYTES_MAX {
            return Err(ClientError::TooLarge("the documents").into());
        }
        Ok((self.sink)(&line)?)
    }

    fn entry(&mut self, bundle: &Bundle) -> Result<(), ReadError> {
        let line = self.documents.entry(bundle)?;
        self.put(line)
    }
}

impl RegistryClient {
    /// Reads the whole catalog and gives its documents to `sink`, line by line. What the server does not find is left out.
    ///
    /// # Errors
    /// The server failed or took too long, the catalog is too large, or `sink` failed.
    pub async fn documents(
        &self,
        sink: impl FnMut(&[u8]) -> io::Result<()> + Send,
    ) -> Result<Documents, ReadError> {
        let reading = self.read(sink);
        timeout(self.timeout(), reading).await.map_err(|_| ClientError::Timeout("the whole catalog"))?
    }

    async fn read(&self, sink: impl FnMut(&[u8]) -> io::Result<()> + Send) -> Result<Documents, ReadError> {
        let mut lines = Lines { documents: Documents::default(), sink, bytes: 0 };
        let mut heads = Vec::new();
        for name in self.packages().await? {
            let Some(package) = found(self.package(&name).await)? else { continue };
            let package = Package { name, ..package };
            let of = |channel: &str| (package.name.clone(), channel.to_owned());
            let mut known = BTreeSet::new();
            let is_new = |name: &str| name.is_empty() || known.insert(name.to_owned());
            heads.extend(heads_of(&package, is_new).map(of));
            lines.documents.push_package(package)?;
        }
        // Their ClusterServiceVersions are not in the list of all bundles.
        for (package_name, channel_name) in heads {
            let Some(head) = found(self.head(&package_name, &channel_name).await)? else { continue };
            let line = lines.documents.bundle(&Bundle { package_name, channel_name, ..head })?;
            lines.put(line)?;
        }
        let mut failed = Ok(());
        self.each_bundle(|bundle| {
            failed = lines.entry(&bundle);
            failed.is_ok()
        })
        .await?;
        failed?;
        for line in lines.documents.rest() {
            lines.put(Some(line))?;
        }
        Ok(lines.documents)
    }
}

/// The channels by whose heads every head is found once.
fn heads_of(package: &Package, mut is_new: impl FnMut(&str) -> bool) -> impl Iterator<Item = &str> {
    let channels = package.channels.iter().filter(move |channel| is_new(&channel.csv_name));
    channels.map(|channel| channel.name.as_str())
}

/// The answer of a server that did its work, whether it found something or not.
fn found<T>(answer: Result<T, ClientError>) -> Result<Option<T>, ClientError> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(ClientError::Call { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
