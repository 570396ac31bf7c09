//! A content server on loopback, and a client that hides nothing.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::{Arc, Mutex},
    time::Duration,
};

use catalogd::{CatalogFiles, CatalogStore, Config, ContentServer, Generation};
use flate2::read::GzDecoder;
use olm_runtime::{ServerLimits, listen, serve};
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

/// For whatever should happen by itself.
pub(crate) const DEADLINE: Duration = Duration::from_mins(2);
/// When the content of these tests was unpacked, in seconds and as a header.
pub(crate) const UNPACKED_AT: i64 = 1_000;
pub(crate) const UNPACKED: &str = "Thu, 01 Jan 1970 00:16:40 GMT";

/// A store that is served.
pub(crate) struct World {
    pub(crate) store: Arc<CatalogStore>,
    pub(crate) folder: tempfile::TempDir,
    pub(crate) address: SocketAddr,
    registry: Arc<Mutex<Registry>>,
    shutdown: CancellationToken,
    runtime: Option<tokio::runtime::Runtime>,
}

/// Files in memory.
pub(crate) struct Files(pub(crate) BTreeMap<String, Vec<u8>>);

impl CatalogFiles for Files {
    fn paths(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    fn open<'a>(&'a self, path: &str) -> std::io::Result<Box<dyn Read + Send + 'a>> {
        Ok(Box::new(self.0[path].as_slice()))
    }
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(&Config { graphql: true, ..Config::default() }, false)
    }

    /// With these endpoints, and compression in the background if wanted.
    pub(crate) fn with(config: &Config, compresses: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(CatalogStore::open(folder.path()).unwrap());
        let mut registry = Registry::default();
        let server = ContentServer::new(Arc::clone(&store), config, &mut registry);
        let listener = listen("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (router, stop) = (server.router(), shutdown.clone());
        runtime.spawn(async move {
            serve(listener, router, None, ServerLimits::default(), stop).await.unwrap();
        });
        if compresses {
            let stop = shutdown.clone();
            runtime.spawn(async move { server.run(stop).await });
        }
        let registry = Arc::new(Mutex::new(registry));
        Self { store, folder, address, registry, shutdown, runtime: Some(runtime) }
    }

    /// Serves a catalog of one file.
    pub(crate) fn install(&self, catalog: &str, digest: char, content: &str) -> Arc<Generation> {
        let files = Files(BTreeMap::from([("catalog.json".into(), content.as_bytes().to_vec())]));
        let at = jiff::Timestamp::from_second(UNPACKED_AT).unwrap();
        self.store.install(catalog, &reference(digest), at, &files).unwrap()
    }

    /// Makes the compressed form now.
    pub(crate) fn compress(&self, catalog: &str) {
        assert!(self.store.compress(catalog, &|| false).unwrap());
    }

    pub(crate) fn url(&self, target: &str) -> String {
        format!("http://{}{target}", self.address)
    }

    pub(crate) fn get(&self, target: &str) -> Answer {
        self.ask("GET", target, &[])
    }

    pub(crate) fn ask(&self, method: &str, target: &str, headers: &[(&str, &str)]) -> Answer {
        ask(self.address, method, target, headers, "")
    }

    /// The metrics as they are exposed.
    pub(crate) fn metrics(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry.lock().unwrap()).unwrap();
        text
    }

    pub(crate) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.as_ref().unwrap().block_on(future)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.shutdown.cancel();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(DEADLINE);
        }
    }
}

/// A digest reference.
pub(crate) fn reference(digest: char) -> String {
    format!("quay.io/a/b@{}", self::digest(digest))
}

pub(crate) fn digest(digest: char) -> String {
    format!("sha256:{}", digest.to_string().repeat(64))
}

/// An answer, as it came.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_str());
        let first = found.next();
        assert!(found.next().is_none(), "{name} twice");
        first
    }

    pub(crate) fn text(&self) -> &str {
        str::from_utf8(&self.body).unwrap()
    }

    /// The body without its encoding, by a decoder that knows one member only.
    pub(crate) fn decoded(&self) -> Vec<u8> {
        match self.header("content-encoding") {
            None => self.body.clone(),
            Some("gzip") => {
                let mut text = Vec::new();
                let mut decoder = GzDecoder::new(self.body.as_slice());
                decoder.read_to_end(&mut text).unwrap();
                assert!(decoder.into_inner().is_empty(), "one member and nothing behind it");
                text
            }
            Some(other) => panic!("encoding {other}"),
        }
    }
}

/// One request on a connection of its own.
pub(crate) fn ask(
    address: SocketAddr,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Answer {
    let headers: String = headers.iter().flat_map(|(name, value)| [*name, ": ", *value, "\r\n"]).collect();
    let length = if body.is_empty() { String::new() } else { format!("content-length: {}\r\n", body.len()) };
    let request =
        format!("{method} {target} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{headers}{length}");
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.write_all(format!("{request}\r\n{body}").as_bytes()).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    parse(method, &bytes)
}

fn parse(method: &str, bytes: &[u8]) -> Answer {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").expect("a head");
    let head = str::from_utf8(&bytes[..end]).unwrap();
    let body = bytes[end + 4..].to_vec();
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap().strip_prefix("HTTP/1.1 ").expect("HTTP/1.1");
    let status = status.split(' ').next().unwrap().parse().unwrap();
    let headers: Vec<(String, String)> = lines
        .map(|line| line.split_once(": ").unwrap())
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let answer = Answer { status, headers, body };
    assert_eq!(answer.header("transfer-encoding"), None, "lengths are always known");
    assert_eq!(answer.header("vary"), Some("Accept-Encoding"));
    let length = answer.header("content-length").map(|length| length.parse::<usize>().unwrap());
    if method == "HEAD" || status == 304 {
        assert!(answer.body.is_empty());
    } else {
        assert_eq!(length, Some(answer.body.len()));
    }
    answer
}
