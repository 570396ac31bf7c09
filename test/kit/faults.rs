//! A registry that misbehaves as told: it passes requests on to the real one and spoils the answers, by
//! repository. It has a thread of its own, so that tests of several runtimes can share it.

use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::{Mutex, MutexGuard, PoisonError},
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Response, StatusCode, header},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use futures::{StreamExt, stream};
use olm_runtime::{CertWatcher, ServerLimits, TlsProfile, listen, serve, server_config};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_util::sync::CancellationToken;

use crate::{pki::Identity, prelude::*};

/// Blobs up to this size are configs, which most faults leave alone.
const LAYER_BYTES_MIN: u64 = 4 << 10;

/// What goes wrong in a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Layers have a byte that is another.
    WrongBytes,
    /// Layers end in the middle; the connection breaks.
    CutOff,
    /// Layers come in this many pieces, with a pause before each.
    Slow(u64, Duration),
    /// Layers come byte by byte, with a pause before each.
    Drip(Duration),
    /// Layers never end.
    EndlessLayer,
    /// Manifests never end.
    EndlessManifest,
    /// Nothing is ever answered.
    Hang,
    /// Everything is answered with this status.
    Status(u16),
    /// Layers are elsewhere, at this origin.
    Redirect(String),
}

/// A request that came.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Method and path.
    pub request: String,
    /// Its `Authorization` header.
    pub authorization: Option<String>,
}

#[derive(Default)]
struct Rules {
    faults: BTreeMap<String, Fault>,
    /// Value of the `Authorization` header that a repository wants.
    logins: BTreeMap<String, String>,
    seen: Vec<Seen>,
}

struct Shared {
    upstream: String,
    client: reqwest::Client,
    rules: Mutex<Rules>,
}

/// A registry between the real one and who pulls. Dropped, it is gone.
pub struct FaultyRegistry {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: CancellationToken,
    _directory: StateDirectory,
}

impl FaultyRegistry {
    /// Starts one over the registry at the address `upstream` (`http://…`), on loopback, with TLS if it has an
    /// identity.
    pub fn start(upstream: &str, identity: Option<&Identity>) -> Result<Self> {
        crate::cluster::install_crypto_provider();
        let directory = StateDirectory::new("faulty-registry")?;
        let tls = match identity {
            None => None,
            Some(identity) => {
                let files = identity.write(directory.path(), "server")?;
                let watcher = CertWatcher::new(&files.certificate, &files.key)?;
                Some(server_config(watcher.serving(), &TlsProfile::default())?)
            }
        };
        let listener = listen("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            upstream: upstream.to_owned(),
            client: reqwest::Client::builder().no_proxy().build()?,
            rules: Mutex::default(),
        });
        let stop = CancellationToken::new();
        let router = Router::new().fallback(answer).with_state(Arc::clone(&shared));
        let stopped = stop.clone();
        in_own_thread(async move {
            // A test that needs it says what is missing when it ends.
            let _ = serve(listener, router, tls, ServerLimits::default(), stopped).await;
        })?;
        Ok(Self { address, shared, stop, _directory: directory })
    }

    /// Host and port.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Lets something go wrong in a repository, or nothing any more.
    pub fn set(&self, repository: &str, fault: Option<Fault>) {
        let mut rules = rules(&self.shared);
        match fault {
            Some(fault) => drop(rules.faults.insert(repository.to_owned(), fault)),
            None => drop(rules.faults.remove(repository)),
        }
    }

    /// Demands a login for a repository from now on.
    pub fn require(&self, repository: &str, user: &str, password: &str) {
        rules(&self.shared).logins.insert(repository.to_owned(), basic(user, password));
    }

    /// The requests for a repository so far.
    pub fn seen(&self, repository: &str) -> Vec<Seen> {
        let part = format!("/v2/{repository}/");
        rules(&self.shared).seen.iter().filter(|seen| seen.request.contains(&part)).cloned().collect()
    }
}

impl Drop for FaultyRegistry {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// The value of an `Authorization` header.
pub fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
}

