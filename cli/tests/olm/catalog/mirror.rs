//! `olm catalog mirror`, from one registry to another and by way of a folder.

use std::{fs, path::Path};

use olm_image::{
    CanonicalReference, Compression, Config, Digest, ImageBuilder, LayerBuilder, PackedImage, Puller,
    PullerConfig, Reference, candidates,
};
use olm_test_registry::Registry;
use serde_json::{Value, json};

use super::sample::{bundle, olm_in, prints, sample, small, write};

const CONFIGS_LABEL: &str = "operators.operatorframework.io.index.configs.v1";

/// More bytes than are uploaded in one request, which cannot be compressed.
fn large() -> Vec<u8> {
    let mut state: u32 = 1;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    (0..9 << 20).map(|_| next()).collect()
}

fn image<C: AsRef<[u8]>>(files: &[(&str, C)], labels: &[(&str, &str)]) -> PackedImage {
    let layer = files.iter().fold(LayerBuilder::new(Compression::Gzip), |layer, (path, content)| {
        layer.file(path, content).expect("fits")
    });
    let image = ImageBuilder::new().layer(layer.build().expect("built"));
    labels.iter().fold(image, |image, (key, value)| image.label(*key, *value)).build()
}

fn put(registry: &Registry, repository: &str, tag: &str, image: &PackedImage) {
    let blobs = image.blobs().map(|(_, bytes)| bytes.clone()).collect();
    registry.put(repository, tag, image.manifest().clone(), blobs);
}

/// The tag of what belongs to an image.
fn attached(digest: &Digest, end: &str) -> String {
    format!("sha256-{}{end}", digest.hex())
}

