//! Limits and checks of copies.

use serde_json::{Value, json};

use super::*;
use crate::{PullerConfig, limits::Limits};

/// An image of this manifest and these blobs, in a layout that goes when the folder is dropped.
async fn stored(
    manifest: &Value,
    blobs: &[(Digest, &'static [u8])],
) -> (Puller, CanonicalReference, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let layout = LayoutRegistry::create(folder.path()).unwrap();
    let to = Target::in_layout(&layout, "image");
    for (digest, bytes) in blobs {
        let content = BlobContent::Memory(Bytes::from_static(bytes));
        to.registry.push_blob(&to.endpoint, digest, &content).await.unwrap();
    }
    let manifest = Bytes::from(manifest.to_string());
    let digest = Digest::of(&manifest);
    to.push_image(&digest, OCI_MANIFEST, manifest).await.unwrap();
    let puller = Puller::with_registry(PullerConfig::new(std::env::temp_dir()), Arc::new(layout));
    (puller, CanonicalReference::of_layout(digest), folder)
}

fn descriptor(bytes: &[u8]) -> Value {
    json!({"mediaType": "application/octet-stream", "digest": Digest::of(bytes), "size": bytes.len()})
}

async fn refused(manifest: Value) -> String {
    let (puller, image, _folder) = stored(&manifest, &[]).await;
    puller.whole(&image).await.unwrap_err().to_string()
}

/// The error of a copy of an image whose only blob is `served` under the digest of `named`.
async fn copied(named: &'static [u8], served: &'static [u8]) -> Result<u64, CopyError> {
    let manifest = json!({"schemaVersion": 2, "config": descriptor(named), "layers": []});
    let (puller, image, _folder) = stored(&manifest, &[(Digest::of(named), served)]).await;
    let folder = tempfile::tempdir().unwrap();
    let layout = LayoutRegistry::create(folder.path()).unwrap();
    let to = Target::in_layout(&layout, "copy");
    let result = puller.copy(&puller.whole(&image).await.unwrap(), &to, Arc::new(|_| ())).await;
    // What cannot be copied is not listed.
    assert_eq!(LayoutRegistry::open(folder.path()).unwrap().images().count(), usize::from(result.is_ok()));
    result
}

#[tokio::test]
async fn bytes_of_another_digest_or_length_are_not_copied() {
    assert_eq!(copied(b"config", b"config").await.unwrap(), 6);
    let error = copied(b"config", b"c0nfig").await.unwrap_err().to_string();
    assert!(error.contains("digest mismatch"), "{error}");
    let error = copied(b"config", b"config and more").await.unwrap_err().to_string();
    assert!(error.contains("more than 6 bytes"), "{error}");
}

#[tokio::test]
async fn images_have_limits() {
    let many: Vec<Value> = (0..=BLOBS_MAX).map(|number| descriptor(number.to_string().as_bytes())).collect();
    let error = refused(json!({"schemaVersion": 2, "config": many[0], "layers": many[1..]})).await;
    assert!(error.contains("more than 4096 blobs"), "{error}");
    let child = |number: usize| {
        let annotations = json!({"number": number.to_string()});
        json!({"schemaVersion": 2, "config": descriptor(b"x"), "annotations": annotations}).to_string()
    };
    let children: Vec<Value> =
        (0..=MANIFESTS_MAX).map(|number| descriptor(child(number).as_bytes())).collect();
    let (puller, image, folder) = stored(&json!({"schemaVersion": 2, "manifests": children}), &[]).await;
    let to = Target::in_layout(&LayoutRegistry::open(folder.path()).unwrap(), "");
    for number in 0..=MANIFESTS_MAX {
        let bytes = Bytes::from(child(number));
        let name = Digest::of(&bytes).to_string();
        to.registry.push_manifest(&to.endpoint, &name, OCI_MANIFEST, bytes).await.unwrap();
    }
    let error = puller.whole(&image).await.unwrap_err().to_string();
    assert!(error.contains("more than 256 manifests"), "{error}");
    let large = json!({"digest": Digest::of(b""), "size": Limits::default().layer_bytes_max + 1});
    let error = refused(json!({"schemaVersion": 2, "config": large, "layers": []})).await;
    assert!(error.contains("more than the 4294967296 allowed"), "{error}");
    let filled = json!({"schemaVersion": 2, "manifests": [], "annotations": {"a": "x"}});
    assert!(refused(filled).await.contains("neither an image manifest nor an image index"));
}

#[tokio::test]
async fn layers_that_must_not_be_distributed_are_left_out_and_artifacts_are_not() {
    let layer = json!({"mediaType": "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
        "digest": Digest::of(b"layer"), "size": 5});
    let config = json!({"mediaType": "application/vnd.cncf.helm.config.v1+json",
        "digest": Digest::of(b"chart"), "size": 5});
    let manifest = json!({"schemaVersion": 2, "config": config, "layers": [layer]});
    let (puller, image, _folder) = stored(&manifest, &[]).await;
    let image = puller.whole(&image).await.unwrap();
    assert_eq!(image.blobs().collect::<Vec<_>>(), [(&Digest::of(b"chart"), 5)]);
}
