use catalogd::CatalogStore;
use jiff::Timestamp;
use olm_api_classic::CatalogSource;
use serde_json::json;
use tokio::sync::mpsc;

use super::*;
use crate::sources::OneFile;

/// More than one catalog of these tests takes, less than two.
const ROOM_FOR_ONE: usize = 4_000;

fn key(namespace: &str, name: &str) -> SourceKey {
    SourceKey { namespace: namespace.to_owned(), name: name.to_owned() }
}

/// Catalogs of a package each, which were read in this order.
async fn read(limits: Limits, keys: &[SourceKey]) -> (Snapshots, Vec<Content>) {
    let folder = tempfile::tempdir().unwrap();
    let store = CatalogStore::open(folder.path()).unwrap();
    let (ended, mut over) = mpsc::unbounded_channel();
    let ended = move |key: &SourceKey| ended.send(key.clone()).unwrap();
    let snapshots = Snapshots::within(limits, "olm".to_owned(), ended);
    let (package, mut contents) = ("p".repeat(900), Vec::new());
    let documents = [
        json!({"schema": "olm.package", "name": package, "defaultChannel": "s"}),
        json!({"schema": "olm.channel", "package": package, "name": "s", "entries": [{"name": "p.v1"}]}),
        json!({"schema": "olm.bundle", "package": package, "name": "p.v1", "image": "r/p:v1", "properties": [
            {"type": "olm.package", "value": {"packageName": package, "version": "1.0.0"}},
        ]}),
    ];
    let text = documents.map(|document| format!("{document}\n")).concat();
    for key in keys {
        let slot = format!("{}_{}", key.namespace, key.name);
        let (files, reference) = (OneFile(text.clone().into_bytes()), format!("registry@sha256:{slot}"));
        let generation = store.install(&slot, &reference, Timestamp::UNIX_EPOCH, &files).unwrap();
        let content = Content { source: Arc::new(CatalogSource::default()), generation };
        assert!(matches!(snapshots.get(key, &content), State::Reading));
        assert_eq!(over.recv().await.as_ref(), Some(key));
        contents.push(content);
    }
    (snapshots, contents)
}

#[tokio::test]
async fn the_catalogs_of_a_namespace_take_their_part_and_global_ones_any() {
    let limits = Limits { namespace: ROOM_FOR_ONE, all: usize::MAX };
    let keys = [key("a", "one"), key("a", "two"), key("b", "one"), key("olm", "one"), key("olm", "two")];
    let (snapshots, contents) = read(limits, &keys).await;
    for (key, content) in keys.iter().zip(&contents) {
        match snapshots.get(key, content) {
            State::Ready(read) => {
                let bytes = read.snapshot.memory();
                assert!(bytes < ROOM_FOR_ONE && bytes * 2 > ROOM_FOR_ONE, "{bytes}");
                assert_ne!(*key, keys[1]);
            }
            State::Failed(text) => {
                assert_eq!(*key, keys[1]);
                assert!(text.contains("the catalogs of namespace a take more"), "{text}");
            }
            State::Reading => panic!("{key} is not read"),
        }
    }
}

#[tokio::test]
async fn of_all_catalogs_the_least_used_is_dropped_and_read_again() {
    let limits = Limits { namespace: usize::MAX, all: ROOM_FOR_ONE };
    let keys = [key("a", "one"), key("b", "one")];
    let (snapshots, contents) = read(limits, &keys).await;
    assert_eq!(snapshots.keys(), [keys[1].clone()]);
    assert!(matches!(snapshots.get(&keys[0], &contents[0]), State::Reading));
}
