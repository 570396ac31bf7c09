use std::{fs, path::Path, time::Duration};

use olm_image::DiskBudget;

use crate::{
    CatalogStore, Resolution,
    limits::READY_WAIT,
    testing::{MemoryFiles, ONE, TWO, TestStore, at},
};

const FILES: &[(&str, &str)] = &[
    (
        "configs/b/catalog.yaml",
        "schema: olm.package\nname: b\ndefaultChannel: s\n---\nschema: olm.channel\npackage: b\nname: s\nentries: [{name: b.v1}]\n",
    ),
    (
        "configs/a.json",
        "{\"schema\":\"olm.bundle\",\"package\":\"b\",\"name\":\"b.v1\",\"image\":\"i\",\"properties\":[{\"type\":\"olm.csv.metadata\",\"value\":{}}]}\n{\"a\":1}",
    ),
    ("configs/.indexignore", "*.md"),
    ("configs/README.md", "not FBC ["),
];

const LINES: &str = concat!(
    "{\"image\":\"i\",\"name\":\"b.v1\",\"package\":\"b\",\"properties\":[{\"type\":\"olm.csv.metadata\",\"value\":{}}],\"schema\":\"olm.bundle\"}\n",
    "{\"a\":1}\n",
    "{\"defaultChannel\":\"s\",\"name\":\"b\",\"schema\":\"olm.package\"}\n",
    "{\"entries\":[{\"name\":\"b.v1\"}],\"name\":\"s\",\"package\":\"b\",\"schema\":\"olm.channel\"}\n",
);

fn lines(generation: &super::Generation) -> String {
    let mut bytes = vec![0; usize::try_from(generation.bytes()).unwrap()];
    generation.read_lines(&mut bytes, 0).unwrap();
    String::from_utf8(bytes).unwrap()
}

fn entries(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn content_is_lines_in_walk_order_and_records_by_package() {
    let test = TestStore::new();
    let generation = test.install("c", ONE, FILES);
    assert_eq!(lines(&generation), LINES);
    assert_eq!((generation.documents(), generation.unpacked_at()), (4, at(1_000)));
    let content = generation.package("b").unwrap();
    assert_eq!((content.packages.len(), content.channels.len(), content.bundles.len()), (1, 1, 1));
    assert_eq!((content.bundles[0].image.as_str(), content.bundles[0].properties.len()), ("i", 0));
    assert!(generation.package("none").unwrap().is_empty());
}

#[test]
fn content_of_a_digest_is_shared_and_outlives_the_catalog_it_came_from() {
    const ELSEWHERE: &str =
        "example.com/mirror/b@sha256:1111111111111111111111111111111111111111111111111111111111111111";
    let test = TestStore::new();
    test.install("c", ONE, FILES);
    let held = test.store.held(super::digest_of(ELSEWHERE)).unwrap();
    let shared = test.store.share("d", ELSEWHERE, &held).unwrap();
    assert_eq!((shared.reference(), lines(&shared).as_str()), (ELSEWHERE, LINES));
    assert_eq!(test.store.generation("d").unwrap().reference(), ELSEWHERE);
    test.store.remove("c").unwrap();
    let test = test.restarted();
    assert_eq!(test.store.catalogs(), ["d"]);
    let kept = test.store.generation("d").unwrap();
    assert_eq!((kept.reference(), lines(&kept).as_str()), (ELSEWHERE, LINES));
    assert!(test.store.held(super::digest_of(TWO)).is_none());
    assert!(test.store.share("e", ONE, &held).is_err(), "its files are gone");
    assert_eq!(test.store.catalogs(), ["d"]);
}

#[test]
fn content_survives_a_restart_and_is_not_ingested_again() {
    let test = TestStore::new();
    test.install("c", ONE, FILES);
    let resolution = Resolution { source: "quay.io/a/b:v1".into(), reference: ONE.into(), polled_at: at(7) };
    test.store.set_resolution("c", &resolution).unwrap();
    let test = test.restarted();
    let generation = test.store.generation("c").unwrap();
    assert_eq!((generation.reference(), generation.unpacked_at()), (ONE, at(1_000)));
    assert_eq!(lines(&generation), LINES);
    assert_eq!(generation.package("b").unwrap().channels[0].entries[0].name, "b.v1");
    assert_eq!(test.store.resolution("c"), Some(resolution));
    assert_eq!(test.store.catalogs(), ["c"]);
}

#[test]
fn new_content_replaces_the_old_but_not_under_its_readers() {
    let test = TestStore::new();
    let old = test.install("c", ONE, FILES);
    let mut changes = test.store.changes();
    test.install("c", TWO, &[("x.json", "{\"b\":2}")]);
    assert_eq!(lines(&old), LINES, "whoever holds the old content reads it to its end");
    assert_eq!(lines(&test.store.generation("c").unwrap()), "{\"b\":2}\n");
    let folder = test.folder.path().join("catalogs/c");
    assert_eq!(entries(&folder), [TWO.split_once('@').unwrap().1]);
    assert_eq!(changes.try_recv().unwrap().reference.as_deref(), Some(TWO));
}

#[test]
fn content_that_is_refused_leaves_the_old_served_and_nothing_behind() {
    let test = TestStore::new();
    test.install("c", ONE, FILES);
    for (files, expected) in [
        (
            &[("configs/bad.yaml", "a: [secret")][..],
            "error walking FBC root: configs/bad.yaml: error converting YAML to JSON: yaml: line",
        ),
        (
            &[("configs/s.yaml", "secret")][..],
            "error walking FBC root: configs/s.yaml: document at offset 0 is not an object",
        ),
        (&[][..], "error walking FBC root: the image has no files at the path its configs label names"),
    ] {
        let error = test.store.install("c", TWO, at(5), &MemoryFiles::new(files)).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }
    assert_eq!(lines(&test.store.generation("c").unwrap()), LINES);
    assert!(entries(&test.folder.path().join("catalogs/.staging")).is_empty());
}

#[test]
fn what_a_killed_process_left_is_removed_and_damage_is_found() {
    let digest = ONE.split_once('@').unwrap().1;
    for file in ["catalog.jsonl", "index", "packages", "generation"] {
        let test = TestStore::new();
        test.install("c", ONE, FILES);
        let root = test.folder.path().join("catalogs");
        fs::create_dir_all(root.join(".staging/c-0")).unwrap();
        fs::write(root.join(".staging/c-0/catalog.jsonl"), "half").unwrap();
        let path = root.join("c").join(digest).join(file);
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&path, bytes).unwrap();
        let test = test.restarted();
        assert!(test.store.generation("c").is_none(), "{file} was damaged");
        assert!(entries(&root.join(".staging")).is_empty());
        assert!(entries(&root.join("c")).is_empty());
        test.install("c", ONE, FILES);
        assert_eq!(lines(&test.store.generation("c").unwrap()), LINES);
    }
}

