//! The program as the system sees it: how it ends.

use std::{net::TcpListener, process::Command};

/// A cluster that nothing answers for.
const KUBECONFIG: &str = "
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: \"http://127.0.0.1:1\"}}]
contexts: [{name: c, context: {cluster: c, user: c}}]
users: [{name: c, user: {}}]
current-context: c
";

#[test]
fn a_port_that_is_taken_ends_the_program_with_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    std::fs::write(&kubeconfig, KUBECONFIG).unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ended = Command::new(env!("CARGO_BIN_EXE_catalogd"))
        .arg("--kubeconfig")
        .arg(&kubeconfig)
        .arg("--cache-dir")
        .arg(folder.path().join("cache"))
        .args(["--metrics-bind-address", "0", "--health-probe-bind-address", &address])
        .args(["--catalogs-server-addr", "127.0.0.1:0"])
        .output()
        .unwrap();
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    let text = String::from_utf8(ended.stderr).unwrap();
    let last = text.lines().last().unwrap_or_default();
    assert!(last.starts_with(&format!("Error: listening on {address}: Address already in use")), "{text}");
}
