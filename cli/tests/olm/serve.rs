//! `olm catalog serve`, as a person runs it.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Stdio},
};

use serde_json::Value;

use crate::program::{command, folder, olm, path};

/// A server, ended with its test.
struct Served {
    process: Child,
    printed: Value,
}

impl Served {
    fn start(arguments: &[&str]) -> Self {
        let mut all = vec!["catalog", "serve", "-o", "json"];
        all.extend(arguments);
        let mut process = command(&all).stdout(Stdio::piped()).spawn().expect("runs");
        let stdout = BufReader::new(process.stdout.take().expect("piped"));
        let mut text = String::new();
        for line in stdout.lines() {
            let line = line.expect("text");
            text.push_str(&line);
            if line == "}" {
                break;
            }
        }
        let printed = serde_json::from_str(&text).expect("JSON");
        Self { process, printed }
    }

    fn url(&self, endpoint: &str) -> String {
        self.printed[endpoint].as_str().expect("an address").to_owned()
    }

    /// Status and body.
    fn ask(method: &str, url: &str, body: &str) -> (u16, String) {
        let rest = url.strip_prefix("http://").expect("plain HTTP");
        let (address, path) = rest.split_once('/').expect("a path");
        let mut stream = TcpStream::connect(address).expect("connects");
        let length = body.len();
        let head =
            format!("{method} /{path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}");
        stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("received");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        (head.split(' ').nth(1).expect("a status").parse().expect("a number"), body.to_owned())
    }

    fn end(mut self, signal: rustix::process::Signal) -> Option<i32> {
        let pid = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(pid, signal).expect("signalled");
        self.process.wait().expect("ended").code()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn catalog() -> tempfile::TempDir {
    let content =
        "schema: olm.package\nname: sample\n---\nschema: olm.channel\npackage: sample\nname: stable\n";
    folder(&[("sample/catalog.yaml", content)])
}

const PACKAGE: &str = "{\"name\":\"sample\",\"schema\":\"olm.package\"}\n";
const CHANNEL: &str = "{\"name\":\"stable\",\"package\":\"sample\",\"schema\":\"olm.channel\"}\n";

#[test]
fn a_folder_is_served_on_loopback_until_a_signal_comes() {
    let folder = catalog();
    for signal in [rustix::process::Signal::INT, rustix::process::Signal::TERM] {
        let served = Served::start(&[path(folder.path())]);
        assert!(served.url("all").starts_with("http://127.0.0.1:"));
        assert_eq!(served.printed["documents"], 2);
        assert!(served.printed["digest"].as_str().expect("text").starts_with("sha256:"));
        assert_eq!(Served::ask("GET", &served.url("all"), ""), (200, format!("{PACKAGE}{CHANNEL}")));
        let metas = served.url("metas");
        assert_eq!(Served::ask("GET", &format!("{metas}?package=sample"), ""), (200, CHANNEL.to_owned()));
        assert_eq!(Served::ask("GET", &format!("{metas}?x=1"), "").0, 400);
        assert_eq!(served.printed["graphql"], Value::Null);
        let graphql = metas.replace("metas", "graphql");
        assert_eq!(Served::ask("POST", &graphql, "").0, 404);
        assert_eq!(served.end(signal), Some(0));
    }
}

#[test]
fn layouts_and_files_are_served_under_a_name_with_graphql_if_asked() {
    let (folder, layout) = (catalog(), tempfile::tempdir().expect("a folder"));
    let packed = olm(&["catalog", "pack", path(folder.path()), "--layout", path(layout.path())]);
    assert!(packed.status.success(), "{packed:?}");
    let file = folder.path().join("sample/catalog.yaml");
    for source in [layout.path(), &file] {
        let served = Served::start(&[path(source), "--name", "my.catalog", "--graphql"]);
        assert!(served.url("all").contains("/catalogs/my.catalog/api/v1/all"));
        assert_eq!(Served::ask("GET", &served.url("all"), ""), (200, format!("{PACKAGE}{CHANNEL}")));
        let query = r#"{"query":"{ olmchannels { name } }"}"#;
        let (status, answer) = Served::ask("POST", &served.url("graphql"), query);
        assert_eq!((status, answer.trim()), (200, r#"{"data":{"olmchannels":[{"name":"stable"}]}}"#));
    }
}

#[test]
fn text_is_one_address_a_line() {
    let folder = catalog();
    let mut process =
        command(&["catalog", "serve", path(folder.path())]).stdout(Stdio::piped()).spawn().expect("runs");
    let lines: Vec<String> = BufReader::new(process.stdout.take().expect("piped"))
        .lines()
        .take(2)
        .map(|line| line.expect("text"))
        .collect();
    process.kill().expect("killed");
    process.wait().expect("ended");
    assert!(lines[0].ends_with("/catalogs/catalog/api/v1/all"), "{lines:?}");
    assert!(lines[1].ends_with("/catalogs/catalog/api/v1/metas"), "{lines:?}");
}

#[test]
fn what_cannot_be_served_is_an_error_with_its_reason() {
    let (folder, empty, broken) =
        (catalog(), tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    fs::write(broken.path().join("c.yaml"), "schema: [").expect("written");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    for (arguments, printed) in [
        (vec![path(empty.path())], "there are no files: a catalog has at least one"),
        (vec![path(broken.path())], "c.yaml"),
        (vec![path(folder.path()), "--name", "No"], "--name \"No\": a catalog's name is a DNS subdomain"),
        (vec![path(folder.path()), "--addr", "8080"], "address \"8080\" is not of the form [host]:port"),
        (vec!["quay.io/a/b:v1", "--offline"], "--offline: images are not fetched from registries"),
    ] {
        let mut all = vec!["catalog", "serve"];
        all.extend(arguments);
        let output = olm(&all);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && text.contains(printed), "{printed}: {text}");
    }
    let address = taken.local_addr().expect("an address").to_string();
    let output = olm(&["catalog", "serve", path(folder.path()), "--addr", &address]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && text.contains(&format!("listening on {address}")), "{text}");
}
