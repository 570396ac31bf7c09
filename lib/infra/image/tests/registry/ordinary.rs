//! What works: packing, pushing, resolving, pulling.

use std::{
    io::Read as _,
    sync::{Arc, Mutex},
};

use axum::http::{Method, StatusCode};
use olm_image::{
    CanonicalReference, Compression, ImageBuilder, LayerBuilder, PackedImage, Progress, Select, folder_layer,
};

use crate::{
    failures::pull_with,
    server::{FakeRegistry, status},
};

pub(crate) fn layer(compression: Compression, files: &[(&str, &str)]) -> olm_image::PackedLayer {
    let builder = LayerBuilder::new(compression);
    let build = |builder: LayerBuilder, (path, content): &(&str, &str)| builder.file(path, content);
    files.iter().try_fold(builder, build).and_then(LayerBuilder::build).expect("packs")
}

pub(crate) fn image(files: &[(&str, &str)]) -> PackedImage {
    ImageBuilder::new().label("configs", "/configs").layer(layer(Compression::Gzip, files)).build()
}

/// Bytes that compression makes no smaller.
pub(crate) fn noise(length: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let bytes = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    });
    bytes.take(length).collect()
}

fn text(image: &olm_image::PulledImage, path: &str) -> String {
    String::from_utf8(image.files.read(path, 1 << 20).expect("reads")).expect("text")
}

#[tokio::test]
async fn a_packed_folder_is_pushed_resolved_and_pulled_again() {
    let registry = FakeRegistry::start().await;
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("a")).expect("made");
    std::fs::write(folder.path().join("a/catalog.yaml"), "schema: olm.package\n").expect("written");
    let layer = folder_layer(folder.path(), "/configs", Compression::Gzip).expect("packs");
    let packed = ImageBuilder::new().label("configs", "/configs").layer(layer).build();
    let (puller, reference) = (registry.puller(), registry.reference("ns/catalog:v1"));
    let pushed = packed.push(&puller, &reference).await.expect("pushes");
    let resolved = puller.resolve(&reference).await.expect("resolves");
    assert_eq!(resolved, pushed);
    let unpacked = puller.pull(&resolved, |labels| Select::paths([&labels["configs"]])).await.expect("pulls");
    assert_eq!(unpacked.reference, resolved);
    assert_eq!(unpacked.labels["configs"], "/configs");
    assert_eq!(unpacked.files.paths().collect::<Vec<_>>(), ["configs/a/catalog.yaml"]);
    assert_eq!(unpacked.files.directories().collect::<Vec<_>>(), ["configs", "configs/a"]);
    let mut content = String::new();
    unpacked
        .files
        .open("configs/a/catalog.yaml")
        .expect("opens")
        .read_to_string(&mut content)
        .expect("reads");
    assert_eq!(content, "schema: olm.package\n");
}

#[tokio::test]
async fn blobs_that_the_registry_has_are_not_sent_again() {
    let registry = FakeRegistry::start().await;
    let (puller, packed) = (registry.puller(), image(&[("configs/a", "x")]));
    packed.push(&puller, &registry.reference("ns/a:v1")).await.expect("pushes");
    packed.push(&puller, &registry.reference("ns/a:v2")).await.expect("pushes");
    let uploads = registry.seen().iter().filter(|seen| seen.method == Method::POST).count();
    assert_eq!(uploads, 2, "config and layer, once each");
}

#[tokio::test]
async fn a_digest_resolves_without_asking_anybody() {
    let registry = FakeRegistry::start().await;
    let packed = image(&[]);
    let reference = registry.reference(&format!("ns/a@{}", packed.digest()));
    let resolved = registry.puller().resolve(&reference).await.expect("resolves");
    assert_eq!(resolved.to_string(), reference.to_string());
    assert!(registry.seen().is_empty());
}

#[tokio::test]
async fn layers_of_all_compressions_are_read() {
    let registry = FakeRegistry::start().await;
    for compression in [Compression::Gzip, Compression::Zstd, Compression::None] {
        let packed = ImageBuilder::new().layer(layer(compression, &[("a", "hello")])).build();
        registry.put("v1", &packed);
        let reference = registry.reference("x:v1").at(packed.digest().clone());
        let unpacked = registry.puller().pull(&reference, |_| Ok(Select::everything())).await.expect("pulls");
        assert_eq!(text(&unpacked, "a"), "hello", "{compression:?}");
    }
}

