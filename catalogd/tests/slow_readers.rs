//! Clients that ask for much and read nothing, and the others beside them. A program of its own, so that its memory
//! is the server's.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a helper of a test fails, and prints, like the test itself"
)]

use std::{
    collections::BTreeMap,
    io::Read,
    net::{IpAddr, SocketAddr},
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use catalogd::{
    CatalogDirectory, CatalogFiles, CatalogReader as _, CatalogStore, Config, ContentServer, HttpReader,
    RemoteCatalog,
};
use olm_image::DiskBudget;
use olm_runtime::{ServerLimits, SystemClock, TlsProfile, listen, self_signed, serve, server_config};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpSocket,
    time::timeout,
};
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;

const REFERENCE: &str = "quay.io/a/b@sha256:1111111111111111111111111111111111111111111111111111111111111111";
/// For whatever should happen by itself.
const DEADLINE: Duration = Duration::from_mins(2);
/// What the server may take beside what it takes when it is idle, in bytes; with TLS the clients' sessions, which are in
/// the same process, are counted as well.
const MEMORY_MAX: u64 = 60 << 20;

/// What the catalog has at least.
const CATALOG_BYTES: u64 = 30_000_000;

struct Files(BTreeMap<String, Vec<u8>>);

impl CatalogFiles for Files {
    fn paths(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    fn open<'a>(&'a self, path: &str) -> std::io::Result<Box<dyn Read + Send + 'a>> {
        Ok(Box::new(self.0[path].as_slice()))
    }
}

