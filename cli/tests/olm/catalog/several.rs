//! Several catalogs at once, catalogs at addresses, and names that are misspelt.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
};

use serde_json::Value;

use super::sample::{fails, prints, sample, small, write};

/// The address of a server that answers this many requests with a catalog.
fn served(catalog: String, requests: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming().take(requests) {
            let mut stream = stream.expect("a connection");
            let mut request = [0; 4096];
            let length = stream.read(&mut request).expect("a request");
            assert!(request[..length].starts_with(b"GET /catalogs/c/api/v1/all "), "the path of a catalog");
            let head =
                format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", catalog.len());
            stream.write_all((head + &catalog).as_bytes()).expect("answered");
        }
    });
    format!("http://{address}/catalogs/c")
}

#[test]
fn a_served_catalog_is_read_by_its_address() {
    let root = tempfile::tempdir().expect("a folder");
    let address = served(sample(), 4);
    let listed = prints(root.path(), &["catalog", "list", "packages", &address, "-o", "name"]);
    assert_eq!(listed, "p\n");
    assert!(prints(root.path(), &["catalog", "graph", &address]).contains("p.v2.0.0"));
    assert!(prints(root.path(), &["catalog", "render", &address]).contains("\"name\": \"p.v2.0.0\""));
    assert_eq!(
        prints(root.path(), &["catalog", "validate", &address]),
        "valid: 1 package, 1 channel, 2 bundles\n"
    );
    let (_, error) = fails(root.path(), 1, &["catalog", "list", "packages", &address, "--offline"]);
    assert!(error.contains("--offline"), "{error}");
    let (_, error) = fails(root.path(), 1, &["bundle", "validate", &address]);
    assert!(error.contains("catalogs are served, bundles are not"), "{error}");
}

#[test]
fn each_of_several_catalogs_is_validated() {
    let root = tempfile::tempdir().expect("a folder");
    write(root.path(), "a/all.yaml", &sample());
    write(root.path(), "b/all.yaml", &small("q"));
    write(root.path(), "c/all.json", "{\"schema\": \"olm.package\"}\n\n{\"schema\":");
    let both = prints(root.path(), &["catalog", "validate", "a", "b"]);
    assert_eq!(
        both,
        "a:\n  valid: 1 package, 1 channel, 2 bundles\nb:\n  valid: 1 package, 1 channel, 1 bundle\n"
    );
    let all = ["catalog", "validate", "a", "c", "missing.io/x:1", "--offline", "-o", "json"];
    let (out, error) = fails(root.path(), 1, &all);
    assert!(error.contains("c, missing.io/x:1: these catalogs are not valid"), "{error}");
    let verdicts: Value = serde_json::from_str(&out).expect("JSON");
    let passed: Vec<_> = verdicts.as_array().expect("a list").iter().map(|one| &one["passed"]).collect();
    assert_eq!(passed, [true, false, false], "{verdicts:#}");
    let broken = verdicts[1]["error"]["message"].as_str().expect("a message");
    assert!(broken.contains("the document that begins at line 3 is not complete"), "{broken}");
}

#[test]
fn what_was_probably_meant_is_asked() {
    let root = tempfile::tempdir().expect("a folder");
    let catalog = sample().replace("package: p\n", "package: lamp\n").replace("name: p\n", "name: lamp\n");
    write(root.path(), "c/all.yaml", &catalog.replace("packageName: p", "packageName: lamp"));
    let catalog = ["--catalog", "./c"];
    for (arguments, code, meant) in [
        (&["show", "lmap"][..], 1, "Did you mean lamp?"),
        (&["catalog", "images", "lampe"], 1, "Did you mean lamp?"),
        (&["catalog", "path", "lam", "--from", "1.0.0"], 1, "Did you mean lamp?"),
        (&["resolve", "--package", "lamo"], 2, "Did you mean lamp?"),
        (&["resolve", "--package", "lamp", "--channel", "hc"], 2, "Did you mean ch?"),
        (&["show", "entirely-different"], 1, "\"olm search\" looks for parts of names and texts"),
    ] {
        let (out, error) = fails(root.path(), code, &[arguments, &catalog].concat());
        assert!(format!("{out}{error}").contains(meant), "{arguments:?}: {out}{error}");
    }
    let (_, error) = fails(root.path(), 1, &["catalog", "list", "bundles", "c", "lamb"]);
    assert!(error.contains("package \"lamb\" not found. Did you mean lamp?"), "{error}");
}
