//! An OCI registry for tests and the demo: plain HTTP or HTTPS, its content in memory.
//!
//! Serves the distribution API as far as clients use it: blobs in one request or in chunks, manifests, tags with
//! pages, deletion, digests that are checked. Anybody may read and write. A thread of its own serves it, so that it
//! belongs to no async runtime and tests without one can use it too.

mod api;
mod memory;
mod store;

use std::{
    io,
    net::{SocketAddr, TcpListener},
    sync::{Arc, Mutex, PoisonError},
    thread::{self, JoinHandle},
};

use axum::{Router, body::Bytes};
use axum_server::tls_rustls::RustlsConfig;
use tokio::sync::oneshot;

pub use memory::MemoryRegistry;
use store::{Manifest, Store, digest};

/// The media type of an image's manifest.
pub const IMAGE_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// A registry. Dropped, it is gone with its content.
pub struct Registry {
    address: SocketAddr,
    tls: Option<Tls>,
    store: Arc<Mutex<Store>>,
    server: Mutex<Option<Server>>,
}

/// A certificate and its key, as PEM.
#[derive(Clone, Debug)]
pub struct Tls {
    /// The certificate.
    pub certificate: String,
    /// The private key.
    pub key: String,
}

impl Registry {
    /// Starts an empty registry on loopback.
    pub fn start() -> io::Result<Self> {
        Self::start_on("127.0.0.1", None)
    }

    /// Starts an empty registry on an address of this machine, with HTTPS when there is a certificate.
    pub fn start_on(host: &str, tls: Option<Tls>) -> io::Result<Self> {
        let listener = TcpListener::bind((host, 0))?;
        let address = listener.local_addr()?;
        let store = Arc::default();
        let server = Server::start(listener, tls.clone(), &store)?;
        Ok(Self { address, tls, store, server: Mutex::new(Some(server)) })
    }

    /// Host and port, with which image references begin.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// The address of its API.
    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// Stops it: open connections end and new ones are refused when this returns.
    pub fn stop(&self) {
        drop(self.server.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Starts it again, at the same address with the same content.
    pub fn start_again(&self) -> io::Result<()> {
        self.stop();
        let server = Server::start(TcpListener::bind(self.address)?, self.tls.clone(), &self.store)?;
        *self.server.lock().unwrap_or_else(PoisonError::into_inner) = Some(server);
        Ok(())
    }

    /// Stores an image as `<repository>:<tag>`, without HTTP. Answers the manifest's digest.
    pub fn put(&self, repository: &str, tag: &str, manifest: Bytes, blobs: Vec<Bytes>) -> String {
        let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        for blob in blobs {
            store.repository(repository).blobs.insert(digest(&blob), blob);
        }
        let manifest = Manifest { media_type: IMAGE_MANIFEST.to_owned(), bytes: manifest };
        store.repository(repository).put(tag, manifest)
    }
}

/// The thread that serves.
struct Server {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    fn start(listener: TcpListener, tls: Option<Tls>, store: &Arc<Mutex<Store>>) -> io::Result<Self> {
        // An error means that a provider is installed already.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        listener.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let service = Router::new().fallback(api::answer).with_state(Arc::clone(store)).into_make_service();
        let (stop, stopped) = oneshot::channel();
        let thread = thread::Builder::new().name("registry".to_owned()).spawn(move || {
            runtime.block_on(async {
                let serve = async {
                    let Some(Tls { certificate, key }) = tls else {
                        return axum_server::from_tcp(listener)?.serve(service).await;
                    };
                    let config = RustlsConfig::from_pem(certificate.into(), key.into()).await?;
                    axum_server::from_tcp_rustls(listener, config)?.serve(service).await
                };
                tokio::select! {
                    served = serve => served.expect("the registry serves"),
                    _ = stopped => {}
                }
            });
            // The runtime ends here, and every connection with it.
        })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // An error of either means that the thread has ended already.
        let _ = self.stop.take().map(|stop| stop.send(()));
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