/// A server, and how it is spoken to.
#[derive(Clone)]
struct Server {
    address: SocketAddr,
    tls: Option<TlsConnector>,
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// A split operator-controller's view of the catalogs.
struct Directory(String);

impl CatalogDirectory for Directory {
    fn find(&self, _: &str) -> Option<RemoteCatalog> {
        let base_url = format!("{}/catalogs/c", self.0);
        Some(RemoteCatalog { base_url, reference: REFERENCE.to_owned() })
    }
}

/// A reader of what is served below `base`, which trusts `root`.
fn reader(base: String, root: reqwest::Certificate, cache: &Path) -> HttpReader {
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([root]).build().unwrap();
    let (directory, clock) = (Arc::new(Directory(base)), Arc::new(SystemClock));
    let reader = HttpReader::new(directory, clock, cache, DiskBudget::default()).unwrap();
    reader.set_client(Ok(client));
    reader
}

/// A catalog of 30 MB.
fn catalog() -> Files {
    let text = "x".repeat(100_000);
    let mut lines = String::from("{\"schema\":\"olm.package\",\"name\":\"p\",\"defaultChannel\":\"a\"}\n");
    lines.push_str(
        "{\"schema\":\"olm.channel\",\"package\":\"p\",\"name\":\"a\",\"entries\":[{\"name\":\"p.v0\"}]}\n",
    );
    for number in 0..300 {
        let document = serde_json::json!({"schema": "other", "name": number.to_string(), "text": text});
        lines.push_str(&document.to_string());
        lines.push('\n');
    }
    Files(BTreeMap::from([("c.json".to_owned(), lines.into_bytes())]))
}

async fn ask(server: &Server, from: IpAddr, path: &str) -> Box<dyn Stream> {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.bind((from, 0).into()).unwrap();
    let plain = socket.connect(server.address).await.unwrap();
    let mut stream: Box<dyn Stream> = match &server.tls {
        None => Box::new(plain),
        Some(tls) => {
            let name = ServerName::try_from("localhost").unwrap();
            Box::new(tls.connect(name, plain).await.unwrap())
        }
    };
    let request = format!("GET /catalogs/c/api/v1/{path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// The status of a small answer, and how long it took.
async fn served(server: &Server, from: IpAddr) -> (String, Duration) {
    let started = Instant::now();
    let mut answer = Vec::new();
    let mut stream = ask(server, from, "metas?schema=olm.package").await;
    timeout(DEADLINE, stream.read_to_end(&mut answer)).await.unwrap().unwrap();
    let status = String::from_utf8_lossy(&answer).chars().skip("HTTP/1.1 ".len()).take(3).collect();
    (status, started.elapsed())
}

/// A field of the process' status, in bytes.
fn status(field: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

/// One after the other: the memory is that of the process.
#[tokio::test(flavor = "multi_thread")]
async fn clients_that_do_not_read_shut_out_nobody_and_take_little_memory() {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    silent_clients(true).await;
    silent_clients(false).await;
}

async fn silent_clients(with_tls: bool) {
    println!("{}", if with_tls { "with TLS" } else { "without TLS" });
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(CatalogStore::open(folder.path()).unwrap());
    store.install("c", REFERENCE, jiff::Timestamp::UNIX_EPOCH, &catalog()).unwrap();
    let listener = listen("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let made = self_signed(&["localhost".to_owned()]).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(made.ca_pem.as_bytes()).unwrap()).unwrap();
    let tls = with_tls.then(|| {
        let client = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        TlsConnector::from(Arc::new(client))
    });
    let config = with_tls.then(|| server_config(made.serving, &TlsProfile::default()).unwrap());
    let server = &Server { address, tls };
    // Ten times as fast as in earnest: an answer that is not read ends after 3 s.
    let limits = ServerLimits { speed_window: Duration::from_millis(300), ..ServerLimits::default() };
    let stop = CancellationToken::new();
    let content = ContentServer::unmeasured(store, &Config::default());
    let serving = tokio::spawn(serve(listener, content.router(), config, limits, stop.clone()));
    let address = |last: u8| IpAddr::from([127, 0, 0, last]);
    assert_eq!(served(server, address(1)).await.0, "200");
    let before = status("VmRSS:");
    std::fs::write("/proc/self/clear_refs", "5").unwrap();

    let mut silent = Vec::new();
    for _ in 0..140 {
        silent.push(ask(server, address(2), "all").await);
    }
    let (code, time) = served(server, address(1)).await;
    println!("another client: {code} after {time:?}");
    assert!(code == "200" && time < Duration::from_secs(2), "{code} {time:?}");

    let scheme = if with_tls { "https://localhost" } else { "http://127.0.0.1" };
    let base = format!("{scheme}:{}", server.address.port());
    let cache = tempfile::tempdir().unwrap();
    let root = reqwest::Certificate::from_pem(made.ca_pem.as_bytes()).unwrap();
    let reader = reader(base, root, cache.path());
    let content = timeout(DEADLINE, reader.package("c", "p")).await.unwrap().unwrap();
    assert_eq!(content.channels[0].name, "a", "a split controller fetches the whole catalog");

    // Behind one Service all clients have one address.
    let (code, time) = served(server, address(2)).await;
    println!("another client of the same address: {code} after {time:?}");
    assert_eq!(code, "200", "after {time:?}");

    // From many addresses there is no place left until those who do not read are broken off.
    for last in 3..30 {
        for _ in 0..8 {
            silent.push(ask(server, address(last), "all").await);
        }
    }
    let (code, time) = served(server, address(1)).await;
    println!("another client beside many addresses: {code} after {time:?}");
    assert_eq!(code, "200", "after {time:?}");
    let peak = status("VmHWM:").saturating_sub(before);
    println!("{} connections that do not read: {} KiB more than before", silent.len(), peak >> 10);
    assert!(peak < MEMORY_MAX, "{peak} bytes");

    // Who waited was served in place of some who did not read: of their answers, only what the kernel took arrives.
    let mut broken_off = 0;
    for mut stream in silent {
        let mut bytes = 0;
        let mut buffer = vec![0; 64 << 10];
        loop {
            match timeout(DEADLINE, stream.read(&mut buffer)).await.unwrap() {
                Ok(read) if read > 0 => bytes += read as u64,
                _ => break,
            }
        }
        broken_off += usize::from(bytes < CATALOG_BYTES);
    }
    println!("{broken_off} broken off");
    assert!(broken_off > 44, "{broken_off}");
    stop.cancel();
    timeout(DEADLINE, serving).await.unwrap().unwrap().unwrap();
}
