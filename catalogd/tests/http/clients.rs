//! Compressed answers read by the clients that people have: curl, Go, Python, and the fetch of a browser's
//! kind in Node. A client that is not on the machine is reported as skipped.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use crate::world::{World, digest};

/// A content of several segments, large enough for several reads.
fn world() -> (World, Vec<u8>) {
    let world = World::new();
    let mut documents = Vec::new();
    for package in 0..40 {
        documents.push(format!(r#"{{"schema":"olm.package","name":"p{package}"}}"#));
        documents.extend((0..50).map(|version| {
            let text = format!("bundle {version} of package {package} ").repeat(20);
            let name = format!("p{package}.v{version}");
            format!(r#"{{"schema":"olm.bundle","package":"p{package}","name":"{name}","text":"{text}"}}"#)
        }));
    }
    let content = documents.join("\n");
    world.install("c", '1', &content);
    world.compress("c");
    let plain = world.get("/catalogs/c/api/v1/all").body;
    (world, plain)
}

/// What a program printed; `None`, and reported, when it is not there.
fn output(program: &str, arguments: &[&str], folder: Option<&Path>) -> Option<Vec<u8>> {
    if Command::new(program)
        .arg("--help")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .stdin(Stdio::null())
        .status()
        .is_err()
    {
        olm_test_programs::data::skip(&format!("there is no {program} on this machine"));
        return None;
    }
    let mut command = Command::new(program);
    if let Some(folder) = folder {
        command.current_dir(folder);
    }
    let output = command.args(arguments).env("NO_PROXY", "*").env("GOTOOLCHAIN", "local").output().unwrap();
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    Some(output.stdout)
}

const QUERIES: [&str; 3] = [
    "/catalogs/c/api/v1/all",
    "/catalogs/c/api/v1/metas?package=p7",
    "/catalogs/c/api/v1/metas?schema=olm.bundle",
];

#[test]
fn curl_reads_them() {
    let (world, _) = world();
    for target in QUERIES {
        let url = world.url(target);
        let format = "%{stderr}%{size_download} %header{content-encoding}";
        let Some(body) = output("curl", &["-sSf", "--compressed", &url], None) else { return };
        assert_eq!(body, world.get(target).body, "{target}");
        let plain = output("curl", &["-sSf", &url], None).unwrap();
        assert_eq!(plain, body);
        let raw = output("curl", &["-sSf", "-H", "accept-encoding: gzip", "-w", format, &url], None).unwrap();
        assert!(raw.len() * 5 < plain.len() && raw.starts_with(&[0x1f, 0x8b]), "{target}");
    }
}

#[test]
fn go_reads_them() {
    let (world, _) = world();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/go-client");
    for target in QUERIES {
        let Some(body) = output("go", &["run", ".", &world.url(target)], Some(&folder)) else { return };
        assert_eq!(body, world.get(target).body, "{target}");
    }
}

#[test]
fn python_reads_them() {
    let (world, _) = world();
    let script = "
import sys, urllib.request, zlib
request = urllib.request.Request(sys.argv[1], headers={'Accept-Encoding': 'gzip'})
with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as answer:
    assert answer.headers['Content-Encoding'] == 'gzip', answer.headers
    decoder = zlib.decompressobj(16 + zlib.MAX_WBITS)
    body = decoder.decompress(answer.read())
    assert decoder.eof and not decoder.unused_data, 'more than one member'
    sys.stdout.buffer.write(body)
";
    for target in QUERIES {
        let Some(body) = output("python3", &["-c", script, &world.url(target)], None) else { return };
        assert_eq!(body, world.get(target).body, "{target}");
    }
}

#[test]
fn fetch_reads_them() {
    let (world, _) = world();
    let script = "
fetch(process.argv[1]).then(async answer => {
    if (answer.headers.get('content-encoding') !== 'gzip') throw new Error('not compressed');
    process.stdout.write(Buffer.from(await answer.arrayBuffer()));
}).catch(error => { console.error(error); process.exitCode = 1; });
";
    for target in QUERIES {
        let Some(body) = output("node", &["-e", script, &world.url(target)], None) else { return };
        assert_eq!(body, world.get(target).body, "{target}");
    }
}

#[test]
fn a_decoder_that_stops_at_the_first_member_reads_all() {
    let (world, plain) = world();
    let answer = world.ask("GET", "/catalogs/c/api/v1/all", &[("accept-encoding", "gzip")]);
    assert_eq!(answer.header("etag"), Some(format!("W/\"{}\"", digest('1')).as_str()));
    assert_eq!(answer.decoded(), plain);
}