fn rules(shared: &Shared) -> MutexGuard<'_, Rules> {
    shared.rules.lock().unwrap_or_else(PoisonError::into_inner)
}

fn in_own_thread(work: impl Future<Output = ()> + Send + 'static) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name("faults".to_owned()).spawn(move || runtime.block_on(work))?;
    Ok(())
}

async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Response<Body> {
    let path = request.uri().path().to_owned();
    let authorization =
        request.headers().get(header::AUTHORIZATION).and_then(|v| v.to_str().ok()).map(str::to_owned);
    let repository = path.strip_prefix("/v2/").and_then(|rest| {
        rest.split_once("/blobs/").or_else(|| rest.split_once("/manifests/")).map(|(name, _)| name.to_owned())
    });
    let (fault, login) = {
        let mut rules = rules(&shared);
        rules.seen.push(Seen {
            request: format!("{} {path}", request.method()),
            authorization: authorization.clone(),
        });
        let of = |repository: &String| {
            (rules.faults.get(repository).cloned(), rules.logins.get(repository).cloned())
        };
        repository.as_ref().map(of).unwrap_or_default()
    };
    if login.is_some() && login != authorization {
        let text = r#"{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}"#;
        let mut refused = plain(StatusCode::UNAUTHORIZED, text);
        refused
            .headers_mut()
            .insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"test\""));
        return refused;
    }
    if fault == Some(Fault::Hang) {
        return std::future::pending().await;
    }
    if let Some(Fault::Status(status)) = fault {
        return plain(StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), "");
    }
    match pass_on(&shared, request, fault, &path).await {
        Ok(response) => response,
        Err(error) => plain(StatusCode::BAD_GATEWAY, &format!("{error:#}")),
    }
}

async fn pass_on(
    shared: &Shared,
    request: Request,
    fault: Option<Fault>,
    path: &str,
) -> Result<Response<Body>> {
    let mut headers = HeaderMap::new();
    if let Some(accept) = request.headers().get(header::ACCEPT) {
        headers.insert(header::ACCEPT, accept.clone());
    }
    let url = format!("{}{path}", shared.upstream);
    let answer = shared.client.request(request.method().clone(), url).headers(headers).send().await?;
    let mut response = Response::builder().status(answer.status());
    for name in [header::CONTENT_TYPE, header::CONTENT_LENGTH] {
        if let Some(value) = answer.headers().get(&name) {
            response = response.header(name, value);
        }
    }
    if let Some(digest) = answer.headers().get("docker-content-digest") {
        response = response.header("docker-content-digest", digest);
    }
    let is_layer = path.contains("/blobs/") && answer.content_length().is_some_and(|n| n > LAYER_BYTES_MIN);
    let is_manifest = path.contains("/manifests/") && request.method() == http::Method::GET;
    let spoilt = match fault {
        Some(Fault::EndlessManifest) => is_manifest,
        Some(_) => is_layer,
        None => false,
    };
    if !spoilt {
        return Ok(response.body(Body::from_stream(answer.bytes_stream()))?);
    }
    spoil(fault, answer.bytes().await?, response, path)
}

