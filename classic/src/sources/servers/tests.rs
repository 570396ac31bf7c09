use std::net::TcpListener;

use catalogd::RegistryContent;
use futures::FutureExt;
use jiff::Timestamp;
use olm_classic_core::registry_model::Catalog;
use olm_image::{DiskBudget, PullerConfig};
use olm_registry::{RegistryServer, Sources, serve};
use olm_runtime::SystemClock;
use parking_lot::RwLock;

use super::*;
use crate::sources::{OneFile, Shares};

/// A package whose head has a ClusterServiceVersion.
fn documents(package: &str, version: &str) -> String {
    let name = format!("{package}.v{version}");
    let csv = serde_json::json!({"displayName": "Lamp", "provider": {"name": "Example"}});
    let bundle = serde_json::json!({
        "schema": "olm.bundle", "package": package, "name": name, "image": "example.com/b:1",
        "properties": [
            {"type": "olm.package", "value": {"packageName": package, "version": version}},
            {"type": "olm.csv.metadata", "value": csv},
        ],
    });
    format!(
        r#"{{"schema":"olm.package","name":"{package}","defaultChannel":"c"}}
{{"schema":"olm.channel","package":"{package}","name":"c","entries":[{{"name":"{name}"}}]}}
{bundle}
"#
    )
}

/// A server with whatever catalog it has at the moment.
#[derive(Default)]
struct Served(RwLock<Option<Arc<Catalog<RegistryContent>>>>);

impl Sources for Served {
    type Content = RegistryContent;

    fn catalog(&self, _: &str) -> Option<Arc<Catalog<RegistryContent>>> {
        self.0.read().clone()
    }
}

struct World {
    served: Arc<Served>,
    address: String,
    store: Arc<CatalogStore>,
    servers: Arc<Servers>,
    folder: tempfile::TempDir,
    shutdown: CancellationToken,
}

impl World {
    /// A server, and a store with this much disk.
    fn start(disk: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (served, shutdown) = (Arc::<Served>::default(), CancellationToken::new());
        tokio::spawn(serve(listener, RegistryServer::new(served.clone()), shutdown.clone()));
        let shares = Shares::new(DiskBudget::new(disk), "olm".to_owned());
        let store = CatalogStore::open_divided(folder.path(), Box::new(move |slot| shares.of(slot)));
        let store = Arc::new(store.unwrap());
        let puller = Puller::new(PullerConfig::new(folder.path()));
        let memory = MemoryBudget::new(INGEST_MEMORY_BYTES);
        let servers = Servers::new(store.clone(), puller, None, Arc::new(SystemClock), memory);
        Self { served, address, store, servers: Arc::new(servers), folder, shutdown }
    }

    fn serve(&self, documents: String) {
        let store = CatalogStore::open(&self.folder.path().join("served")).unwrap();
        let files = OneFile(documents.into_bytes());
        let generation = store.install("c", "example.com/c@sha256:1", Timestamp::UNIX_EPOCH, &files).unwrap();
        let catalog = Catalog::read(RegistryContent(generation), None).unwrap();
        *self.served.0.write() = Some(Arc::new(catalog));
    }

    async fn visit(&self, namespace: &str, pod: &str) -> Result<Vec<String>, String> {
        let key = SourceKey { namespace: namespace.to_owned(), name: "c".to_owned() };
        let place = Place { address: self.address.clone(), pod: Some(pod.to_owned()) };
        let visit = Arc::clone(&self.servers).visit(key.clone(), place, CancellationToken::new());
        visit.await.map_err(|unread| format!("{}: {}", unread.state, unread.text))?;
        let held = self.store.generation(&content::slot(&key)).unwrap();
        Ok(held.packages().map(str::to_owned).collect())
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn content_is_read_again_for_another_pod_and_stays_when_the_server_has_none() {
    let world = World::start(u64::MAX);
    let none = world.visit("a", "1").await.unwrap_err();
    assert!(none.starts_with("READY: ") && none.contains("ListPackages: the server answered"), "{none}");
    world.serve(documents("lamp", "1.0.0"));
    assert_eq!(world.visit("a", "1").await.unwrap(), ["lamp"]);
    world.serve(documents("bulb", "1.0.0"));
    assert_eq!(world.visit("a", "1").await.unwrap(), ["lamp"], "it was read a moment ago");
    assert_eq!(world.visit("a", "2").await.unwrap(), ["bulb"]);
    world.serve(String::new());
    let empty = world.visit("a", "3").await.unwrap_err();
    assert!(empty.ends_with("the registry server has no packages"), "{empty}");
    let held = world.store.generation("a_c").unwrap();
    assert_eq!(held.packages().collect::<Vec<_>>(), ["bulb"], "what was read stays");
    let content = held.package("bulb").unwrap();
    assert_eq!(content.channels[0].entries[0].name, "bulb.v1.0.0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_fills_the_disk_of_its_namespace_only() {
    let world = World::start(80_000);
    let large = (0..20).map(|number| documents(&format!("lamp-{number}"), "1.0.0")).collect::<String>();
    world.serve(large);
    let full = world.visit("a", "1").await.unwrap_err();
    assert!(full.contains("the catalogs of namespace a hold"), "{full}");
    assert_eq!(world.visit("olm", "1").await.unwrap().len(), 20, "an administrator may take all");
    world.serve(documents("lamp", "1.0.0"));
    assert_eq!(world.visit("b", "1").await.unwrap(), ["lamp"]);
}

#[tokio::test]
async fn a_namespace_takes_one_turn_at_a_time() {
    let turns = Turns::new(2);
    let first = turns.take("a").now_or_never().unwrap();
    assert!(turns.take("a").now_or_never().is_none(), "the namespace has its turn");
    let second = turns.take("b").now_or_never().unwrap();
    assert!(turns.take("c").now_or_never().is_none(), "there are two turns");
    drop(first);
    assert!(turns.take("a").now_or_never().is_some());
    drop(second);
    assert!(turns.namespaces.hosts() <= 3);
}

#[test]
fn a_server_that_answers_badly_is_asked_less_often() {
    let again = |error: Unusable| {
        let Unread { text, state, again } = error.at("host:1");
        assert!(text.starts_with("host:1: "), "{text}");
        (state, again)
    };
    let unreachable = ClientError::Unreachable("refused".to_owned());
    assert_eq!(again(unreachable.into()), (texts::TRANSIENT_FAILURE, UNREACHABLE_INTERVAL));
    assert_eq!(again(ClientError::Broken("m").into()), (texts::TRANSIENT_FAILURE, VISIT_INTERVAL));
    assert_eq!(again(ClientError::TooLarge("m").into()), (texts::READY, UNUSABLE_INTERVAL));
    assert_eq!(again(Unusable::Store("full".to_owned())), (texts::READY, UNUSABLE_INTERVAL));
}
