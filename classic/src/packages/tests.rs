mod recorded;

use catalogd::{CatalogStore, Generation};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use olm_aggregate::Object;
use olm_api_classic::{CatalogSourceSpec, PackageManifest};
use serde_json::{Value, json};

use super::*;
use crate::sources::OneFile;

/// The documents of a package with one bundle for each channel.
fn package(name: &str, channels: &[&str]) -> Vec<Value> {
    let icon = json!({ "base64data": "UElDVFVSRQ==", "mediatype": "image/png" });
    let mut all =
        vec![json!({ "schema": "olm.package", "name": name, "defaultChannel": "stable", "icon": icon })];
    for (number, channel) in channels.iter().enumerate() {
        let bundle = format!("{name}.v{number}");
        all.push(json!({ "schema": "olm.channel", "package": name, "name": channel, "entries": [{ "name": bundle }] }));
        all.push(json!({
            "schema": "olm.bundle", "package": name, "name": bundle, "image": format!("example.com/{bundle}:1"),
            "properties": [
                { "type": "olm.package", "value": { "packageName": name, "version": format!("{number}.0.0") } },
                { "type": "olm.csv.metadata", "value": {
                    "displayName": format!("Operator {name}"), "provider": { "name": "Example" },
                } },
            ],
        }));
    }
    all
}

struct World {
    store: CatalogStore,
    contents: Contents,
    packages: Arc<Packages>,
    _folder: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = CatalogStore::open(folder.path()).unwrap();
        let packages = Packages::new("olm".to_owned(), folder.path().join("packages"));
        Self { store, contents: Contents::default(), packages, _folder: folder }
    }

    fn install(&self, digest: char, documents: &[Value]) -> Arc<Generation> {
        let lines: Vec<_> = documents.iter().map(Value::to_string).collect();
        let text = lines.join("\n");
        let reference = format!("example.com/c@sha256:{}", digest.to_string().repeat(64));
        self.store
            .install(&digest.to_string(), &reference, Timestamp::UNIX_EPOCH, &OneFile(text.into_bytes()))
            .unwrap()
    }

    fn offer(&self, namespace: &str, name: &str, version: &str, generation: &Arc<Generation>) {
        let key = SourceKey { namespace: namespace.to_owned(), name: name.to_owned() };
        let spec = CatalogSourceSpec { display_name: Some(format!("Catalog {name}")), ..Default::default() };
        let mut source = CatalogSource::new(name, spec);
        source.metadata = ObjectMeta {
            resource_version: Some(version.to_owned()),
            namespace: Some(namespace.to_owned()),
            ..source.metadata
        };
        let content = Content { source: Arc::new(source), generation: Arc::clone(generation) };
        self.contents.set(&key, Some(content));
    }

    /// Catalog and name of each package that a namespace shows.
    fn shown(&self, namespace: Option<&str>) -> Vec<String> {
        let text = |object: resource::Manifest| {
            let manifest = read(&object);
            format!("{}/{}", manifest.status.catalog_source, manifest.metadata.name.unwrap())
        };
        self.packages.list(namespace).objects.into_iter().map(text).collect()
    }
}

/// The whole object, as it is written.
fn read(object: &resource::Manifest) -> PackageManifest {
    let mut text = b"{".to_vec();
    object.write_members(&mut text).unwrap();
    text.push(b'}');
    let mut manifest: PackageManifest = serde_json::from_slice(&text).unwrap();
    manifest.metadata = object.metadata().clone();
    manifest
}

#[tokio::test]
async fn a_namespace_shows_its_own_catalogs_and_then_the_global_ones() {
    let world = World::new();
    assert!(world.packages.ready().is_err());
    let one = world.install('1', &[package("a", &["stable"]), package("b", &["stable"])].concat());
    let two = world.install('2', &package("b", &["stable"]));
    world.offer("olm", "global", "30", &one);
    world.offer("team", "own", "40", &two);
    world.packages.refresh(&world.contents).await;
    assert!(world.packages.ready().is_err(), "there may be others");
    world.contents.listed([]);
    world.packages.refresh(&world.contents).await;
    assert!(world.packages.ready().is_ok());
    assert_eq!(world.shown(Some("team")), ["own/b", "global/a", "global/b"]);
    assert_eq!(world.shown(Some("olm")), ["global/a", "global/b"]);
    assert_eq!(world.shown(Some("other")), ["global/a", "global/b"]);
    assert_eq!(world.shown(None), ["global/a", "global/b", "own/b"]);
    let listing = world.packages.list(Some("other"));
    assert_eq!(listing.version, 40, "of the newest CatalogSource");
    assert_eq!(listing.objects[0].metadata().namespace.as_deref(), Some("other"));
    assert_eq!(world.packages.list(None).objects[2].metadata().namespace.as_deref(), Some("team"));
    let manifest = read(&listing.objects[1]);
    assert_eq!(manifest.status.catalog_source_namespace, "olm");
    assert_eq!(manifest.status.channels[0].current_csv_desc.display_name, "Operator b");
    assert_eq!(manifest.metadata.labels.unwrap()["provider"], "Example");
    assert_eq!(listing.objects[1].cells(Timestamp::now())[..2], [json!("b"), json!("Catalog global")]);
}

