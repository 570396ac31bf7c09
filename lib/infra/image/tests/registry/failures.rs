//! What goes wrong: registries that lie, break off, are slow or overloaded, and images that are hostile.

use std::io::Write as _;

use axum::{
    body::{Body, Bytes},
    http::{Method, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use olm_image::{
    Compression, ImageBuilder, LayerBuilder, Limits, PackedImage, PackedLayer, PullError, PulledImage,
    Puller, PullerConfig, Reference, Refusal, Select,
};

use crate::{
    ordinary::{image, layer, noise},
    server::{FakeRegistry, Seen, status},
};

pub(crate) async fn pull_with(
    puller: &Puller,
    registry: &FakeRegistry,
    packed: &PackedImage,
) -> Result<PulledImage, PullError> {
    let reference = registry.reference("ns/a:v1").at(packed.digest().clone());
    puller.pull(&reference, |_| Ok(Select::everything())).await
}

async fn failure(registry: &FakeRegistry, packed: &PackedImage) -> PullError {
    pull_with(&registry.puller(), registry, packed).await.expect_err("refused")
}

pub(crate) fn is_layer(seen: &Seen, packed: &PackedImage) -> bool {
    // The config is the smaller of the two blobs of these images, or they would not test much.
    let layer = packed.blobs().max_by_key(|(_, bytes)| bytes.len()).expect("a blob").0;
    seen.path.ends_with(&layer.to_string())
}

pub(crate) fn large_image() -> PackedImage {
    ImageBuilder::new().layer(layer(Compression::None, &[("a", &"content ".repeat(10_000))])).build()
}

#[tokio::test]
async fn a_pull_can_run_in_a_task_of_its_own() {
    let registry = FakeRegistry::start().await;
    let packed = image(&[("a", "x")]);
    registry.put("v1", &packed);
    let (puller, reference) = (registry.puller(), registry.reference("a:v1"));
    let task = tokio::spawn(async move {
        let resolved = puller.resolve(&reference).await?;
        puller.pull(&resolved, |_| Ok(Select::everything())).await
    });
    assert!(task.await.expect("no panic").is_ok());
}

#[tokio::test]
async fn tag_and_digest_together_are_refused_for_good() {
    let registry = FakeRegistry::start().await;
    let reference = format!("quay.io/x/y:tag@sha256:{}", "0".repeat(64));
    let error =
        registry.puller().resolve(&Reference::parse(&reference).expect("parses")).await.expect_err("refused");
    assert!(error.is_terminal());
    assert_eq!(
        error.to_string(),
        "terminal error: error creating reference: Docker references with both a tag and digest are currently \
         not supported"
    );
    let error = PullError::from(Reference::parse("library/busybox:latest").expect_err("not canonical"));
    assert!(error.is_terminal());
    assert_eq!(
        error.to_string(),
        "terminal error: error parsing image reference \"library/busybox:latest\": repository name must be canonical"
    );
}

#[tokio::test]
async fn an_unknown_tag_is_said_with_its_repository() {
    let registry = FakeRegistry::start().await;
    let error = registry.puller().resolve(&registry.reference("ns/a:v9")).await.expect_err("unknown");
    let wanted = format!(
        "error creating image source: reading manifest v9 in {}/ns/a: manifest unknown (status 404)",
        registry.address
    );
    assert_eq!(error.to_string(), wanted);
    assert!(!error.is_terminal());
}

#[tokio::test]
async fn a_refusal_of_the_caller_is_final_only_if_it_says_so() {
    let registry = FakeRegistry::start().await;
    let packed = image(&[]);
    registry.put("v1", &packed);
    let reference = registry.reference("a:v1").at(packed.digest().clone());
    let text = "catalog image is missing the required label \"x\"";
    let error =
        registry.puller().pull(&reference, |_| Err(Refusal::terminal(text))).await.expect_err("refused");
    assert_eq!(error.to_string(), format!("error applying image: terminal error: {text}"));
    assert!(error.is_terminal());
    let error =
        registry.puller().pull(&reference, |_| Err(text.to_owned().into())).await.expect_err("refused");
    assert_eq!(error.to_string(), format!("error applying image: {text}"));
    assert!(!error.is_terminal());
}

#[tokio::test]
async fn wrong_bytes_are_never_handed_out() {
    let registry = FakeRegistry::start().await;
    let packed = large_image();
    registry.put("v1", &packed);
    let other = packed.clone();
    registry.interfere(move |seen| {
        is_layer(seen, &other).then(|| {
            let mut bytes = other.blobs().map(|(_, bytes)| bytes).max_by_key(|bytes| bytes.len())?.to_vec();
            bytes[600] ^= 1;
            Some(bytes.into_response())
        })?
    });
    let error = failure(&registry, &packed).await;
    assert!(
        error.to_string().starts_with("error copying image: digest mismatch: expected sha256:"),
        "{error}"
    );
    registry.interfere(|seen| seen.path.contains("/manifests/").then(|| status(StatusCode::OK, "{}")));
    let error = failure(&registry, &packed).await;
    assert!(error.to_string().contains("digest mismatch"), "{error}");
}

#[tokio::test]
async fn bytes_spoilt_on_the_way_are_not_the_images_fault_whatever_they_look_like() {
    // A flipped bit may break the compression, a header, a size; the digest is what is wrong in any case.
    for compression in [Compression::Gzip, Compression::Zstd, Compression::None] {
        let registry = FakeRegistry::start().await;
        let layer = LayerBuilder::new(compression)
            .file("a", noise(50_000))
            .and_then(LayerBuilder::build)
            .expect("packs");
        let packed = ImageBuilder::new().layer(layer).build();
        registry.put("v1", &packed);
        for at in [20, 130, 257, 1_000, 40_000] {
            let other = packed.clone();
            registry.interfere(move |seen| {
                let bytes = other.blobs().map(|(_, bytes)| bytes).max_by_key(|bytes| bytes.len())?;
                is_layer(seen, &other).then(|| {
                    let mut bytes = bytes.to_vec();
                    bytes[at] ^= 0x40;
                    bytes.into_response()
                })
            });
            let error = failure(&registry, &packed).await;
            assert!(
                error.to_string().contains("error copying image: digest mismatch"),
                "{compression:?} {at}: {error}"
            );
            assert!(!error.is_content(), "{error}");
        }
    }
}

/// A body that ends, or breaks, after some of its bytes.
fn cut_short(bytes: &Bytes, breaks: bool) -> Response {
    let length = bytes.len() / 2;
    let pieces: Vec<Result<Bytes, std::io::Error>> = if breaks {
        vec![Ok(bytes.slice(..length)), Err(std::io::Error::other("gone"))]
    } else {
        vec![Ok(bytes.slice(..length))]
    };
    Body::from_stream(futures::stream::iter(pieces)).into_response()
}

#[tokio::test]
async fn a_layer_that_breaks_off_is_fetched_again() {
    for breaks in [true, false] {
        let registry = FakeRegistry::start().await;
        let packed = large_image();
        registry.put("v1", &packed);
        let other = packed.clone();
        registry.interfere(move |seen| {
            let bytes = other.blobs().map(|(_, bytes)| bytes.clone()).max_by_key(Bytes::len)?;
            (is_layer(seen, &other) && seen.earlier < 2).then(|| cut_short(&bytes, breaks))
        });
        let unpacked = pull_with(&registry.puller(), &registry, &packed).await.expect("the third time works");
        assert_eq!(unpacked.files.size("a"), Some(80_000));
        let other = packed.clone();
        registry.interfere(move |seen| {
            let bytes = other.blobs().map(|(_, bytes)| bytes.clone()).max_by_key(Bytes::len)?;
            is_layer(seen, &other).then(|| cut_short(&bytes, breaks))
        });
        let error = failure(&registry, &packed).await;
        assert!(error.to_string().starts_with("error copying image: reading blob sha256:"), "{error}");
        assert!(!error.is_content());
    }
}

#[tokio::test]
async fn an_endless_layer_is_cut_at_its_announced_size() {
    let registry = FakeRegistry::start().await;
    let packed = large_image();
    registry.put("v1", &packed);
    let other = packed.clone();
    registry.interfere(move |seen| {
        is_layer(seen, &other).then(|| {
            let endless =
                futures::stream::repeat_with(|| Ok::<_, std::io::Error>(Bytes::from(vec![0_u8; 8192])));
            Body::from_stream(endless).into_response()
        })
    });
    let error = failure(&registry, &packed).await;
    assert!(error.to_string().contains("size mismatch: the manifest says"), "{error}");
}

#[tokio::test]
async fn an_endless_manifest_or_error_is_not_read_to_its_end() {
    let registry = FakeRegistry::start().await;
    let packed = image(&[]);
    for code in [StatusCode::OK, StatusCode::NOT_FOUND] {
        registry.interfere(move |seen| {
            (seen.path.contains("/manifests/") && seen.method == Method::GET).then(|| {
                let endless =
                    futures::stream::repeat_with(|| Ok::<_, std::io::Error>(Bytes::from(vec![b'x'; 8192])));
                status(code, Body::from_stream(endless))
            })
        });
        let error = failure(&registry, &packed).await.to_string();
        let wanted = if code.is_success() { "the answer has more than 4194304 bytes" } else { "not found" };
        assert!(error.contains(wanted), "{error}");
    }
}

#[tokio::test]
async fn overload_is_waited_for_and_then_reported() {
    for code in [StatusCode::TOO_MANY_REQUESTS, StatusCode::BAD_GATEWAY, StatusCode::SERVICE_UNAVAILABLE] {
        let registry = FakeRegistry::start().await;
        let packed = image(&[("a", "x")]);
        registry.put("v1", &packed);
        let answer =
            move || (code, [(header::RETRY_AFTER, "0")], r#"{"errors":[{"code":"TOOMANYREQUESTS"}]}"#);
        registry.interfere(move |seen| {
            (seen.path != "/v2/" && seen.earlier < 2).then(|| answer().into_response())
        });
        pull_with(&registry.puller(), &registry, &packed).await.expect("the third time works");
        registry.interfere(move |seen| (seen.path != "/v2/").then(|| answer().into_response()));
        let error = failure(&registry, &packed).await.to_string();
        assert!(error.ends_with(&format!("toomanyrequests (status {})", code.as_u16())), "{error}");
    }
}

#[tokio::test]
async fn a_registry_that_is_away_is_named() {
    let registry = FakeRegistry::start().await;
    let mut config = registry.config();
    // A port that was free a moment ago, without a listener.
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    config.registries_conf =
        Some(registry.registries_conf(&format!("[[registry]]\nlocation = \"{free}\"\ninsecure = true\n")));
    let reference = Reference::parse(&format!("{free}/a:v1")).expect("parses");
    let error = Puller::new(config).resolve(&reference).await.expect_err("away").to_string();
    assert!(
        error.starts_with(&format!("error creating image source: pinging container registry {free}: ")),
        "{error}"
    );
    assert!(error.to_lowercase().contains("refused"), "{error}");
}

#[tokio::test]
async fn plain_http_is_not_used_for_registries_that_are_not_insecure() {
    let registry = FakeRegistry::start().await;
    let packed = image(&[]);
    registry.put("v1", &packed);
    let config = PullerConfig { registries_conf: None, ..registry.config() };
    assert!(Puller::new(config).resolve(&registry.reference("a:v1")).await.is_err());
    assert!(registry.seen().is_empty());
}

#[tokio::test]
async fn a_blocked_registry_is_not_asked() {
    let registry = FakeRegistry::start().await;
    let mut config = registry.config();
    let text = format!("[[registry]]\nlocation = \"{}\"\nblocked = true\n", registry.address);
    let path = registry.registries_conf(&text);
    config.registries_conf = Some(path.clone());
    let error =
        Puller::new(config).resolve(&registry.reference("a:v1")).await.expect_err("blocked").to_string();
    let wanted = format!(
        "error creating image source: registry {} is blocked in {}",
        registry.address,
        path.display()
    );
    assert_eq!(error, wanted);
    assert!(registry.seen().is_empty());
}

#[tokio::test]
async fn when_all_mirrors_fail_each_is_named() {
    let (registry, mirror) = (FakeRegistry::start().await, FakeRegistry::start().await);
    let mut config = registry.config();
    let (source, other) = (registry.address, mirror.address);
    config.registries_conf = Some(registry.registries_conf(&format!(
        "[[registry]]\nlocation = \"{source}\"\ninsecure = true\n[[registry.mirror]]\nlocation = \"{other}\"\n\
         insecure = true\n"
    )));
    let error =
        Puller::new(config).resolve(&registry.reference("a:v1")).await.expect_err("unknown").to_string();
    assert_eq!(
        error,
        format!(
            "error creating image source: (Mirrors also failed: [{other}/a: reading manifest v1 in {other}/a: \
             manifest unknown (status 404)]): reading manifest v1 in {source}/a: manifest unknown (status 404)"
        )
    );
}

fn bomb(compression: Compression) -> PackedLayer {
    // 100 MiB of zeros behind a valid header: over the grace, far over the ratio.
    let file = "\0".repeat(100 << 20);
    layer(compression, &[("a", &file)])
}

#[tokio::test]
async fn decompression_bombs_are_stopped() {
    let registry = FakeRegistry::start().await;
    for compression in [Compression::Gzip, Compression::Zstd] {
        let packed = ImageBuilder::new().layer(bomb(compression)).build();
        registry.put("v1", &packed);
        let error = failure(&registry, &packed).await;
        let text = "error applying image: error applying layer[0]: the layer is more than 250 times larger \
                    uncompressed than compressed";
        assert_eq!(error.to_string(), text);
        assert!(error.is_content());
        let limits = Limits { uncompressed_bytes_max: 1 << 20, ..Limits::default() };
        let puller = Puller::new(PullerConfig { limits, ..registry.config() });
        let error = pull_with(&puller, &registry, &packed).await.expect_err("stopped").to_string();
        assert!(error.ends_with("the layers have more than 1048576 bytes uncompressed"), "{error}");
    }
}

#[tokio::test]
async fn a_bomb_behind_the_archives_end_is_stopped_too() {
    let registry = FakeRegistry::start().await;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(layer(Compression::None, &[("a", "x")]).bytes()).expect("writes");
    for _ in 0..100 {
        encoder.write_all(&vec![0; 1 << 20]).expect("writes");
    }
    let bytes = encoder.finish().expect("finishes");
    let packed = ImageBuilder::new().layer(PackedLayer::from_bytes(bytes, Compression::Gzip)).build();
    registry.put("v1", &packed);
    assert!(failure(&registry, &packed).await.to_string().contains("times larger"));
}

/// A layer with something after the end of its compressed stream.
fn followed(compression: Compression) -> Vec<u8> {
    [layer(compression, &[("a", "x")]).bytes(), &b"something"[..]].concat()
}

#[tokio::test]
async fn unreadable_layers_are_the_images_fault() {
    let registry = FakeRegistry::start().await;
    for (bytes, wanted) in [
        (b"BZh91AY&SY".to_vec(), "bzip2 compressed layers are not supported"),
        (b"\xfd7zXZ\0\0\0".to_vec(), "xz compressed layers are not supported"),
        (b"a secret text ".repeat(200), "layer[0]: not a valid tar archive"),
        (b"\x1f\x8b\x08garbage".to_vec(), "decompressing the layer: "),
        (b"\x28\xb5\x2f\xfdgarbage".to_vec(), "decompressing the layer: "),
        (followed(Compression::Gzip), "decompressing the layer: "),
        (followed(Compression::Zstd), "decompressing the layer: "),
    ] {
        let packed = ImageBuilder::new().layer(PackedLayer::from_bytes(bytes, Compression::None)).build();
        registry.put("v1", &packed);
        let error = failure(&registry, &packed).await;
        assert!(error.to_string().starts_with("error applying image: error applying layer[0]: "), "{error}");
        assert!(error.to_string().contains(wanted), "{error}");
        assert!(error.is_content());
    }
}

#[tokio::test]
async fn a_broken_upper_layer_leaves_nothing_of_the_image() {
    let registry = FakeRegistry::start().await;
    let packed = ImageBuilder::new()
        .layer(layer(Compression::Gzip, &[("a", "x")]))
        .layer(PackedLayer::from_bytes(vec![b'x'; 2048], Compression::None))
        .build();
    registry.put("v1", &packed);
    assert!(failure(&registry, &packed).await.to_string().contains("layer[1]"));
}

#[tokio::test]
async fn an_empty_layer_is_fine_and_an_artifact_is_not() {
    let registry = FakeRegistry::start().await;
    let packed = ImageBuilder::new().layer(PackedLayer::from_bytes(Vec::new(), Compression::None)).build();
    registry.put("v1", &packed);
    let unpacked = pull_with(&registry.puller(), &registry, &packed).await.expect("pulls");
    assert_eq!(unpacked.files.paths().count(), 0);
    let artifact = serde_json::json!({
        "schemaVersion": 2, "layers": [],
        "config": {"mediaType": "application/vnd.oci.empty.v1+json", "size": 2,
                   "digest": "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"},
    });
    let digest =
        registry.put_manifest("v2", "application/vnd.oci.image.manifest.v1+json", artifact.to_string());
    let reference = registry.reference("ns/a:v2").at(digest);
    let error = registry.puller().pull(&reference, |_| Ok(Select::everything())).await.expect_err("refused");
    assert!(error.to_string().contains("it is an artifact, not an image"), "{error}");
}
