//! A registry that serves image layouts over plain HTTP, and `olm` reading from it.
#![expect(clippy::expect_used, reason = "a helper of a test fails like the test itself")]

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    thread,
};

use serde_json::Value;

use super::sample::{fails, files, prints, read, small, write};

/// Serves the layouts below `root`: each folder is a repository, its only image is every tag. The thread ends with
/// the test's process.
fn serve(root: &Path) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let root = root.to_owned();
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            // A client that goes away is told nothing.
            let _ = answer(connection, &root);
        }
    });
    address
}

fn answer(mut connection: TcpStream, root: &Path) -> std::io::Result<()> {
    let mut request = String::new();
    let mut reader = BufReader::new(connection.try_clone()?);
    reader.read_line(&mut request)?;
    let mut header = String::new();
    while reader.read_line(&mut header)? > 2 {
        header.clear();
    }
    let mut words = request.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (status, kind, body) = match content(root, path) {
        Some((kind, body)) => ("200 OK", kind, body),
        None if path == "/v2/" => ("200 OK", "application/json".to_owned(), b"{}".to_vec()),
        None => ("404 Not Found", "application/json".to_owned(), b"{}".to_vec()),
    };
    write!(
        connection,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    )?;
    if method == "HEAD" { Ok(()) } else { connection.write_all(&body) }
}

/// Type and bytes of what a path names.
fn content(root: &Path, path: &str) -> Option<(String, Vec<u8>)> {
    let (repository, what) = path.strip_prefix("/v2/")?.rsplit_once('/')?;
    let (repository, kind) = repository.rsplit_once('/')?;
    let layout = root.join(repository);
    let digest = if what.starts_with("sha256:") { what.to_owned() } else { image_digest(&layout)? };
    let bytes = fs::read(layout.join("blobs").join(digest.replace(':', "/"))).ok()?;
    if kind == "blobs" {
        return Some(("application/octet-stream".into(), bytes));
    }
    let manifest: Value = serde_json::from_slice(&bytes).ok()?;
    let media_type = manifest["mediaType"].as_str()?.to_owned();
    Some((media_type, bytes))
}

fn image_digest(layout: &Path) -> Option<String> {
    let index: Value = serde_json::from_slice(&fs::read(layout.join("index.json")).ok()?).ok()?;
    index["manifests"][0]["digest"].as_str().map(str::to_owned)
}

/// Packs a catalog of one package into the registry; answers the digest.
fn published(root: &Path, package: &str, repository: &str) -> String {
    write(root, &format!("src/{package}/catalog.yaml"), &small(package));
    let layout = PathBuf::from("registry").join(repository);
    let layout_text = layout.to_str().expect("text");
    fs::create_dir_all(root.join(layout.parent().expect("a folder"))).expect("made");
    prints(root, &["catalog", "pack", &format!("src/{package}"), "--layout", layout_text]);
    image_digest(&root.join(layout)).expect("a digest")
}

#[test]
fn a_composite_catalog_is_made_of_images_by_digest_and_published_again() {
    let root = tempfile::tempdir().expect("a folder");
    let root = root.path();
    let etcd = published(root, "etcd", "etcd-operator/index");
    let prometheus = published(root, "prometheus", "prometheus-operator/index");
    let address = serve(&root.join("registry"));
    let list = format!(
        "name: composite\nrepo: quay.io/example/composite\ntag: v4.7\nreferences:\n- name: etcd-operator\n  image: \
         {address}/etcd-operator/index@{etcd}\n- name: prometheus-operator\n  image: \
         {address}/prometheus-operator/index@{prometheus}\n"
    );
    write(root, "list.yaml", &list);
    let insecure = ["--insecure-registry", &address];
    let compose = |folder| {
        prints(root, &[&["catalog", "compose", "list.yaml", folder, "-o", "json"], &insecure[..]].concat())
    };
    let answer: Value = serde_json::from_str(&compose("composite")).expect("JSON");
    assert_eq!(answer["image"], "quay.io/example/composite:v4.7");
    assert_eq!(answer["references"][0]["resolved"], format!("{address}/etcd-operator/index@{etcd}"));
    assert!(read(root, "composite/etcd-operator/index.yaml").contains("\nname: etcd.v1.0.0\n"));
    compose("again");
    assert_eq!(files(&root.join("composite")), files(&root.join("again")));
    // The next author takes the composite as a whole.
    prints(root, &["catalog", "pack", "composite", "--layout", "registry/composite"]);
    let image = format!("{address}/composite:v4.7");
    let validate = |image: &str| prints(root, &[&["catalog", "validate", image], &insecure[..]].concat());
    assert_eq!(validate(&image), "valid: 2 packages, 2 channels, 2 bundles\n");
    let missing = format!("{address}/missing:v1");
    let (out, error) = fails(root, 1, &[&["catalog", "validate", &missing], &insecure[..]].concat());
    assert!(out.is_empty() && error.contains(&format!("{address}/missing: not found")), "{out}{error}");
}