#[tokio::test]
async fn a_large_layer_of_any_compression_is_read_to_its_end() {
    let registry = FakeRegistry::start().await;
    let noise = noise(3_000_001);
    for compression in [Compression::Gzip, Compression::Zstd, Compression::None] {
        let layer = LayerBuilder::new(compression).file("a", &noise).and_then(LayerBuilder::build);
        let packed = ImageBuilder::new().layer(layer.expect("packs")).build();
        registry.put("v1", &packed);
        let pulled = pull_with(&registry.puller(), &registry, &packed).await.expect("pulls");
        assert!(pulled.files.read("a", 4 << 20).expect("reads") == noise, "{compression:?}");
    }
}

#[tokio::test]
async fn a_gzip_layer_of_several_members_is_read_to_its_end() {
    let registry = FakeRegistry::start().await;
    let whole = layer(Compression::None, &[("a", "first"), ("b", "second")]);
    let member = |bytes: &[u8]| {
        use std::io::Write as _;
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).expect("writes");
        encoder.finish().expect("finishes")
    };
    let (left, right) = whole.bytes().split_at(700);
    let bytes = [member(left), member(right)].concat();
    let packed =
        ImageBuilder::new().layer(olm_image::PackedLayer::from_bytes(bytes, Compression::Gzip)).build();
    registry.put("v1", &packed);
    let reference = registry.reference("x:v1").at(packed.digest().clone());
    let unpacked = registry.puller().pull(&reference, |_| Ok(Select::everything())).await.expect("pulls");
    assert_eq!((text(&unpacked, "a"), text(&unpacked, "b")), ("first".into(), "second".into()));
}

#[tokio::test]
async fn upper_layers_hide_and_replace_what_lower_ones_have() {
    let registry = FakeRegistry::start().await;
    let lower =
        layer(Compression::Gzip, &[("configs/a/x", "old"), ("configs/b/x", "old"), ("etc/passwd", "root")]);
    let upper = LayerBuilder::new(Compression::Gzip)
        .file(".wh.configs", [])
        .and_then(|layer| layer.file("configs/c/x", "new"))
        .and_then(LayerBuilder::build)
        .expect("packs");
    let packed = ImageBuilder::new().layer(lower).layer(upper).build();
    registry.put("v1", &packed);
    let reference = registry.reference("x:v1").at(packed.digest().clone());
    let unpacked = registry.puller().pull(&reference, |_| Select::paths(["/configs"])).await.expect("pulls");
    assert_eq!(unpacked.files.paths().collect::<Vec<_>>(), ["configs/c/x"]);
}

#[tokio::test]
async fn the_image_for_our_platform_is_taken_from_an_index_and_the_indexs_digest_is_kept() {
    let registry = FakeRegistry::start().await;
    let own = image(&[("configs/own", "")]);
    let other = image(&[("configs/other", "")]);
    registry.put("own", &own);
    registry.put("other", &other);
    let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    let entry = |image: &PackedImage, architecture: &str| {
        serde_json::json!({
            "mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": image.digest(),
            "size": image.manifest().len(), "platform": {"os": "linux", "architecture": architecture},
        })
    };
    let index = serde_json::json!({
        "schemaVersion": 2, "manifests": [entry(&other, "s390x"), entry(&own, architecture)],
    });
    let digest = registry.put_manifest("v1", "application/vnd.oci.image.index.v1+json", index.to_string());
    let puller = registry.puller();
    let resolved = puller.resolve(&registry.reference("x:v1")).await.expect("resolves");
    assert_eq!(*resolved.digest(), digest);
    let unpacked = puller.pull(&resolved, |_| Ok(Select::everything())).await.expect("pulls");
    assert_eq!(unpacked.files.paths().collect::<Vec<_>>(), ["configs/own"]);
    assert_eq!(*unpacked.reference.digest(), digest);
}

#[tokio::test]
async fn progress_is_told_from_nothing_to_everything() {
    let registry = FakeRegistry::start().await;
    let packed = ImageBuilder::new()
        .layer(layer(Compression::None, &[("a", &"x".repeat(3 << 20))]))
        .layer(layer(Compression::None, &[("b", "y")]))
        .build();
    registry.put("v1", &packed);
    let told = Arc::new(Mutex::new(Vec::<Progress>::new()));
    let teller = Arc::clone(&told);
    let reference = registry.reference("x:v1").at(packed.digest().clone());
    registry
        .puller()
        .pull_with_progress(
            &reference,
            |_| Ok(Select::everything()),
            Arc::new(move |progress| teller.lock().expect("not poisoned").push(progress)),
        )
        .await
        .expect("pulls");
    let told = told.lock().expect("not poisoned");
    let (first, last) = (told[0], told[told.len() - 1]);
    assert_eq!((first.bytes, first.layers, first.layers_total), (0, 0, 2));
    assert_eq!((last.bytes, last.layers), (last.bytes_total, 2));
    assert!(told.len() >= 5, "about every MiB: {told:?}");
    assert!(told.is_sorted_by_key(|progress| progress.bytes));
}

