//! A registry that keeps everything in memory and does what a test tells it, right or wrong.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Request, State},
    http::{HeaderMap, Method, StatusCode, header},
    response::{IntoResponse, Response},
};
use axum_server::tls_rustls::RustlsConfig;
use olm_image::{
    Digest, Keyring, LeastSpeed, PackedImage, Puller, PullerConfig, Reference, SharedKeyring, Timeouts,
};

/// What a registry answers instead of the right thing; `None` goes on normally.
pub(crate) type Interfere = Box<dyn Fn(&Seen) -> Option<Response> + Send + Sync>;

/// A request as the registry saw it.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) authorization: Option<String>,
    /// How many requests for this path and method came before.
    pub(crate) earlier: usize,
}

#[derive(Default)]
struct Store {
    blobs: BTreeMap<String, Bytes>,
    /// By digest, and by tag.
    manifests: BTreeMap<String, (String, Bytes)>,
    seen: Vec<Seen>,
}

struct Shared {
    store: Mutex<Store>,
    interfere: Mutex<Option<Interfere>>,
}

/// A running registry; ends with its handle.
pub(crate) struct FakeRegistry {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
    _task: tokio::task::JoinHandle<()>,
    folder: tempfile::TempDir,
}

impl FakeRegistry {
    pub(crate) async fn start() -> Self {
        Self::start_at("127.0.0.1:0", None).await
    }

    /// With TLS where there is a certificate and its key, in PEM.
    pub(crate) async fn start_at(address: &str, tls: Option<(String, String)>) -> Self {
        // The first test of the process installs it; the others find it installed.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let shared = Arc::new(Shared { store: Mutex::default(), interfere: Mutex::default() });
        let router = Router::new().fallback(handle).with_state(Arc::clone(&shared));
        let listener = std::net::TcpListener::bind(address).expect("a port");
        listener.set_nonblocking(true).expect("non-blocking");
        let address = listener.local_addr().expect("an address");
        let task = if let Some((certificate, key)) = tls {
            let config =
                RustlsConfig::from_pem(certificate.into_bytes(), key.into_bytes()).await.expect("valid");
            let server = axum_server::from_tcp_rustls(listener, config).expect("listens");
            tokio::spawn(async move { server.serve(router.into_make_service()).await.expect("serves") })
        } else {
            let listener = tokio::net::TcpListener::from_std(listener).expect("listens");
            tokio::spawn(async move { axum::serve(listener, router).await.expect("serves") })
        };
        let folder = tempfile::tempdir().expect("a folder");
        Self { address, shared, _task: task, folder }
    }

    pub(crate) fn interfere(&self, with: impl Fn(&Seen) -> Option<Response> + Send + Sync + 'static) {
        *self.shared.interfere.lock().expect("not poisoned") = Some(Box::new(with));
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.shared.store.lock().expect("not poisoned").seen.clone()
    }

    pub(crate) fn reference(&self, rest: &str) -> Reference {
        Reference::parse(&format!("{}/{rest}", self.address)).expect("a reference")
    }

    /// Stores an image without going through HTTP.
    pub(crate) fn put(&self, tag: &str, image: &PackedImage) {
        let mut store = self.shared.store.lock().expect("not poisoned");
        for (digest, bytes) in image.blobs() {
            store.blobs.insert(digest.to_string(), bytes.clone());
        }
        let manifest = ("application/vnd.oci.image.manifest.v1+json".to_owned(), image.manifest().clone());
        store.manifests.insert(image.digest().to_string(), manifest.clone());
        store.manifests.insert(tag.to_owned(), manifest);
    }

    pub(crate) fn put_manifest(&self, tag: &str, media_type: &str, bytes: impl Into<Bytes>) -> Digest {
        let bytes = bytes.into();
        let digest = Digest::of(&bytes);
        let mut store = self.shared.store.lock().expect("not poisoned");
        store.manifests.insert(digest.to_string(), (media_type.to_owned(), bytes.clone()));
        store.manifests.insert(tag.to_owned(), (media_type.to_owned(), bytes));
        digest
    }

