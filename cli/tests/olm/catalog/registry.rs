//! `olm` writing to a registry and reading from it.

use std::path::Path;

use olm_test_registry::Registry;
use serde_json::Value;

use super::sample::{fails, files, prints, read, small, write};

/// Packs a catalog of one package and pushes it; answers the digest.
fn published(root: &Path, address: &str, package: &str, repository: &str) -> String {
    write(root, &format!("src/{package}/catalog.yaml"), &small(package));
    let reference = format!("{address}/{repository}:latest");
    let source = format!("src/{package}");
    let pushed =
        prints(root, &["catalog", "pack", &source, "--push", &reference, "--insecure-registry", address]);
    let (_, digest) = pushed.trim_end().rsplit_once('@').expect("a reference by digest");
    digest.to_owned()
}

#[test]
fn a_composite_catalog_is_made_of_images_by_digest_and_published_again() {
    let root = tempfile::tempdir().expect("a folder");
    let root = root.path();
    let registry = Registry::start().expect("a registry");
    let address = registry.address();
    let etcd = published(root, &address, "etcd", "etcd-operator/index");
    let prometheus = published(root, &address, "prometheus", "prometheus-operator/index");
    let list = format!(
        "name: composite\nrepo: quay.io/example/composite\ntag: v4.7\nreferences:\n- name: etcd-operator\n  image: \
         {address}/etcd-operator/index@{etcd}\n- name: prometheus-operator\n  image: \
         {address}/prometheus-operator/index@{prometheus}\n"
    );
    write(root, "list.yaml", &list);
    let insecure = ["--insecure-registry", &address];
    let compose = |folder| {
        prints(
            root,
            &[&["catalog", "compose", "list.yaml", folder, "--report", "json"], &insecure[..]].concat(),
        )
    };
    let answer: Value = serde_json::from_str(&compose("composite")).expect("JSON");
    assert_eq!(answer["image"], "quay.io/example/composite:v4.7");
    assert_eq!(answer["references"][0]["resolved"], format!("{address}/etcd-operator/index@{etcd}"));
    assert!(read(root, "composite/etcd-operator/index.json").contains("\"name\": \"etcd.v1.0.0\""));
    compose("again");
    assert_eq!(files(&root.join("composite")), files(&root.join("again")));
    // The next author takes the composite as a whole.
    let image = format!("{address}/composite:v4.7");
    prints(root, &[&["catalog", "pack", "composite", "--push", &image], &insecure[..]].concat());
    let validate = |image: &str| prints(root, &[&["catalog", "validate", image], &insecure[..]].concat());
    assert_eq!(validate(&image), "valid: 2 packages, 2 channels, 2 bundles\n");
    let missing = format!("{address}/missing:v1");
    let (out, error) = fails(root, 1, &[&["catalog", "validate", &missing], &insecure[..]].concat());
    let text = format!("error: error creating image source: reading manifest v1 in {address}/missing: ");
    assert!(out.is_empty() && error.starts_with(&text), "{out}{error}");
    assert_eq!(error.matches("manifest unknown").count(), 1, "{error}");
}
