//! `olm resolve`, as a person runs it.

use std::{
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    process::Output,
};

use serde_json::{Value, json};

use crate::program::{self, command, olm, path};

/// Versions of package `p`, each with what its channel entry says.
fn catalog(bundles: &[(&str, Value, Value)]) -> String {
    let name = |version: &str| format!("p.v{version}");
    let entries: Vec<Value> = bundles
        .iter()
        .map(|(version, edges, _)| {
            let mut entry = edges.clone();
            entry["name"] = name(version).into();
            entry
        })
        .collect();
    let mut lines = vec![
        json!({"schema": "olm.package", "name": "p", "defaultChannel": "stable"}),
        json!({"schema": "olm.channel", "package": "p", "name": "stable", "entries": entries}),
    ];
    for (version, _, properties) in bundles {
        let mut all = vec![json!({"type": "olm.package", "value": {"packageName": "p", "version": version}})];
        all.extend(properties.as_array().cloned().unwrap_or_default());
        lines.push(json!({"schema": "olm.bundle", "package": "p", "name": name(version), "image": format!("r.io/p@sha256:{version}"), "properties": all}));
    }
    lines.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

fn two() -> String {
    catalog(&[
        ("1.0.0", json!({}), json!([])),
        ("1.1.0", json!({"replaces": "p.v1.0.0"}), json!([])),
        ("2.0.0", json!({"skipRange": ">=1.1.0 <2.0.0"}), json!([])),
    ])
}

/// A folder with this catalog.
fn folder(text: &str) -> tempfile::TempDir {
    program::folder(&[("catalog.json", text)])
}

fn resolve(arguments: &[&str]) -> Output {
    command(&["resolve"]).args(arguments).output().expect("runs")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn the_answer_is_the_controllers() {
    let catalog = folder(&two());
    let catalog = path(catalog.path());
    let answer = |more: &[&str]| {
        let arguments = [&["--catalog", catalog, "--package", "p", "-o", "json"], more].concat();
        let output = resolve(&arguments);
        json(&output)["resolution"]["bundle"].as_str().map(str::to_owned)
    };
    assert_eq!(answer(&[]).as_deref(), Some("p.v2.0.0"));
    assert_eq!(answer(&["--version", "1.x"]).as_deref(), Some("p.v1.1.0"));
    assert_eq!(answer(&["--installed", "1.0.0"]).as_deref(), Some("p.v1.1.0"));
    assert_eq!(answer(&["--installed", "p.v1.1.0"]).as_deref(), Some("p.v2.0.0"));
    assert_eq!(answer(&["--installed", "p.v1.1.0", "--block-major-updates"]).as_deref(), Some("p.v1.1.0"));
    assert_eq!(answer(&["--installed", "1.0.0", "--version", "2.0.0"]), None);
    let forced = ["--installed", "1.0.0", "--version", "2.0.0", "--policy", "SelfCertified"];
    assert_eq!(answer(&forced).as_deref(), Some("p.v2.0.0"));
    assert_eq!(answer(&["--installed", "p.v1.0.5=1.5.0"]).as_deref(), Some("p.v2.0.0"));
}

#[test]
fn a_failure_is_explained_and_shows_in_the_exit_code() {
    let catalog = folder(&two());
    let arguments = [
        "--catalog",
        path(catalog.path()),
        "--package",
        "p",
        "--installed",
        "1.0.0",
        "--version",
        "2.0.0",
        "--explain",
    ];
    let output = resolve(&arguments);
    assert_eq!(output.status.code(), Some(2));
    let printed = text(&output);
    let error = "error upgrading from currently installed version \"1.0.0\": no bundles found for package \"p\" matching version \"2.0.0\"";
    assert!(printed.starts_with(&format!("no answer: {error}\nUpgrades only follow the paths")), "{printed}");
    assert!(printed.contains("): cannot be reached from p.v1.0.0"), "{printed}");
    assert!(printed.contains("Upgrades lead there in 2 steps: 1.1.0, then 2.0.0"), "{printed}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let output = resolve(&[&arguments[..], &["-o", "json"]].concat());
    assert_eq!(json(&output)["error"], error);
    assert_eq!(json(&output)["rejected"].as_array().map(Vec::len), Some(3));
}

#[test]
fn requirements_are_told_with_what_would_meet_them() {
    let needs =
        json!([{"type": "olm.package.required", "value": {"packageName": "p", "versionRange": "<1.0.0"}}]);
    let catalog = folder(&catalog(&[("0.5.0", json!({}), json!([])), ("1.0.0", json!({}), needs)]));
    let output = resolve(&["--catalog", path(catalog.path()), "--package", "p", "--explain"]);
    let printed = text(&output);
    for part in [
        "requires  package \"p\" in version range \"<1.0.0\"",
        "met by package p 0.5.0",
        "kind: ClusterExtension",
        "version: \"<1.0.0\"",
    ] {
        assert!(printed.contains(part), "no {part} in {printed}");
    }
    let output = resolve(&["--catalog", path(catalog.path()), "--package", "p", "--refuse-dependencies"]);
    assert!(text(&output).contains("which is currently not supported"), "{output:?}");
}

#[test]
fn a_served_catalog_is_read_over_http() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}/catalogs/mine", listener.local_addr().expect("an address"));
    let served = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        let mut lines = BufReader::new(stream.try_clone().expect("a reader")).lines();
        let request = lines.next().expect("a line").expect("text");
        while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
        let body = two();
        write!(
            stream,
            "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        )
        .expect("sent");
        request
    });
    let output = resolve(&["--catalog", &format!("{address}=3"), "--package", "p"]);
    assert!(text(&output).starts_with("bundle    p.v2.0.0\n"), "{output:?}");
    assert_eq!(served.join().expect("served"), "GET /catalogs/mine/api/v1/all HTTP/1.1");
    let output = resolve(&["--catalog", &address, "--package", "p", "--offline"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("--offline: "), "{output:?}");
}

#[test]
fn what_is_wrong_is_named() {
    let empty = tempfile::tempdir().expect("a folder");
    let fine = folder(&two());
    let fine = path(fine.path());
    for (arguments, code, printed) in [
        (
            vec!["--catalog", "./no/such place", "--package", "p"],
            1,
            "neither a file or folder here nor an image reference",
        ),
        (vec!["--catalog", path(empty.path()), "--package", "p"], 1, "this is not a catalog"),
        (vec!["--catalog", fine, "--catalog", fine, "--package", "p"], 1, "given twice"),
        (
            vec!["--catalog", fine, "--package", "p", "--installed", "7.0.0"],
            1,
            "no catalog lists a bundle of this name or version",
        ),
        (
            vec!["--catalog", fine, "--package", "p", "--installed", "1.0.0", "--installed-from", "x"],
            1,
            "no such catalog",
        ),
        (vec!["--package", "p", "--kubeconfig", "/nowhere"], 1, "give catalogs with --catalog to need none"),
        (vec!["--catalog", fine, "--package", "p", "--policy", "maybe"], 1, "CatalogProvided"),
    ] {
        let output = resolve(&arguments);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{error}");
        assert!(error.contains(printed), "{error}");
    }
    let help = text(&resolve(&["--help"]));
    assert!(help.contains("Exit codes: 0") && help.contains("Examples:"), "{help}");
}

/// As upstream's reader of documents has it, for every field at their top.
#[test]
fn two_spellings_of_the_default_channel_are_refused_by_every_command() {
    let both = "\"DefaultChannel\":\"other\",\"defaultChannel\":\"stable\"";
    let catalog = folder(&two().replacen("\"defaultChannel\":\"stable\"", both, 1));
    let place = path(catalog.path());
    for arguments in [
        &["catalog", "list", "packages", place][..],
        &["catalog", "validate", place],
        &["resolve", "--catalog", place, "--package", "p"],
    ] {
        let output = olm(arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{arguments:?}: {}", text(&output));
        let all = format!("{}{errors}", text(&output));
        assert!(all.contains("has duplicate keys that differ only in case"), "{arguments:?}: {all}");
    }
}

/// Below the top of a document Go's decoder assigns both, the last for good. With the first, nothing would replace
/// version 1.0.0: the channel would have two heads, and no edge would lead to version 1.1.0.
#[test]
fn of_two_spellings_of_an_edge_the_last_counts_in_every_command() {
    let edges = json!({"Replaces": "p.v0.9.0", "replaces": "p.v1.0.0"});
    let text_of = catalog(&[("1.0.0", json!({}), json!([])), ("1.1.0", edges, json!([]))]);
    let catalog = folder(&text_of.replace("@sha256:", ":"));
    let place = path(catalog.path());
    let answer = |arguments: &[&str]| {
        let output = olm(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        text(&output)
    };
    assert_eq!(answer(&["catalog", "validate", place]), "valid: 1 package, 1 channel, 2 bundles\n");
    let channels = answer(&["catalog", "list", "channels", place]);
    assert!(channels.contains("p.v1.1.0") && !channels.contains("p.v1.0.0"), "{channels}");
    let resolved =
        answer(&["resolve", "--catalog", place, "--package", "p", "--installed", "p.v1.0.0=1.0.0"]);
    assert!(resolved.starts_with("bundle    p.v1.1.0\n"), "{resolved}");
}
