//! The catalogs that `olm resolve` asks: read once into a folder of their own, as catalogd reads them.

use std::{io::Write, path::Path, str::FromStr, sync::Arc, time::Duration};

use anyhow::{Context as _, anyhow, bail};
use catalogd::{CatalogStore, Generation};
use jiff::Timestamp;
use olm_fbc::PackageContent;
use reqwest::{Certificate, Client, StatusCode};
use tempfile::TempDir;

use crate::sources::{Registries, Source, read_limited};

/// Largest catalog that is fetched from an address, in bytes; the largest public one has 150 MB.
const CATALOG_BYTES_MAX: u64 = 2 << 30;
/// Largest file with authorities in bytes.
const AUTHORITY_BYTES_MAX: u64 = 1 << 20;
/// For a whole catalog over a slow line.
const FETCH_TIMEOUT: Duration = Duration::from_mins(10);

/// A catalog as it is named on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    /// Where it is.
    pub(crate) source: String,
    /// The highest wins.
    pub(crate) priority: i32,
}

impl FromStr for Named {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (source, priority) = match text.rsplit_once('=') {
            // A file may have the sign in its name.
            Some((source, number)) if !Path::new(text).exists() => {
                let priority = number
                    .parse()
                    .map_err(|_| format!("{number:?} is not a priority: write a whole number"))?;
                (source, priority)
            }
            _ => (text, 0),
        };
        if source.is_empty() {
            return Err("name a folder, file, image or address".to_owned());
        }
        Ok(Self { source: source.to_owned(), priority })
    }
}

/// A catalog that was read.
#[derive(Debug)]
pub(crate) struct Catalog {
    pub(crate) name: String,
    pub(crate) priority: i32,
    generation: Arc<Generation>,
    /// Holds the files until the catalog is dropped.
    _folder: Arc<TempDir>,
}

impl Catalog {
    pub(crate) fn package(&self, package: &str) -> anyhow::Result<PackageContent> {
        self.generation.package(package).with_context(|| self.name.clone())
    }

    pub(crate) fn mentioning(&self, text: &str) -> anyhow::Result<Vec<PackageContent>> {
        self.generation.mentioning(text).with_context(|| self.name.clone())
    }
}

/// Reads all of them.
pub(crate) async fn open(
    named: &[Named],
    registries: &Registries,
    authority: Option<&Path>,
) -> anyhow::Result<Vec<Catalog>> {
    let folder = Arc::new(tempfile::tempdir().context("creating a folder for catalogs")?);
    let store = CatalogStore::open(folder.path())?;
    let mut catalogs: Vec<Catalog> = Vec::new();
    for (number, Named { source, priority }) in named.iter().enumerate() {
        let context = || format!("--catalog {source}");
        if catalogs.iter().any(|other| other.name == *source) {
            bail!("{}: given twice", context());
        }
        let place = if source.starts_with("https://") || source.starts_with("http://") {
            registries.allow_network(source)?;
            Source::File(fetch(source, authority, folder.path(), number).await.with_context(context)?)
        } else {
            source.parse().with_context(context)?
        };
        let tree = registries.catalog(&place).await.with_context(context)?.tree;
        let nothing = || anyhow!("{}: this is not a catalog: no document with a schema was found", context());
        if tree.paths().is_empty() {
            return Err(nothing());
        }
        let (name, reference) = (format!("catalog-{number}"), format!("local@sha256:{number:064x}"));
        let generation =
            store.install(&name, &reference, Timestamp::UNIX_EPOCH, &tree).with_context(context)?;
        if generation.documents() == 0 {
            return Err(nothing());
        }
        let (name, priority) = (source.clone(), *priority);
        catalogs.push(Catalog { name, priority, generation, _folder: folder.clone() });
    }
    Ok(catalogs)
}

/// Fetches the answer of `<url>/api/v1/all` into a file.
async fn fetch(
    url: &str,
    authority: Option<&Path>,
    folder: &Path,
    number: usize,
) -> anyhow::Result<std::path::PathBuf> {
    let mut builder = Client::builder();
    if let Some(path) = authority {
        let pem = read_limited(path, AUTHORITY_BYTES_MAX)?;
        let known = Certificate::from_pem_bundle(&pem).with_context(|| path.display().to_string())?;
        builder = builder.tls_certs_only(known);
    }
    let client = builder.build().context("creating a client for catalogs")?;
    let all = format!("{}/api/v1/all", url.trim_end_matches('/').trim_end_matches("/api/v1/all"));
    let mut response = client.get(&all).timeout(FETCH_TIMEOUT).send().await?;
    if response.status() != StatusCode::OK {
        bail!(
            "{all} answers {}: name the address of one catalog, such as https://catalogd-service/catalogs/<name>",
            response.status()
        );
    }
    let path = folder.join(format!("fetched-{number}.jsonl"));
    let mut file = std::fs::File::create(&path).with_context(|| path.display().to_string())?;
    let mut bytes = 0;
    while let Some(chunk) = response.chunk().await? {
        bytes += chunk.len() as u64;
        if bytes > CATALOG_BYTES_MAX {
            bail!("it has more than {CATALOG_BYTES_MAX} bytes");
        }
        file.write_all(&chunk).with_context(|| path.display().to_string())?;
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_priority_may_follow() {
        let named = |text: &str| text.parse::<Named>().map(|one| (one.source, one.priority));
        assert_eq!(named("quay.io/a/b:latest"), Ok(("quay.io/a/b:latest".to_owned(), 0)));
        assert_eq!(named("quay.io/a/b:latest=-5"), Ok(("quay.io/a/b:latest".to_owned(), -5)));
        assert_eq!(named("https://h/catalogs/c=7"), Ok(("https://h/catalogs/c".to_owned(), 7)));
        assert!(named("./folder=high").is_err());
        assert!(named("=7").is_err());
    }
}
