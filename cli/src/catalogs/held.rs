//! Catalogs that a command holds: read once into a folder of their own, as catalogd reads them.

use std::{
    io::{self, Read, Write},
    ops::Range,
    path::Path,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, anyhow, bail};
use catalogd::{CatalogStore, Generation};
use jiff::Timestamp;
use olm_fbc::{
    CatalogError, CatalogFiles, Meta, MetaReader, PackageContent, Query, SCHEMA_BUNDLE, SCHEMA_PACKAGE,
};
use olm_image::Reference;
use reqwest::{Certificate, Client, StatusCode};
use tempfile::{NamedTempFile, TempDir};

use super::{Catalog, Content, Named, Wanted, unreadable};
use crate::sources::{Registries, Source, read_limited};

/// Largest catalog that is fetched from an address, in bytes; the largest public one has 150 MB.
pub(super) const CATALOG_BYTES_MAX: u64 = 2 << 30;
/// Largest file with authorities in bytes.
const AUTHORITY_BYTES_MAX: u64 = 1 << 20;
/// For a whole catalog over a slow line.
const FETCH_TIMEOUT: Duration = Duration::from_mins(10);

/// The content of a catalog in files of this process.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    generation: Arc<Generation>,
    /// Holds the files until the last of its catalogs is dropped.
    _folder: Arc<TempDir>,
}

impl Held {
    /// Reads a catalog from these files.
    pub(super) fn read(files: &dyn CatalogFiles, folder: Arc<TempDir>, name: &str) -> anyhow::Result<Self> {
        let nothing = || anyhow!("this is not a catalog: no document with a schema was found");
        if files.paths().is_empty() {
            return Err(nothing());
        }
        let store = CatalogStore::open(&folder.path().join(name))?;
        let reference = format!("local@sha256:{:064x}", 0);
        let generation = store.install("catalog", &reference, Timestamp::UNIX_EPOCH, files)?;
        if generation.documents() == 0 {
            return Err(nothing());
        }
        Ok(Self { generation, _folder: folder })
    }

    /// Reads the catalog in an image. It is a reference, not a [`Source`]: what a cluster names as an image must not open a
    /// file of the user.
    pub(crate) async fn of_image(image: Reference, registries: &Registries) -> anyhow::Result<Self> {
        let folder = Arc::new(tempfile::tempdir().context("creating a folder for a catalog")?);
        let tree = registries.catalog(&Source::Image(image), None).await?.tree;
        Self::read(&tree, folder, "image")
    }

    /// The documents.
    pub(crate) fn generation(&self) -> &Arc<Generation> {
        &self.generation
    }

    /// Names of the packages.
    #[cfg(test)]
    pub(crate) fn packages(&self) -> Vec<String> {
        self.generation.packages().map(str::to_owned).collect()
    }

    pub(super) async fn package(&self, package: &str) -> Result<PackageContent, CatalogError> {
        let package = package.to_owned();
        self.blocking(move |held| held.package(&package)).await
    }

    pub(super) async fn mentioning(&self, text: &str) -> Result<Vec<PackageContent>, CatalogError> {
        let text = text.to_owned();
        self.blocking(move |held| held.mentioning(&text)).await
    }

    pub(super) async fn fold<T: Send + 'static>(
        &self,
        wanted: Wanted<'_>,
        start: T,
        take: impl Fn(&mut T, &Meta<'_>) -> anyhow::Result<()> + Send + 'static,
    ) -> anyhow::Result<T> {
        let ranges = match wanted {
            Wanted::All => self.generation.find(&Query::default()),
            Wanted::Packages => {
                self.generation.find(&Query { schema: Some(SCHEMA_PACKAGE), ..Query::default() })
            }
            Wanted::Package(name) => {
                let own = Query { schema: Some(SCHEMA_PACKAGE), name: Some(name), ..Query::default() };
                let others = Query { package: Some(name), ..Query::default() };
                [self.generation.find(&own), self.generation.find(&others)].concat()
            }
            Wanted::Bundle(package, name) => self.generation.find(&Query {
                schema: Some(SCHEMA_BUNDLE),
                package: Some(package),
                name: Some(name),
            }),
        };
        let held = self.clone();
        let read = move || fold(Lines { held, ranges: ranges.into_iter(), rest: 0..0 }, start, take);
        tokio::task::spawn_blocking(read).await?
    }