#[test]
fn of_two_generations_the_newer_is_taken_over() {
    let test = TestStore::new();
    test.install("other", TWO, &[("x.json", "{\"b\":2}")]);
    test.store.install("c", ONE, at(2_000), &MemoryFiles::new(FILES)).unwrap();
    let root = test.folder.path().join("catalogs");
    let older = TWO.split_once('@').unwrap().1;
    fs::rename(root.join("other").join(older), root.join("c").join(older)).unwrap();
    let test = test.restarted();
    assert_eq!(test.store.generation("c").unwrap().reference(), ONE);
    assert_eq!(entries(&root.join("c")).len(), 1);
}

#[test]
fn the_documented_tree_is_one_catalog_of_three_packages() {
    let test = TestStore::new();
    let generation = test.install(
        "c",
        ONE,
        &[
            ("configs/packageA/index.yaml", "schema: olm.package\nname: packageA\n"),
            ("configs/packageB/.indexignore", "# manifests are no catalog content\n/objects\n"),
            ("configs/packageB/index.yaml", "schema: olm.package\nname: packageB\n"),
            (
                "configs/packageB/objects/packageB.v0.1.0.clusterserviceversion.yaml",
                "kind: ClusterServiceVersion\nname: 1\n",
            ),
            ("configs/packageC/index.json", "{\"schema\":\"olm.package\",\"name\":\"packageC\"}"),
            (
                "configs/packageC/deprecations.yaml",
                "schema: olm.deprecations\npackage: packageC\nentries: []\n",
            ),
        ],
    );
    assert_eq!(generation.packages().collect::<Vec<_>>(), ["packageA", "packageB", "packageC"]);
    assert_eq!(generation.documents(), 4);
    assert_eq!(generation.package("packageC").unwrap().deprecations.len(), 1);
}

#[test]
fn catalogs_copied_under_one_root_are_their_union() {
    let test = TestStore::new();
    let (a, b) = (
        ("a.yaml", "schema: olm.package\nname: a\n"),
        ("b.json", "{\"schema\":\"olm.package\",\"name\":\"b\"}"),
    );
    let apart = lines(&test.install("a", ONE, &[a])) + &lines(&test.install("b", ONE, &[b]));
    let together =
        test.install("c", ONE, &[("catalogC/catalogA/a.yaml", a.1), ("catalogC/catalogB/b.json", b.1)]);
    assert_eq!(lines(&together), apart);
}

