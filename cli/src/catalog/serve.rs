//! `olm catalog serve`: a catalog over HTTP, as catalogd serves it in a cluster, and over gRPC, as OLM Classic reads it.

use std::{io::Write, net::SocketAddr, sync::Arc};

use anyhow::{Context as _, bail};
use catalogd::{CatalogFiles, CatalogStore, Config, ContentServer, Generation, RegistryContent};
use clap::Args;
use olm_classic_core::registry_model;
use olm_image::image_syntax;
use olm_registry::{RegistryServer, Sources};
use olm_runtime::{Clock, ServerLimits, SystemClock, listen, on_signal, serve};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::read::Catalog;
use crate::{
    output::{self, Format},
    sources::Tree,
};

/// Bytes of a file that are hashed at once.
const CHUNK_BYTES: usize = 256 << 10;

/// `olm catalog serve`
#[derive(Debug, Args)]
#[command(after_help = "Serves until SIGINT or SIGTERM, then finishes open responses and exits with 0. \
    Exits with 1 if the catalog cannot be read or the address is already in use. Later changes of the catalog are \
    not served. It is not validated, see olm catalog validate. Plain HTTP without authentication: use an address \
    other than loopback only if everyone may read the catalog.\n\nExamples:\n  olm catalog serve ./catalog --addr \
    127.0.0.1:8080\n  olm catalog serve quay.io/operatorhubio/catalog:latest --grpc 127.0.0.1:50051")]
pub(crate) struct Serve {
    /// Address to listen on, as HOST:PORT; port 0 picks a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    addr: String,
    /// Name of the catalog in its URLs
    #[arg(long, default_value = "catalog")]
    name: String,
    /// Serve /api/v1/graphql as well
    #[arg(long)]
    graphql: bool,
    /// Serve the registry API of OLM Classic (gRPC) as well, on this HOST:PORT; packages that opm would not serve are
    /// left out and reported
    #[arg(long, value_name = "ADDRESS")]
    grpc: Option<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
    #[command(flatten)]
    catalog: Catalog,
}

/// Where the catalog is served.
#[derive(Debug, Serialize)]
struct Served {
    all: String,
    metas: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    graphql: Option<String>,
    /// Address of the registry API.
    #[serde(skip_serializing_if = "Option::is_none")]
    grpc: Option<String>,
    /// The ETag of answers.
    digest: String,
    documents: usize,
}

impl Serve {
    pub(crate) async fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        if !olm_object::names::is_subdomain(&self.name) {
            bail!(
                "--name {:?}: a catalog's name is a DNS subdomain of lower case letters and digits",
                self.name
            );
        }
        let shutdown = on_signal()?;
        let cache = tempfile::tempdir().context("a folder for the content")?;
        let store = Arc::new(CatalogStore::open(cache.path())?);
        let generation = tokio::select! {
            // Nothing was reported yet, so there is nothing to end.
            () = shutdown.cancelled() => return Ok(()),
            installed = self.install(&store) => installed?,
        };
        let config = Config { graphql: self.graphql, ..Config::default() };
        let server = ContentServer::unmeasured(store, &config);
        let listener = listen(&self.addr)?;
        let mut places = self.served(listener.local_addr()?, generation.digest(), generation.documents());
        let registry = match &self.grpc {
            Some(address) => Some((listen(address)?, registry(generation).await?)),
            None => None,
        };
        if let Some((listener, _)) = &registry {
            places.grpc = Some(listener.local_addr()?.to_string());
        }
        output::answer(out, self.output, &places, |places| {
            let addresses =
                [Some(&places.all), Some(&places.metas), places.graphql.as_ref(), places.grpc.as_ref()];
            addresses.into_iter().flatten().map(String::as_str).collect::<Vec<_>>().join("\n")
        })?;
        out.flush()?;
        let serving = serve(listener, server.router(), None, ServerLimits::default(), shutdown.clone());
        let registry = async {
            match registry {
                Some((listener, registry)) => olm_registry::serve(listener, registry, shutdown.clone()).await,
                None => Ok(()),
            }
        };
        let (ended, registry_ended, ()) = tokio::join!(serving, registry, server.run(shutdown.clone()));
        registry_ended?;
        Ok(ended?)
    }

    /// Reads the catalog into the store.
    async fn install(&self, store: &Arc<CatalogStore>) -> anyhow::Result<Arc<Generation>> {
        let opened = self.catalog.open().await?;
        if CatalogFiles::paths(&opened.tree).is_empty() {
            bail!("{}: there are no files: a catalog has at least one", self.catalog.source);
        }
        let (store, name, tree) = (Arc::clone(store), self.name.clone(), opened.tree);
        let image = opened.image.map(|image| image.to_string());
        let install = move || -> anyhow::Result<_> {
            // Plain files have no reference; their content identifies them.
            let reference = image.map_or_else(|| reference(&tree), Ok)?;
            Ok(store.install(&name, &reference, SystemClock.now(), &tree)?)
        };
        tokio::task::spawn_blocking(install).await?.with_context(|| self.catalog.source.to_string())
    }

    fn served(&self, address: SocketAddr, digest: &str, documents: usize) -> Served {
        let endpoint = |name: &str| format!("http://{address}/catalogs/{}/api/v1/{name}", self.name);
        Served {
            all: endpoint("all"),
            metas: endpoint("metas"),
            graphql: self.graphql.then(|| endpoint("graphql")),
            grpc: None,
            digest: digest.to_owned(),
            documents,
        }
    }
}

/// The one catalog that is served, whatever the name by which clients reach it.
struct Only(Arc<registry_model::Catalog<RegistryContent>>);

impl Sources for Only {
    type Content = RegistryContent;

    fn catalog(&self, _authority: &str) -> Option<Arc<registry_model::Catalog<RegistryContent>>> {
        Some(Arc::clone(&self.0))
    }
}

/// The registry API over a catalog. Reports the packages that are left out.
async fn registry(generation: Arc<Generation>) -> anyhow::Result<RegistryServer<Only>> {
    let read = || registry_model::Catalog::read(RegistryContent(generation), Some(image_syntax));
    let catalog = tokio::task::spawn_blocking(read).await??;
    for (package, problem) in catalog.faulty() {
        output::warning(&format!("package {package:?} is not served over gRPC: {problem}"));
    }
    Ok(RegistryServer::new(Arc::new(Only(Arc::new(catalog)))))
}

/// A digest reference made of all paths and contents.
fn reference(tree: &Tree) -> anyhow::Result<String> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; CHUNK_BYTES];
    for path in CatalogFiles::paths(tree) {
        hash.update(path.as_bytes());
        hash.update([0]);
        let mut file = tree.open(&path).with_context(|| path.clone())?;
        let mut bytes = 0;
        loop {
            let read = file.read(&mut buffer).with_context(|| path.clone())?;
            if read == 0 {
                break;
            }
            hash.update(&buffer[..read]);
            bytes += read as u64;
        }
        // Where a file ends is part of what they hold.
        hash.update(bytes.to_le_bytes());
    }
    Ok(format!("local@sha256:{}", olm_object::hex(&hash.finalize())))
}