    /// Settings for pulling over plain HTTP with short waits.
    pub(crate) fn config(&self) -> PullerConfig {
        let insecure = format!("[[registry]]\nlocation = \"{}\"\ninsecure = true\n", self.address);
        PullerConfig {
            registries_conf: Some(self.registries_conf(&insecure)),
            timeouts: Timeouts {
                connect: Duration::from_secs(5),
                read: Duration::from_secs(10),
                answer: Duration::from_secs(20),
                least_speed: LeastSpeed::default(),
                total: Duration::from_mins(1),
                retries: 2,
                backoff: Duration::from_millis(1),
                backoff_max: Duration::from_millis(20),
            },
            ..PullerConfig::new(self.folder.path())
        }
    }

    pub(crate) fn registries_conf(&self, text: &str) -> PathBuf {
        let path = self.folder.path().join("registries.conf");
        std::fs::write(&path, text).expect("written");
        path
    }

    pub(crate) fn puller(&self) -> Puller {
        Puller::new(self.config())
    }

    pub(crate) fn puller_with_password(&self, user: &str, password: &str) -> Puller {
        Puller::new(PullerConfig { keyring: self.password(user, password), ..self.config() })
    }

    pub(crate) fn password(&self, user: &str, password: &str) -> SharedKeyring {
        let keyring = SharedKeyring::default();
        let json = serde_json::json!({"auths": {self.address.to_string(): {"username": user, "password": password}}});
        keyring.set(Keyring::from_docker_config(json.to_string().as_bytes()).expect("valid"));
        keyring
    }
}

pub(crate) fn status(status: StatusCode, body: impl Into<Body>) -> Response {
    (status, body.into()).into_response()
}

async fn handle(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let bytes = axum::body::to_bytes(body, usize::MAX).await.expect("a body");
    let seen = {
        let mut store = shared.store.lock().expect("not poisoned");
        let path = parts.uri.path().to_owned();
        let earlier =
            store.seen.iter().filter(|seen| seen.path == path && seen.method == parts.method).count();
        let seen = Seen {
            method: parts.method,
            path,
            query: parts.uri.query().unwrap_or_default().to_owned(),
            authorization: authorization(&parts.headers),
            earlier,
        };
        store.seen.push(seen.clone());
        seen
    };
    let answer = shared.interfere.lock().expect("not poisoned").as_ref().and_then(|with| with(&seen));
    match answer {
        Some(answer) => answer,
        None => serve(&mut shared.store.lock().expect("not poisoned"), &seen, &parts.headers, bytes),
    }
}

fn authorization(headers: &HeaderMap) -> Option<String> {
    headers.get(header::AUTHORIZATION).map(|value| value.to_str().expect("text").to_owned())
}

fn serve(store: &mut Store, seen: &Seen, headers: &HeaderMap, bytes: Bytes) -> Response {
    if seen.path == "/v2/" {
        return StatusCode::OK.into_response();
    }
    let unknown = |code: &str| {
        let message = code.to_lowercase().replace('_', " ");
        let body = serde_json::json!({"errors": [{"code": code, "message": message}]});
        status(StatusCode::NOT_FOUND, body.to_string())
    };
    if let Some((_, name)) = seen.path.rsplit_once("/manifests/") {
        if seen.method == Method::PUT {
            let media_type = headers[header::CONTENT_TYPE].to_str().expect("text").to_owned();
            store.manifests.insert(Digest::of(&bytes).to_string(), (media_type.clone(), bytes.clone()));
            store.manifests.insert(name.to_owned(), (media_type, bytes));
            return StatusCode::CREATED.into_response();
        }
        let Some((media_type, bytes)) = store.manifests.get(name) else { return unknown("MANIFEST_UNKNOWN") };
        let digest = Digest::of(bytes).to_string();
        let headers =
            [(header::CONTENT_TYPE.as_str(), media_type.as_str()), ("docker-content-digest", &digest)];
        return (headers, bytes.clone()).into_response();
    }
    if seen.path.ends_with("/blobs/uploads/") {
        let location = format!("{}some-id?state=x", seen.path);
        return (StatusCode::ACCEPTED, [(header::LOCATION, location)]).into_response();
    }
    if let Some(digest) = seen.query.strip_prefix("state=x&digest=") {
        assert_eq!(Digest::of(&bytes).to_string(), digest.replace("%3A", ":"));
        store.blobs.insert(Digest::of(&bytes).to_string(), bytes);
        return StatusCode::CREATED.into_response();
    }
    match seen.path.rsplit_once("/blobs/").and_then(|(_, digest)| store.blobs.get(digest)) {
        Some(bytes) => bytes.clone().into_response(),
        None => unknown("BLOB_UNKNOWN"),
    }
}
