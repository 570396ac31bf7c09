use catalogd::CatalogStore;
use jiff::Timestamp;
use olm_api_classic::{CatalogSource, CatalogSourceSpec};

use super::*;
use crate::sources::OneFile;

/// A package with two bundles of one version, in a channel with a head or without.
fn package(name: &str, replaces: &str) -> String {
    let bundle = |bundle: &str| {
        format!(
            r#"{{"schema":"olm.bundle","package":"{name}","name":"{bundle}","image":"example.com/b:1","properties":[{{"type":"olm.package","value":{{"packageName":"{name}","version":"1.0.0"}}}}]}}"#
        )
    };
    format!(
        r#"{{"schema":"olm.package","name":"{name}","defaultChannel":"c"}}
{{"schema":"olm.channel","package":"{name}","name":"c","entries":[{{"name":"a","replaces":"{replaces}"}},{{"name":"b"}}]}}
{}
{}
"#,
        bundle("a"),
        bundle("b")
    )
}

struct World {
    store: CatalogStore,
    contents: Contents,
    catalogs: Arc<Catalogs>,
    readings: Readings,
    _folder: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = CatalogStore::open(folder.path()).unwrap();
        let readings = Readings::new(usize::MAX, "olm".to_owned(), true);
        Self { store, contents: Contents::default(), catalogs: Arc::default(), readings, _folder: folder }
    }

    fn offer(&self, name: &str, digest: char, text: String, config_map: Option<&str>) {
        let key = SourceKey { namespace: "olm".to_owned(), name: name.to_owned() };
        let origin = if config_map.is_some() { "configmap" } else { "example.com/c" };
        let reference = format!("{origin}@sha256:{}", digest.to_string().repeat(64));
        let generation =
            self.store.install(name, &reference, Timestamp::UNIX_EPOCH, &OneFile(text.into_bytes())).unwrap();
        let spec = CatalogSourceSpec { config_map: config_map.map(str::to_owned), ..Default::default() };
        let source = Arc::new(CatalogSource::new(name, spec));
        self.contents.set(&key, Some(Content { source, generation }));
    }

    fn remove(&self, name: &str) {
        self.contents.set(&SourceKey { namespace: "olm".to_owned(), name: name.to_owned() }, None);
    }

    /// The packages of an authority once they are as expected.
    async fn shows(&self, authority: &str, expected: Option<&[&str]>) {
        loop {
            let catalog = self.catalogs.catalog(authority);
            let packages = catalog.map(|catalog| catalog.packages().keys().cloned().collect::<Vec<_>>());
            if packages.as_deref().map(|names| names.iter().map(String::as_str).collect::<Vec<_>>())
                == expected.map(<[&str]>::to_vec)
            {
                return;
            }
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn services_choose_their_catalogs_as_contents_come_and_go() {
    let world = World::new();
    world.offer("first", '1', package("lamp", "b"), Some("map"));
    let shutdown = CancellationToken::new();
    let following = tokio::spawn(follow(
        world.catalogs.clone(),
        world.contents.clone(),
        world.readings.clone(),
        shutdown.clone(),
    ));
    world.shows("first.olm.svc:50051", Some(&["lamp"])).await;
    assert!(world.catalogs.catalog("first.other.svc:50051").is_none());
    assert!(world.catalogs.catalog("127.0.0.1:50051").is_none());
    world.offer("se.cond", '2', package("socket", "b"), Some("map"));
    world.shows("se-cond.olm.svc.cluster.local:50051", Some(&["socket"])).await;
    world.offer("first", '3', package("bulb", "b"), Some("map"));
    world.shows("first.olm.svc", Some(&["bulb"])).await;
    world.remove("first");
    world.shows("first.olm.svc", None).await;
    shutdown.cancel();
    following.await.unwrap();
}

#[tokio::test]
async fn rules_of_opm_are_those_of_images() {
    let world = World::new();
    let shutdown = CancellationToken::new();
    let following = tokio::spawn(follow(
        world.catalogs.clone(),
        world.contents.clone(),
        world.readings.clone(),
        shutdown.clone(),
    ));
    // Two bundles have one version.
    world.offer("image", '1', package("lamp", "b"), None);
    world.shows("image.olm.svc", Some(&[])).await;
    // A channel with two heads has no answers in either.
    world.offer("map", '2', package("lamp", "gone") + &package("socket", "b"), Some("map"));
    world.shows("map.olm.svc", Some(&["socket"])).await;
    shutdown.cancel();
    following.await.unwrap();
}
