use std::sync::{Arc, Mutex};

use olm_fbc::{CatalogError, PackageContent};
use olm_image::DiskBudget;
use olm_runtime::{ServerLimits, SystemClock, listen, serve};
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

use super::{CatalogDirectory, HttpReader, RemoteCatalog};
use crate::{
    CatalogReader as _, Config, ContentServer, LocalReader,
    testing::{ONE, TWO, TestStore},
};

const OLD: &[(&str, &str)] = &[("c.json", r#"{"schema":"olm.channel","package":"p","name":"old"}"#)];
const NEW: &[(&str, &str)] = &[("c.json", r#"{"schema":"olm.channel","package":"p","name":"new"}"#)];

#[derive(Default)]
struct Directory(Mutex<Option<RemoteCatalog>>);

impl CatalogDirectory for Directory {
    fn find(&self, _: &str) -> Option<RemoteCatalog> {
        self.0.lock().unwrap().clone()
    }
}

struct World {
    origin: TestStore,
    base: String,
    directory: Arc<Directory>,
    server: tokio::task::JoinHandle<()>,
    stop: CancellationToken,
    cache: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let origin = TestStore::new();
        let listener = listen("127.0.0.1:0").unwrap();
        let base = format!("http://{}/catalogs/c", listener.local_addr().unwrap());
        let router =
            ContentServer::new(origin.store.clone(), &Config::default(), &mut Registry::default()).router();
        let stop = CancellationToken::new();
        let serving = serve(listener, router, None, ServerLimits::default(), stop.clone());
        let server = tokio::spawn(async move { serving.await.unwrap() });
        let cache = tempfile::tempdir().unwrap();
        Self { origin, base, directory: Arc::default(), server, stop, cache }
    }

    fn reader(&self) -> HttpReader {
        // Another test may have installed it.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0).build().unwrap();
        self.reader_with(client)
    }

    fn reader_with(&self, client: reqwest::Client) -> HttpReader {
        let (directory, clock, disk) = (self.directory.clone(), Arc::new(SystemClock), DiskBudget::default());
        let reader = HttpReader::new(directory, clock, self.cache.path(), disk).unwrap();
        reader.set_client(Ok(client));
        reader
    }

    fn announces(&self, reference: &str) {
        let remote = RemoteCatalog { base_url: self.base.clone(), reference: reference.to_owned() };
        *self.directory.0.lock().unwrap() = Some(remote);
    }
}

/// The name of the channel that a reader sees.
fn seen(content: Result<Arc<PackageContent>, CatalogError>) -> Result<String, String> {
    content.map(|content| content.channels[0].name.clone()).map_err(|error| error.to_string())
}

#[tokio::test]
async fn both_readers_see_the_same() {
    let world = World::new();
    let reader = world.reader();
    let not_served = "catalog \"c\" is not being served".to_owned();
    assert_eq!(seen(reader.package("c", "p").await), Err(not_served.clone()));
    assert_eq!(seen(LocalReader::new(world.origin.store.clone()).package("c", "p").await), Err(not_served));
    world.origin.install("c", ONE, OLD);
    world.announces(ONE);
    assert_eq!(seen(reader.package("c", "p").await), Ok("old".to_owned()));
    assert_eq!(
        seen(LocalReader::new(world.origin.store.clone()).package("c", "p").await),
        Ok("old".to_owned())
    );
    assert!(reader.package("c", "none").await.unwrap().is_empty());
    world.origin.install("c", TWO, NEW);
    world.announces(TWO);
    assert_eq!(seen(reader.package("c", "p").await), Ok("new".to_owned()));
}

#[tokio::test]
async fn content_of_another_digest_is_not_taken() {
    let world = World::new();
    let reader = world.reader();
    world.origin.install("c", ONE, OLD);
    world.announces(TWO);
    assert_eq!(
        seen(reader.package("c", "p").await).unwrap_err(),
        "error retrieving cache for catalog \"c\": catalog server has other content than the catalog's status names"
    );
}

#[tokio::test]
async fn the_last_good_copy_is_used_while_the_server_is_away_also_after_a_restart() {
    let mut world = World::new();
    world.origin.install("c", ONE, OLD);
    world.announces(ONE);
    assert_eq!(seen(world.reader().package("c", "p").await), Ok("old".to_owned()));
    world.stop.cancel();
    (&mut world.server).await.unwrap();
    let remote = RemoteCatalog { base_url: world.base.clone(), reference: TWO.to_owned() };
    *world.directory.0.lock().unwrap() = Some(remote);
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let reader = world.reader_with(client);
    assert_eq!(seen(reader.package("c", "p").await), Ok("old".to_owned()));
}