    async fn blocking<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Generation) -> Result<T, CatalogError> + Send + 'static,
    ) -> Result<T, CatalogError> {
        let held = self.clone();
        let read = tokio::task::spawn_blocking(move || read(&held.generation)).await;
        read.unwrap_or_else(|error| Err(unreadable("", &error.into())))
    }
}

/// Passes each document behind a reader to `take`.
pub(super) fn fold<T>(
    reader: impl Read,
    start: T,
    take: impl Fn(&mut T, &Meta<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<T> {
    let (mut folded, mut reader) = (start, MetaReader::new(reader));
    while let Some(meta) = reader.next_meta()? {
        take(&mut folded, &meta)?;
    }
    Ok(folded)
}

/// Ranges of a catalog's lines as one stream.
struct Lines {
    held: Held,
    ranges: std::vec::IntoIter<Range<u64>>,
    rest: Range<u64>,
}

impl Read for Lines {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.rest.is_empty() {
            match self.ranges.next() {
                Some(range) => self.rest = range,
                None => return Ok(0),
            }
        }
        let left = usize::try_from(self.rest.end - self.rest.start).unwrap_or(usize::MAX);
        let length = left.min(buffer.len());
        self.held.generation.read_lines(&mut buffer[..length], self.rest.start)?;
        self.rest.start += length as u64;
        Ok(length)
    }
}

/// Reads all of them.
pub(crate) async fn open(
    named: &[&Named],
    registries: &Registries,
    authority: Option<&Path>,
) -> anyhow::Result<Vec<Catalog>> {
    let folder = Arc::new(tempfile::tempdir().context("creating a folder for catalogs")?);
    let mut catalogs = Vec::new();
    for (number, Named { source, priority }) in named.iter().copied().enumerate() {
        let context = || format!("--catalog {source}");
        let place: Source = source.parse().with_context(context)?;
        let tree = registries.catalog(&place, authority).await.with_context(context)?.tree;
        let held = Held::read(&tree, folder.clone(), &number.to_string()).with_context(context)?;
        let (name, priority) = (source.clone(), priority.unwrap_or_default());
        catalogs.push(Catalog { name, priority, content: Content::Held(held) });
    }
    Ok(catalogs)
}

/// The answer of `<url>/api/v1/all`, in a file.
pub(crate) async fn fetch(url: &str, authority: Option<&Path>) -> anyhow::Result<NamedTempFile> {
    let client = client(authority)?;
    let all = format!("{}/api/v1/all", url.trim_end_matches('/').trim_end_matches("/api/v1/all"));
    let mut response = client.get(&all).timeout(FETCH_TIMEOUT).send().await.map_err(untrusted)?;
    if response.status() != StatusCode::OK {
        bail!(
            "{all} answers {}: name the address of one catalog, such as https://catalogd-service/catalogs/<name>",
            response.status()
        );
    }
    let mut file = NamedTempFile::new().context("creating a file for the catalog")?;
    let mut bytes = 0;
    while let Some(chunk) = response.chunk().await? {
        bytes += chunk.len() as u64;
        if bytes > CATALOG_BYTES_MAX {
            bail!("it has more than {CATALOG_BYTES_MAX} bytes");
        }
        file.write_all(&chunk).with_context(|| file.path().display().to_string())?;
    }
    Ok(file)
}

/// A client for servers of catalogs that trusts these authorities, else the system's.
pub(crate) fn client(authority: Option<&Path>) -> anyhow::Result<Client> {
    let mut builder = Client::builder();
    if let Some(path) = authority {
        let pem = read_limited(path, AUTHORITY_BYTES_MAX)?;
        let known = Certificate::from_pem_bundle(&pem).with_context(|| path.display().to_string())?;
        builder = builder.tls_certs_only(known);
    }
    builder.build().context("creating a client for catalogs")
}

/// The error, with the remedy if a server's certificate is not trusted.
pub(super) fn untrusted(error: reqwest::Error) -> anyhow::Error {
    let error = anyhow::Error::from(error);
    let is_untrusted = error.chain().any(|cause| cause.to_string().contains("UnknownIssuer"));
    if is_untrusted {
        return error.context("the certificate of the server is not trusted: give its CA with --catalog-ca");
    }
    error
}
