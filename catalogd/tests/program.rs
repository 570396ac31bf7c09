//! The program as the system sees it: how it starts and ends.

use std::{
    fs,
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// A cluster that nothing answers for.
const KUBECONFIG: &str = "
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: \"http://127.0.0.1:1\"}}]
contexts: [{name: c, context: {cluster: c, user: c}}]
users: [{name: c, user: {}}]
current-context: c
";

/// The program with its files in a folder, its health at an address, and no settings of the allocator.
fn program(folder: &Path, health: &str) -> std::io::Result<Command> {
    let kubeconfig = folder.join("kubeconfig");
    fs::write(&kubeconfig, KUBECONFIG)?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_catalogd"));
    command
        .env_remove("MIMALLOC_PURGE_DELAY")
        .env_remove("MIMALLOC_GENERIC_COLLECT")
        .arg("--kubeconfig")
        .arg(&kubeconfig)
        .arg("--cache-dir")
        .arg(folder.join("cache"))
        .args(["--metrics-bind-address", "0", "--health-probe-bind-address", health])
        .args(["--catalogs-server-addr", "127.0.0.1:0"]);
    Ok(command)
}

/// A process that ends with its test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(target_os = "linux")]
#[test]
fn the_allocator_keeps_no_memory_unless_the_environment_says_otherwise() {
    let of_process = |id: u32, file: &str| -> Vec<String> {
        let bytes = fs::read(format!("/proc/{id}/{file}")).unwrap();
        let parts = bytes.split(|byte| *byte == 0).filter(|part| !part.is_empty());
        parts.map(|part| String::from_utf8_lossy(part).into_owned()).collect()
    };
    for (given, wanted) in [(None, "0"), (Some("7"), "7")] {
        let folder = tempfile::tempdir().unwrap();
        let mut command = program(folder.path(), "127.0.0.1:0").unwrap();
        command
            .envs(given.map(|given| ("MIMALLOC_PURGE_DELAY", given)))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let arguments: Vec<_> = command.get_args().map(|one| one.to_string_lossy().into_owned()).collect();
        let child = Killed(command.spawn().unwrap());
        let id = child.0.id();
        let wanted = [format!("MIMALLOC_PURGE_DELAY={wanted}"), "MIMALLOC_GENERIC_COLLECT=1000".to_owned()];
        let start = Instant::now();
        while !wanted.iter().all(|one| of_process(id, "environ").contains(one)) {
            assert!(start.elapsed() < Duration::from_secs(30), "{:?}", of_process(id, "environ"));
            thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(of_process(id, "cmdline")[1..], arguments);
        assert_eq!(fs::read_to_string(format!("/proc/{id}/comm")).unwrap(), "catalogd\n");
    }
}

#[test]
fn a_port_that_is_taken_ends_the_program_with_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ended = program(folder.path(), &address).unwrap().output().unwrap();
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    let text = String::from_utf8(ended.stderr).unwrap();
    let last = text.lines().last().unwrap_or_default();
    assert!(last.starts_with(&format!("Error: listening on {address}: Address already in use")), "{text}");
}
