//! Catalogs in memory, served on a port of loopback.
#![expect(clippy::expect_used, reason = "a helper of a test fails like the test itself")]

use std::{collections::BTreeMap, net::TcpListener, sync::Arc};

use olm_classic_core::registry_model::{Catalog, Content};
use olm_fbc::{CatalogError, MetaReader, PackageContent};
use olm_registry::{RegistryServer, Sources, serve};
use serde::Deserialize;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint};

/// Documents by package, as canonical JSON.
#[derive(Debug, Default)]
pub(crate) struct Lines(BTreeMap<String, Vec<Vec<u8>>>);

#[derive(Deserialize)]
struct Named {
    schema: String,
    #[serde(default)]
    name: String,
}

impl Lines {
    pub(crate) fn read(file: &[u8]) -> Self {
        let mut packages: BTreeMap<String, Vec<Vec<u8>>> = BTreeMap::new();
        let mut reader = MetaReader::new(file);
        while let Some(meta) = reader.next_meta().expect("a catalog") {
            packages.entry(meta.envelope.subject().to_owned()).or_default().push(meta.line.to_vec());
        }
        Self(packages)
    }

    fn find(&self, package: &str, is_asked: impl Fn(&Named) -> bool) -> impl Iterator<Item = &Vec<u8>> {
        let lines = self.0.get(package).into_iter().flatten();
        lines.filter(move |line| is_asked(&serde_json::from_slice(line).expect("names")))
    }
}

impl Content for Lines {
    fn packages(&self) -> Vec<String> {
        self.0.keys().filter(|name| !name.is_empty()).cloned().collect()
    }

    fn package(&self, package: &str) -> Result<PackageContent, CatalogError> {
        let mut content = PackageContent::default();
        for line in self.0.get(package).into_iter().flatten() {
            content.push_json(line).map_err(|error| CatalogError::Decode {
                package: package.to_owned(),
                cause: error.to_string(),
            })?;
        }
        Ok(content)
    }

    fn document(&self, package: &str, bundle: Option<&str>) -> Result<Option<Vec<u8>>, CatalogError> {
        let is_asked = |named: &Named| match bundle {
            Some(bundle) => named.schema == "olm.bundle" && named.name == bundle,
            None => named.schema == "olm.package",
        };
        Ok(self.find(package, is_asked).next().cloned())
    }

    fn documents(
        &self,
        schema: &str,
        package: &str,
        each: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<(), CatalogError> {
        self.find(package, |named| named.schema == schema).all(|line| each(line));
        Ok(())
    }
}

/// One catalog for the authority `kiosk.olm.svc`, and for whoever connects to the address.
pub(crate) struct One(Arc<Catalog<Lines>>);

impl Sources for One {
    type Content = Lines;

    fn catalog(&self, authority: &str) -> Option<Arc<Catalog<Lines>>> {
        let is_served = olm_registry::service_of(authority).is_none_or(|name| name == ("kiosk", "olm"));
        is_served.then(|| Arc::clone(&self.0))
    }
}

/// A server, ended with its test.
pub(crate) struct World {
    pub(crate) address: String,
    shutdown: CancellationToken,
}

impl World {
    pub(crate) fn start(catalog: &[u8]) -> Self {
        let catalog = Catalog::read(Lines::read(catalog), Some(|_| Ok(()))).expect("a catalog");
        assert_eq!(catalog.faulty().len(), 0, "{:?}", catalog.faulty());
        Self::serve(Arc::new(One(Arc::new(catalog))))
    }

    pub(crate) fn serve(sources: Arc<impl Sources>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let shutdown = CancellationToken::new();
        let server = RegistryServer::new(sources);
        let serving = serve(listener, server, shutdown.clone());
        tokio::spawn(async move { serving.await.expect("served") });
        Self { address, shutdown }
    }

    /// A connection whose requests have this authority.
    pub(crate) fn channel(&self, authority: &str) -> Channel {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address)).expect("an address");
        let origin = format!("http://{authority}").parse().expect("an authority");
        endpoint.origin(origin).connect_lazy()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}