/// An operator with its catalog, its bundle, and an image for two platforms that it runs; answers that image's digest.
fn published(registry: &Registry) -> Digest {
    let address = registry.address();
    let platforms = [("amd64", b"amd64".to_vec()), ("arm64", large())].map(|(platform, program)| {
        let image = image(&[("bin/run", program)], &[]);
        put(registry, "x/operand", platform, &image);
        json!({"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": image.digest().to_string(),
            "size": image.manifest().len(), "platform": {"os": "linux", "architecture": platform}})
    });
    let index = json!({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": platforms})
    .to_string();
    let operand = Digest::of(index.as_bytes());
    registry.put("x/operand", "v1", index.into(), Vec::new());
    // A signature as cosign stores it, and OCI's index of what refers to the image.
    let signature = image(&[("signature", "of the operand")], &[]);
    put(registry, "x/operand", &attached(&operand, ".sig"), &signature);
    let referrers = json!({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [{"mediaType": "application/vnd.oci.image.manifest.v1+json",
            "digest": signature.digest().to_string(), "size": signature.manifest().len()}]});
    registry.put("x/operand", &attached(&operand, ""), referrers.to_string().into(), Vec::new());
    let deployment = format!(
        "kind: Deployment\nmetadata: {{name: d}}\nspec: {{containers: [{{image: '{address}/x/operand:v1'}}]}}\n"
    );
    let of_bundle = [
        ("manifests/deployment.yaml", deployment.as_str()),
        ("metadata/annotations.yaml", "annotations: {}\n"),
    ];
    put(registry, "x/y", "2", &image(&of_bundle, &[]));
    let catalog =
        sample().replace("quay.io", &address) + "---\n" + &small("q").replace("quay.io", "registry.invalid");
    put(
        registry,
        "x/catalog",
        "v1",
        &image(&[("configs/all.yaml", &catalog)], &[(CONFIGS_LABEL, "/configs")]),
    );
    operand
}

/// Runs the command with both registries over plain HTTP; its exit code, report and errors.
fn mirror(folder: &Path, registries: &[&Registry], arguments: &[&str]) -> (Option<i32>, Value, String) {
    let addresses: Vec<String> = registries.iter().map(|registry| registry.address()).collect();
    let insecure: Vec<&str> =
        addresses.iter().flat_map(|address| ["--insecure-registry", address.as_str()]).collect();
    let output = olm_in(folder, &[&["catalog", "mirror"], arguments, &["-o", "json"], &insecure].concat());
    let errors = String::from_utf8(output.stderr).expect("text");
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap_or_default(), errors)
}

/// A puller for this registry.
fn puller(registry: &Registry) -> Puller {
    let mut config = PullerConfig::new(std::env::temp_dir());
    config.insecure_hosts.insert(registry.address());
    Puller::new(config)
}

/// The digest that a tag of a registry has, with all platforms and blobs behind it in order.
async fn whole(registry: &Registry, name: &str) -> CanonicalReference {
    let puller = puller(registry);
    let reference = Reference::parse(&format!("{}/{name}", registry.address())).expect("a reference");
    let found = puller.resolve(&reference).await.expect("the tag");
    let image = puller.whole(&found).await.expect("all manifests");
    let folder = tempfile::tempdir().expect("a folder");
    let layout = olm_image::LayoutRegistry::create(folder.path()).expect("a layout");
    let target = olm_image::Target::in_layout(&layout, "all");
    let copied = puller.copy(&image, &target, std::sync::Arc::new(|_| ())).await.expect("all blobs");
    assert!(copied > 0 && copied == image.bytes());
    found
}

#[tokio::test]
async fn packages_are_mirrored_with_all_platforms_and_the_rest_is_left_out() {
    let (from, to) = (Registry::start().expect("a registry"), Registry::start().expect("a registry"));
    let (operand, root) = (published(&from), tempfile::tempdir().expect("a folder"));
    let (source, address) = (format!("{}/x/catalog:v1", from.address()), from.address());
    let place = format!("{}/olm", to.address());
    let arguments = [source.as_str(), "--package", "p", "--push", &place];
    let (code, report, errors) =
        mirror(root.path(), &[&from, &to], &[&arguments[..], &["--dry-run"]].concat());
    assert_eq!(code, Some(0), "{errors}");
    assert_eq!(report["images"].as_array().map(Vec::len), Some(3), "{report:#}");
    assert!(!root.path().join("mirror-results").exists(), "a dry run wrote something");

    let (code, report, errors) = mirror(root.path(), &[&from, &to], &arguments);
    assert_eq!(code, Some(0), "{report:#}\n{errors}");
    assert_eq!(report["newBytes"], report["bytes"], "{report:#}");
    let host = address.replace(':', "-");
    let copy = whole(&to, &format!("olm/{host}/x/operand:v1")).await;
    assert_eq!(*copy.digest(), operand, "the digest of the index");
    whole(&to, &format!("olm/{host}/x/y:2")).await;
    for end in [".sig", ""] {
        whole(&to, &format!("olm/{host}/x/operand:{}", attached(&operand, end))).await;
    }
    let of_operand =
        report["images"].as_array().expect("images").iter().find(|image| !image["attached"].is_null());
    let tags = json!([attached(&operand, ".sig"), attached(&operand, "")]);
    assert_eq!(of_operand.map(|image| &image["attached"]), Some(&tags), "{report:#}");
    let listed = prints(
        root.path(),
        &[
            "catalog",
            "list",
            "packages",
            &format!("{place}/{host}/x/catalog:v1"),
            "-o",
            "name",
            "--insecure-registry",
            &to.address(),
        ],
    );
    assert_eq!(listed, "p\n", "the catalog is cut down");

    let (_, again, _) = mirror(root.path(), &[&from, &to], &arguments);
    assert_eq!(again["newBytes"], 0, "{again:#}");
    let conf = root.path().join("mirror-results/registries.conf");
    let config = Config::load(&conf).expect("a configuration");
    let reference = Reference::parse(&format!("{address}/x/operand:v1")).expect("a reference");
    let places = candidates(reference.repository(), false, &config).expect("places");
    assert_eq!((places[0].host.clone(), places[0].insecure), (to.address(), true));
    assert_eq!(places[0].repository, format!("olm/{host}/x/operand"));
    let catalogs = fs::read_to_string(root.path().join("mirror-results/catalogs.yaml")).expect("written");
    let catalog = olm_yaml::one(&catalogs.replace("---\n", "")).expect("a manifest");
    assert_eq!(catalog["spec"]["source"]["image"]["ref"], *source);
}

#[tokio::test]
async fn a_folder_carries_a_mirror_to_where_the_first_registry_is_not_reached() {
    let (from, to) = (Registry::start().expect("a registry"), Registry::start().expect("a registry"));
    let (operand, root) = (published(&from), tempfile::tempdir().expect("a folder"));
    let (source, host) = (format!("{}/x/catalog:v1", from.address()), from.address().replace(':', "-"));
    let (code, _, errors) = mirror(root.path(), &[&from], &[&source, "-p", "p", "--layout", "carried"]);
    assert_eq!(code, Some(0), "{errors}");
    from.stop();
    let (code, report, errors) =
        mirror(root.path(), &[&to], &["--from-layout", "carried", "--push", &to.address()]);
    assert_eq!(code, Some(0), "{report:#}\n{errors}");
    assert_eq!(*whole(&to, &format!("{host}/x/operand:v1")).await.digest(), operand);
    for end in [".sig", ""] {
        whole(&to, &format!("{host}/x/operand:{}", attached(&operand, end))).await;
    }
    let catalogs = fs::read_to_string(root.path().join("mirror-results/catalogs.yaml")).expect("written");
    assert!(catalogs.contains(&source), "{catalogs}");
}

#[tokio::test]
async fn an_image_that_is_missing_is_named_and_the_others_are_copied() {
    let (from, to) = (Registry::start().expect("a registry"), Registry::start().expect("a registry"));
    let (_, root) = (published(&from), tempfile::tempdir().expect("a folder"));
    let broken = bundle("p", "2.0.0", &format!("{}/x/y:2", from.address()))
        + &format!(
            "relatedImages: [{{name: a, image: '{0}/x/gone:1'}}, {{name: b, image: 'Not//one'}}]\n",
            from.address()
        );
    let catalog =
        sample().replace(&bundle("p", "2.0.0", "quay.io/x/y:2"), &broken).replace("quay.io", &from.address());
    write(root.path(), "c/all.yaml", &catalog);
    let arguments = ["c", "--as", "example.com/catalog:v1", "--push", &to.address()];
    let (code, report, errors) = mirror(root.path(), &[&from, &to], &arguments);
    assert_eq!(code, Some(1), "{report:#}\n{errors}");
    assert_eq!(report["failed"], 2, "{report:#}");
    let gone = format!("{}/x/gone:1", from.address());
    let images = report["images"].as_array().expect("images");
    let failed = images.iter().find(|image| image["image"] == gone).expect("named");
    assert_eq!(failed["bundles"], json!(["p.v2.0.0"]));
    assert!(failed["error"].as_str().is_some_and(|error| error.contains("manifest unknown")), "{failed}");
    assert!(errors.contains("2 images could not be copied"), "{errors}");
    whole(&to, "example.com/catalog:v1").await;
    whole(&to, &format!("{}/x/operand:v1", from.address().replace(':', "-"))).await;
    let (code, _, errors) = mirror(root.path(), &[&from, &to], &["c", "--push", &to.address()]);
    assert_eq!(code, Some(1));
    assert!(errors.contains("name the image that it becomes with --as"), "{errors}");
}
