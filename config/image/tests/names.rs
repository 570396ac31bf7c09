//! A static program in a folder with nothing else resolves names: what the images rely on. The program is made here,
//! runs in a network of its own that only has loopback, and brings the DNS server that it asks.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Answers `registry.example.svc.cluster.local` with 10.1.2.3 and every other name with "no such name", then looks up
/// the names of the command line.
const PROGRAM: &str = r#"
use std::net::{ToSocketAddrs, UdpSocket};

fn answer(query: &[u8]) -> Vec<u8> {
    let mut labels = Vec::new();
    let mut at = 12;
    while query[at] != 0 {
        let length = usize::from(query[at]);
        labels.push(String::from_utf8_lossy(&query[at + 1..at + 1 + length]).into_owned());
        at += length + 1;
    }
    let known = labels.join(".") == "registry.example.svc.cluster.local";
    let address = known && query[at + 2] == 1;
    let mut reply = query[..2].to_vec();
    reply.extend([0x81, if known { 0x80 } else { 0x83 }, 0, 1, 0, u8::from(address), 0, 0, 0, 0]);
    reply.extend(&query[12..at + 5]);
    if address {
        reply.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 10, 1, 2, 3]);
    }
    reply
}

fn main() {
    let socket = UdpSocket::bind("127.0.0.1:53").expect("the port of DNS");
    std::thread::spawn(move || {
        let mut buffer = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            socket.send_to(&answer(&buffer[..length]), from).expect("an answer");
        }
    });
    for name in std::env::args().skip(1) {
        let found = (name.as_str(), 80).to_socket_addrs().ok().and_then(|mut all| all.next());
        println!("{name} {}", found.map_or("none".to_owned(), |address| address.ip().to_string()));
    }
}
"#;

/// Runs in a network of its own, with loopback, if this machine lets us.
fn isolated() -> Command {
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--net", "sh", "-c", "ip link set lo up && exec chroot \"$@\"", "sh"]);
    command
}

fn works(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

fn is_built(folder: &Path) -> std::io::Result<bool> {
    fs::write(folder.join("probe.rs"), PROGRAM)?;
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let built = Command::new(rustc)
        .args(["--edition=2024", "-C", "target-feature=+crt-static", "-o"])
        .args([folder.join("root/probe"), folder.join("probe.rs")])
        .stderr(Stdio::null())
        .status()?;
    Ok(built.success())
}

#[test]
fn a_static_program_resolves_names_without_any_library() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    fs::create_dir_all(root.join("etc")).unwrap();
    if !works(isolated().args(["/", "true"])) {
        olm_test_programs::data::skip("this machine allows no network namespace (unshare, ip, chroot)");
        return;
    }
    assert!(
        is_built(folder.path()).unwrap(),
        "a static program cannot be built: is the C library's libc.a installed?"
    );
    fs::write(root.join("etc/nsswitch.conf"), "hosts: files dns\n").unwrap();
    fs::write(root.join("etc/hosts"), "127.0.0.1 localhost\n10.9.9.9 from-hosts\n").unwrap();
    // As the kubelet writes it.
    let resolver =
        "nameserver 127.0.0.1\nsearch svc.cluster.local cluster.local\noptions ndots:5 timeout:1\n";
    fs::write(root.join("etc/resolv.conf"), resolver).unwrap();
    let names =
        ["localhost", "from-hosts", "registry.example", "registry.example.svc.cluster.local", "nowhere.test"];
    let output = isolated().arg(&root).arg("/probe").args(names).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let found: Vec<&str> = told.lines().filter_map(|line| Some(line.split_once(' ')?.1)).collect();
    assert_eq!(
        found,
        ["127.0.0.1", "10.9.9.9", "10.1.2.3", "10.1.2.3", "none"],
        "{told}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
