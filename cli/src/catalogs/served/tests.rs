use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    sync::{Arc, Mutex},
};

use flate2::{Compression, write::GzEncoder};

use super::*;

const DOCUMENTS: &str = r#"{"schema":"olm.package","name":"p","defaultChannel":"c"}
{"schema":"olm.channel","package":"p","name":"c","entries":[{"name":"p.v1"}]}
{"schema":"olm.package","name":"q","defaultChannel":"c"}
"#;

/// A server of catalogs: answers by path, and the requests it got.
struct Server {
    url: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn start(answer: impl Fn(&str) -> (u16, &'static str, Vec<u8>) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&asked);
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                let mut connection = connection.unwrap();
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    if connection.read(&mut byte).unwrap() == 0 {
                        break;
                    }
                    head.extend(byte);
                }
                let head = String::from_utf8(head).unwrap();
                let Some(path) = head.split(' ').nth(1) else { continue };
                seen.lock().unwrap().push(path.to_owned());
                let (status, headers, body) = answer(path);
                let length = body.len();
                let answer = format!(
                    "HTTP/1.1 {status} x\r\nconnection: close\r\n{headers}content-length: {length}\r\n\r\n"
                );
                connection.write_all(answer.as_bytes()).unwrap();
                connection.write_all(&body).unwrap();
            }
        });
        Self { url, asked }
    }

    fn catalog(&self) -> Served {
        // Another test may have installed it.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let registries = Registries::default();
        // No image, but a folder of the user, who has not named it: nothing is read in its place.
        let folder = env!("CARGO_MANIFEST_DIR").into();
        Served::new("c".into(), Way::Address(client, self.url.clone()), folder, registries)
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn compressed(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

async fn names(served: &Served, wanted: Wanted<'_>) -> anyhow::Result<Vec<String>> {
    let take = |names: &mut Vec<String>, meta: &Meta<'_>| {
        names.push(meta.envelope.name.clone().into_owned());
        Ok(())
    };
    served.fold(wanted, Vec::new(), take).await
}

#[test]
fn only_addresses_of_services_are_asked_through_the_api_server() {
    assert_eq!(
        behind_proxy("https://catalogd-service.olmv1-system.svc/catalogs/a").as_deref(),
        Some("/api/v1/namespaces/olmv1-system/services/https:catalogd-service:443/proxy/catalogs/a")
    );
    assert_eq!(
        behind_proxy("http://s.n.svc.cluster.local:8080/catalogs/a/").as_deref(),
        Some("/api/v1/namespaces/n/services/http:s:8080/proxy/catalogs/a")
    );
    for other in [
        "https://localhost:8443/catalogs/a",
        "https://a.example.com/x",
        "s.n.svc/x",
        "",
        "https://s.n.svc/catalogs/../../../../secrets",
        "https://s.N%2fpods.svc/x",
        "ftp://s.n.svc/x",
    ] {
        assert_eq!(behind_proxy(other), None, "{other}");
    }
}

#[tokio::test]
async fn a_package_is_asked_for_and_the_answer_may_be_compressed() {
    let server = Server::start(|path| {
        let text = if path.contains("schema=olm.package") { 0..1 } else { 1..2 };
        let text: Vec<&str> = DOCUMENTS.lines().skip(text.start).take(text.len()).collect();
        (200, "content-encoding: gzip\r\n", compressed(text[0]))
    });
    let content = server.catalog().package("p").await.unwrap();
    assert_eq!((content.packages.len(), content.channels[0].entries.len()), (1, 1));
    assert_eq!(server.asked(), ["/api/v1/metas?schema=olm.package&name=p", "/api/v1/metas?package=p"]);
}

#[tokio::test]
async fn a_package_name_stays_within_its_parameter() {
    let server = Server::start(|_| (200, "", Vec::new()));
    let content = server.catalog().package("p&schema=x/../y").await.unwrap();
    assert!(content.is_empty());
    assert_eq!(server.asked()[1], "/api/v1/metas?package=p%26schema%3Dx%2F%2E%2E%2Fy");
}

#[tokio::test]
async fn a_server_without_queries_is_asked_for_everything() {
    let server = Server::start(|path| {
        if path == "/api/v1/all" { (200, "", DOCUMENTS.into()) } else { (404, "", Vec::new()) }
    });
    let catalog = server.catalog();
    assert_eq!(names(&catalog, Wanted::Package("p")).await.unwrap(), ["p", "c"]);
    assert_eq!(names(&catalog, Wanted::All).await.unwrap(), ["p", "c", "q"]);
    assert_eq!(names(&catalog, Wanted::Packages).await.unwrap(), ["p", "q"]);
    assert_eq!(catalog.mentioning("p.v1").await.unwrap().len(), 1);
    let asked = server.asked().len();
    assert_eq!(names(&catalog, Wanted::Package("q")).await.unwrap(), ["q"]);
    assert_eq!(server.asked().len(), asked, "what was read as a whole is not asked for again");
}

#[tokio::test]
async fn the_api_servers_reason_is_in_the_error() {
    let status = r#"{"kind":"Status","message":"services \"s\" is forbidden: User \"bob\" cannot get"}"#;
    let server = Server::start(move |_| (403, "", status.into()));
    let error = format!("{:#}", names(&server.catalog(), Wanted::All).await.unwrap_err());
    assert!(
        error.contains("User \"bob\" cannot get") && error.contains("parsing image reference"),
        "{error}"
    );
}

#[test]
fn no_more_is_read_than_the_limit() {
    let mut reader = Limited { reader: &b"abcdef"[..], left: 4 };
    let mut text = String::new();
    let error = reader.read_to_string(&mut text).unwrap_err();
    assert!(error.to_string().contains("more than"), "{error}");
}

#[tokio::test]
async fn a_package_is_kept_up_to_its_limit() {
    let server = Server::start(|path| {
        let long = "x".repeat(1 << 20);
        let bundle = format!(r#"{{"schema":"olm.bundle","package":"p","name":"b","image":"{long}"}}"#);
        (200, "", if path.contains("schema=") { Vec::new() } else { vec![bundle; 5].join("\n").into() })
    });
    let error = server.catalog().package("p").await.unwrap_err().to_string();
    assert!(error.contains("the package has more than 4194304 bytes"), "{error}");
}