#[test]
fn what_validation_would_refuse_is_served_all_the_same() {
    let test = TestStore::new();
    let package = "{\"name\":\"p\",\"schema\":\"olm.package\"}\n";
    let bundle = "{\"name\":\"p.v1\",\"package\":\"p\",\"schema\":\"olm.bundle\"}\n";
    let custom = "{\"anything\":{\"a\":1},\"package\":\"p\",\"schema\":\"olm.custom\"}\n";
    let all = [package, package, bundle, bundle, custom].concat();
    let generation = test.install("c", ONE, &[("x.json", &all)]);
    assert_eq!(lines(&generation), all);
    let content = generation.package("p").unwrap();
    assert_eq!((content.packages.len(), content.channels.len(), content.bundles.len()), (2, 0, 2));
}

#[tokio::test(start_paused = true)]
async fn readiness_waits_for_content_that_was_neither_brought_nor_tried_and_not_for_long() {
    let test = TestStore::new();
    let (store, named) = (&test.store, |reference: &str| Some((reference.to_owned(), None)));
    assert_eq!(store.awaited(), None, "no catalog is known");
    store.announce("unresolved", None);
    assert_eq!(store.awaited(), None, "its status names nothing");
    store.announce("c", named(ONE));
    assert_eq!(store.awaited().as_deref(), Some("c"));
    test.install("c", ONE, FILES);
    assert_eq!(store.awaited(), None, "it is here");
    store.announce("c", named(TWO));
    assert_eq!(store.awaited(), None, "what was served before is served meanwhile");

    store.announce("d", named(ONE));
    assert_eq!(store.awaited().as_deref(), Some("d"));
    store.set_tried("d");
    assert_eq!(store.awaited(), None, "trying again may take for ever");

    let second = Duration::from_secs(1);
    store.announce("e", named(ONE));
    tokio::time::advance(READY_WAIT.checked_sub(second).unwrap()).await;
    // Hearing the same again is no news.
    store.announce("e", named(ONE));
    assert_eq!(store.awaited().as_deref(), Some("e"));
    tokio::time::advance(second).await;
    assert_eq!(store.awaited(), None, "a minute is over");
    store.announce("e", named(TWO));
    assert_eq!(store.awaited().as_deref(), Some("e"), "news are waited for");
    store.remove("e").unwrap();
    assert_eq!(store.awaited(), None, "it is gone");
}

#[test]
fn garbage_is_what_belongs_to_no_catalog() {
    let test = TestStore::new();
    test.install("keep", ONE, FILES);
    test.install("drop", ONE, FILES);
    let root = test.folder.path().join("catalogs");
    fs::create_dir_all(root.join("unknown/x")).unwrap();
    test.store.retain(|name| name == "keep").unwrap();
    assert_eq!(entries(&root), [".staging", "keep"]);
    assert!(test.store.generation("drop").is_none());
    assert!(test.store.generation("keep").is_some());
    test.store.remove("keep").unwrap();
    test.store.remove("keep").unwrap();
    assert_eq!(entries(&root), [".staging"]);
}

#[test]
fn content_that_does_not_fit_on_the_disk_is_rejected_and_what_is_served_stays() {
    let folder = tempfile::tempdir().unwrap();
    let disk = DiskBudget::new(2_000);
    let store = CatalogStore::open_within(folder.path(), disk.clone()).unwrap();
    let text = |bytes: usize| format!(r#"{{"schema":"a","text":"{}"}}"#, "x".repeat(bytes));
    let install = |reference: &str, bytes: usize| {
        store.install("c", reference, at(1), &MemoryFiles::new(&[("c.json", &text(bytes))]))
    };
    install(ONE, 500).unwrap();
    let first = disk.used();
    assert!((500..1_000).contains(&first), "{first} bytes");
    let error = install(TWO, 1_500).unwrap_err().to_string();
    let explanation = format!("the caches hold {first} of the 2000 bytes they may take, and 15");
    assert!(error.contains(&explanation) && error.contains("raise --cache-limit"), "{error}");
    assert_eq!(store.generation("c").unwrap().reference(), ONE);
    assert_eq!(disk.used(), first, "nothing is charged for what is not there");
    // What a reader still has open takes its room, too.
    let read = store.generation("c").unwrap();
    install(TWO, 600).unwrap();
    let both = disk.used();
    assert!(both > 1_100, "{both} bytes");
    drop(read);
    assert_eq!(disk.used(), both - first);
    store.compress("c", &|| false).unwrap();
    assert!(disk.used() > both - first, "the compressed form counts");
    let served = disk.used();
    drop(store);
    assert_eq!(disk.used(), 0);
    let small = DiskBudget::new(10);
    let store = CatalogStore::open_within(folder.path(), small.clone()).unwrap();
    assert_eq!(small.used(), served);
    assert!(store.generation("c").is_some(), "what was served goes on being served");
    store.remove("c").unwrap();
    assert_eq!(small.used(), 0);
}