#[tokio::test]
async fn content_is_read_once_and_versions_rise_with_changes_only() {
    let world = World::new();
    let one = world.install('1', &package("a", &["stable"]));
    world.offer("olm", "one", "7", &one);
    world.offer("olm", "same", "8", &one);
    world.packages.refresh(&world.contents).await;
    let catalogs = world.packages.shown().catalogs;
    assert!(Arc::ptr_eq(&catalogs[0].summary, &catalogs[1].summary), "one digest, one summary");
    world.packages.refresh(&world.contents).await;
    assert_eq!(world.packages.list(None).version, 8);
    // The same objects with another content.
    let two = world.install('2', &package("a", &["alpha", "stable"]));
    world.offer("olm", "one", "8", &two);
    let before = world.packages.list(None).objects;
    world.packages.refresh(&world.contents).await;
    let after = world.packages.list(None);
    assert_eq!(after.version, 9);
    assert_ne!(before[0].fingerprint(), after.objects[0].fingerprint());
    assert_eq!(before[1].fingerprint(), after.objects[1].fingerprint());
    assert_eq!(read(&before[0]).status.channels.len(), 1, "what a reader holds stays readable");
    let at = |version| world.packages.list_at(version, None).map(|listing| listing.objects[0].fingerprint());
    assert_eq!(at(8), Some(before[0].fingerprint()), "a watch can continue from here");
    assert_eq!(at(7), None);
    assert_eq!(read(&after.objects[0]).status.channels.len(), 2);
    world.contents.set(&SourceKey { namespace: "olm".to_owned(), name: "one".to_owned() }, None);
    world.packages.refresh(&world.contents).await;
    assert_eq!(world.shown(None), ["same/a"]);
}

#[tokio::test]
async fn a_package_that_cannot_be_shown_hides_no_other() {
    let world = World::new();
    let mut documents = [package("a", &["alpha", "stable"]), package("b", &["stable"])].concat();
    documents[4]["properties"][1]["value"]["keywords"] = json!("no list");
    documents[7]["properties"] = json!([]);
    let one = world.install('1', &documents);
    world.offer("olm", "one", "1", &one);
    world.packages.refresh(&world.contents).await;
    assert_eq!(world.shown(None), ["one/a"]);
    let manifest = read(&world.packages.list(None).objects[0]);
    assert_eq!(manifest.status.default_channel, "alpha", "the default channel cannot be shown");
}

#[tokio::test]
async fn an_invalid_package_is_shown_no_more_than_the_registry_serves_it() {
    let world = World::new();
    let mut documents = [package("a", &["stable"]), package("b", &["stable"])].concat();
    // Its channel has two heads.
    documents[4]["entries"] = json!([{ "name": "b.v0" }, { "name": "b.v1" }]);
    let mut other = documents[5].clone();
    other["name"] = json!("b.v1");
    other["properties"][0]["value"]["version"] = json!("1.0.0");
    documents.push(other);
    let one = world.install('1', &documents);
    world.offer("olm", "one", "1", &one);
    world.packages.refresh(&world.contents).await;
    assert_eq!(world.shown(None), ["one/a"]);
    let syntax = world.contents.all()[0].1.image_syntax();
    let served = olm_classic_core::registry_model::Catalog::read(RegistryContent(one), syntax).unwrap();
    assert_eq!(served.packages().keys().collect::<Vec<_>>(), ["a"]);
}

#[tokio::test]
async fn a_package_that_is_read_from_too_much_is_left_out() {
    let world = World::new();
    let mut documents = package("a", &["stable"]);
    documents[2]["properties"][1]["value"]["description"] = json!("x".repeat(1 << 20));
    let channels: Vec<_> = (0..40)
        .map(|number| json!({ "schema": "olm.channel", "package": "a", "name": format!("c{number:02}"), "entries": [{ "name": "a.v0" }] }))
        .collect();
    documents.extend(channels);
    let one = world.install('1', &documents);
    world.offer("olm", "one", "1", &one);
    world.packages.refresh(&world.contents).await;
    let manifest = read(&world.packages.list(None).objects[0]);
    assert_eq!(manifest.status.channels.len(), 31, "so many bundles of a megabyte are read for one package");
}

async fn icon(
    object: &resource::Manifest,
    uri: &str,
    header: Option<&str>,
) -> (u16, String, String, Vec<u8>) {
    let mut request = http::Request::get(uri);
    if let Some(header) = header {
        request = request.header("If-None-Match", header);
    }
    let parts = request.body(()).unwrap().into_parts().0;
    let response = icon::answer(object.clone(), &parts).await;
    let text = |name: &str| {
        response.headers().get(name).map_or_else(String::new, |value| value.to_str().unwrap().to_owned())
    };
    let (media, etag) = (text("Content-Type"), text("ETag"));
    let status = response.status().as_u16();
    let body = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
    (status, media, etag, body.to_vec())
}

#[tokio::test]
async fn the_icon_is_the_picture_of_the_default_channel() {
    let world = World::new();
    let mut plain = package("plain", &["stable"]);
    plain[0]["icon"] = Value::Null;
    let one = world.install('1', &[package("a", &["alpha", "stable"]), plain].concat());
    world.offer("olm", "one", "1", &one);
    world.packages.refresh(&world.contents).await;
    let objects = world.packages.list(None).objects;
    let etag = "\"a.stable.a.v1\"".to_owned();
    let picture = (200, "image/png".to_owned(), etag.clone(), b"PICTURE".to_vec());
    assert_eq!(icon(&objects[0], "/", None).await, picture);
    assert_eq!(icon(&objects[0], "/", Some(&etag)).await, picture, "without a version");
    assert_eq!(icon(&objects[0], "/?resourceVersion=x", Some(&etag)).await.0, 304);
    let (status, media, etag, body) = icon(&objects[1], "/", None).await;
    assert_eq!((status, media.as_str(), etag.as_str()), (200, "image/svg+xml", ""));
    assert!(body.starts_with(b"<svg"));
}