#[tokio::test]
async fn mirrors_are_tried_first_and_the_reference_stays_that_of_the_source() {
    let (source, mirror) = (FakeRegistry::start().await, FakeRegistry::start().await);
    let packed = image(&[("configs/a", "x")]);
    mirror.put("v1", &packed);
    let mut config = source.config();
    config.registries_conf = Some(source.registries_conf(&format!(
        "[[registry]]\nprefix = \"example.com/ns\"\nlocation = \"{}\"\ninsecure = true\n\
         [[registry.mirror]]\nlocation = \"{}/proxy\"\ninsecure = true\n",
        source.address, mirror.address
    )));
    let puller = olm_image::Puller::new(config);
    let reference = olm_image::Reference::parse("example.com/ns/a:v1").expect("parses");
    let resolved = puller.resolve(&reference).await.expect("resolves");
    let unpacked = puller.pull(&resolved, |_| Ok(Select::everything())).await.expect("pulls");
    let wanted = format!("example.com/ns/a@{}", packed.digest());
    assert_eq!(CanonicalReference::parse(&wanted).expect("parses"), unpacked.reference);
    assert!(source.seen().is_empty());
    assert!(mirror.seen().iter().all(|seen| seen.path == "/v2/" || seen.path.starts_with("/v2/proxy/a/")));
}

#[tokio::test]
async fn the_same_folder_gives_the_same_digest() {
    let digest = || {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["b", "a", "c"] {
            std::fs::write(folder.path().join(name), name).expect("written");
        }
        let layer = folder_layer(folder.path(), "configs", Compression::Gzip).expect("packs");
        ImageBuilder::new().layer(layer).platform("linux", "amd64").build().digest().to_string()
    };
    assert_eq!(digest(), digest());
}

#[tokio::test]
async fn the_policy_is_asked_before_the_registry() {
    let registry = FakeRegistry::start().await;
    let packed = image(&[]);
    registry.put("v1", &packed);
    let folder = tempfile::tempdir().expect("a folder");
    let policy = folder.path().join("policy.json");
    let config = olm_image::PullerConfig { policy: Some(policy.clone()), ..registry.config() };
    let puller = olm_image::Puller::new(config);
    let reference = registry.reference("a:v1").at(packed.digest().clone());
    let pull = async || {
        let done = puller.pull(&reference, |_| Ok(Select::everything())).await;
        done.map(drop).map_err(|error| error.to_string())
    };
    std::fs::write(&policy, r#"{"default": [{"type": "reject"}]}"#).expect("written");
    let error = pull().await.expect_err("rejected");
    assert!(
        error.starts_with("error copying image: Source image rejected: Running image docker://"),
        "{error}"
    );
    std::fs::write(&policy, "no policy").expect("written");
    let error = pull().await.expect_err("unreadable");
    assert!(error.starts_with("error loading policy context: invalid policy in "), "{error}");
    assert!(registry.seen().is_empty());
    std::fs::remove_file(&policy).expect("removed");
    assert_eq!(pull().await, Ok(()));
}

#[tokio::test]
async fn an_upload_whose_end_was_lost_is_made_again() {
    let registry = FakeRegistry::start().await;
    // The first end of each upload fails in passing, the second finds that the upload is no more.
    registry.interfere(|seen| {
        let ends = seen.path.ends_with("/blobs/uploads/some-id");
        match seen.earlier {
            0 if ends => Some(status(StatusCode::BAD_GATEWAY, "")),
            1 if ends => {
                Some(status(StatusCode::NOT_FOUND, r#"{"errors":[{"code":"BLOB_UPLOAD_UNKNOWN"}]}"#))
            }
            _ => None,
        }
    });
    let packed = image(&[("a", "x")]);
    packed.push(&registry.puller(), &registry.reference("ns/a:v1")).await.expect("pushes");
    let started = registry.seen().iter().filter(|seen| seen.path.ends_with("/blobs/uploads/")).count();
    assert_eq!(started, packed.blobs().count() + 1, "one upload was started twice");
}