/// The answer with these bytes as the fault has it.
fn spoil(
    fault: Option<Fault>,
    bytes: Bytes,
    response: http::response::Builder,
    path: &str,
) -> Result<Response<Body>> {
    match fault {
        Some(Fault::WrongBytes) => {
            let mut bytes = bytes.to_vec();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            Ok(response.body(Body::from(bytes))?)
        }
        Some(Fault::CutOff) => {
            let half = bytes.slice(..bytes.len() / 2);
            let broken = stream::iter([Ok(half), Err(std::io::Error::other("cut off"))]);
            Ok(response.body(Body::from_stream(broken))?)
        }
        Some(Fault::Slow(pieces, pause)) => {
            let size = bytes.len().div_ceil(usize::try_from(pieces)?).max(1);
            let pieces: Vec<Bytes> = (0..bytes.len())
                .step_by(size)
                .map(|at| bytes.slice(at..bytes.len().min(at + size)))
                .collect();
            let slow = stream::iter(pieces).then(move |piece| async move {
                tokio::time::sleep(pause).await;
                Ok::<_, Infallible>(piece)
            });
            Ok(response.body(Body::from_stream(slow))?)
        }
        Some(Fault::Drip(pause)) => {
            let drops = stream::iter(0..bytes.len()).then(move |at| {
                let drop = bytes.slice(at..=at);
                async move {
                    tokio::time::sleep(pause).await;
                    Ok::<_, Infallible>(drop)
                }
            });
            Ok(response.body(Body::from_stream(drops))?)
        }
        Some(Fault::EndlessLayer | Fault::EndlessManifest) => {
            let endless = stream::iter([bytes]).chain(stream::repeat(Bytes::from_static(&[b' '; 4096])));
            let mut response = Response::new(Body::from_stream(endless.map(Ok::<_, Infallible>)));
            if path.contains("/manifests/") {
                let kind = HeaderValue::from_static("application/vnd.oci.image.manifest.v1+json");
                response.headers_mut().insert(header::CONTENT_TYPE, kind);
            }
            Ok(response)
        }
        Some(Fault::Redirect(origin)) => {
            let mut elsewhere = plain(StatusCode::TEMPORARY_REDIRECT, "");
            elsewhere
                .headers_mut()
                .insert(header::LOCATION, HeaderValue::try_from(format!("{origin}{path}"))?);
            Ok(elsewhere)
        }
        Some(Fault::Hang | Fault::Status(_)) | None => Ok(response.body(Body::from(bytes))?),
    }
}

fn plain(status: StatusCode, text: &str) -> Response<Body> {
    let mut response = Response::new(Body::from(text.to_owned()));
    *response.status_mut() = status;
    response
}

/// A proxy: whatever host is asked for, it connects to that port on loopback, or where the host is led. Who reaches a
/// made-up host has gone through it.
pub struct ConnectProxy {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
    led: Arc<Mutex<BTreeMap<String, String>>>,
}

impl ConnectProxy {
    /// Starts one; it ends with the process.
    pub fn start() -> Result<Self> {
        let listener = listen("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let asked = Arc::new(Mutex::new(Vec::new()));
        let led = Arc::<Mutex<BTreeMap<String, String>>>::default();
        let (log, leads) = (Arc::clone(&asked), Arc::clone(&led));
        in_own_thread(async move {
            let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
            while let Ok((connection, _)) = listener.accept().await {
                let leads = Arc::clone(&leads);
                let to = move |target: &str| {
                    leads.lock().unwrap_or_else(PoisonError::into_inner).get(target).cloned()
                };
                // A tunnel that breaks is the client's to report.
                drop(tokio::spawn(tunnel(connection, Arc::clone(&log), to)));
            }
        })?;
        Ok(Self { address, asked, led })
    }

    /// Leads a host, with port, to an address from now on.
    pub fn lead(&self, host: &str, address: &str) {
        let mut led = self.led.lock().unwrap_or_else(PoisonError::into_inner);
        led.insert(host.to_owned(), address.to_owned());
    }

    /// Its address, for `HTTPS_PROXY`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The hosts (with port) that were asked for.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn tunnel(
    mut client: tokio::net::TcpStream,
    log: Arc<Mutex<Vec<String>>>,
    to: impl Fn(&str) -> Option<String>,
) -> Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && head.len() < 8192 {
        head.push(client.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let target =
        head.strip_prefix("CONNECT ").and_then(|rest| rest.split(' ').next()).context("no CONNECT")?;
    log.lock().unwrap_or_else(PoisonError::into_inner).push(target.to_owned());
    let (_, port) = target.rsplit_once(':').context("no port")?;
    let address = to(target).unwrap_or_else(|| format!("127.0.0.1:{port}"));
    let mut server = tokio::net::TcpStream::connect(address).await?;
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
    tokio::io::copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}
