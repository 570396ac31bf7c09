//! Certificates of servers: read from files and read again when they change, or made here.
//!
//! Files are polled, not watched: Kubernetes replaces them by swapping a symbolic link, which a watch on the
//! file misses. A pair that does not parse or does not belong together leaves the last good one in use.

mod profile;
mod serving_secret;

use std::{
    io::Read,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use arc_swap::ArcSwap;
use jiff::Timestamp;
use olm_certs::{IssueError, Issued, Unusable, Wanted, certified_key, issue};
use rustls::{
    ServerConfig,
    server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier, danger::ClientCertVerifier},
    sign::CertifiedKey,
};
use sha2::{Digest, Sha256};
use thiserror::Error;
use tokio_util::sync::CancellationToken;

use crate::metrics::CertificateReads;

pub use profile::{TlsProfile, TlsProfileError};
pub use serving_secret::ServingSecret;

/// How often files are looked at.
const POLL: Duration = Duration::from_secs(10);
/// Largest file; a chain with its key has some 10 kB.
const PEM_BYTES_MAX: u64 = 1 << 20;
/// Life of a certificate that is held in memory only. It is made anew with each process.
const SELF_SIGNED_LIFE: Duration = Duration::from_hours(365 * 24);

/// Why there is no certificate, or none to serve with: a sentence without key material.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct TlsError(String);

impl From<IssueError> for TlsError {
    fn from(error: IssueError) -> Self {
        Self(error.to_string())
    }
}

impl From<Unusable> for TlsError {
    fn from(error: Unusable) -> Self {
        Self(format!("TLS configuration: {error}"))
    }
}

/// The certificate that new connections get.
#[derive(Debug)]
pub struct ServingCert(ArcSwap<CertifiedKey>);

impl ServingCert {
    fn replace(&self, certified: CertifiedKey) {
        self.0.store(Arc::new(certified));
    }
}

impl ResolvesServerCert for ServingCert {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.load_full())
    }
}

/// Where a serving certificate comes from.
pub enum Certificate {
    /// Files that another program renews.
    Files(CertWatcher),
    /// A Secret that this program renews.
    Kept(Box<ServingSecret>),
}

impl Certificate {
    /// What connections are answered with.
    pub fn serving(&self) -> Arc<ServingCert> {
        match self {
            Self::Files(watcher) => watcher.serving(),
            Self::Kept(secret) => secret.serving(),
        }
    }

    /// Follows changes until `shutdown`.
    pub async fn run(self, shutdown: CancellationToken) {
        match self {
            Self::Files(watcher) => watcher.run(shutdown).await,
            Self::Kept(secret) => Box::pin(secret.run(shutdown)).await,
        }
    }
}

/// A pair of files, read again when they change.
pub struct CertWatcher {
    cert: PathBuf,
    key: PathBuf,
    digest: [u8; 32],
    serving: Arc<ServingCert>,
    reads: CertificateReads,
}

impl CertWatcher {
    /// Reads the files (PEM; the certificate with its chain).
    ///
    /// # Errors
    /// A file cannot be read, or they do not belong together.
    pub fn new(cert: &Path, key: &Path) -> Result<Self, TlsError> {
        let (digest, certified) = load(cert, key)?;
        let serving = Arc::new(ServingCert(ArcSwap::from_pointee(certified)));
        let reads = CertificateReads::default();
        Ok(Self { cert: cert.to_owned(), key: key.to_owned(), digest, serving, reads })
    }

    /// Counts there how often the files are read, the first time included.
    #[must_use]
    pub fn counted(mut self, reads: CertificateReads) -> Self {
        self.reads = reads;
        self.reads.read(true);
        self
    }

    /// What connections are answered with.
    pub fn serving(&self) -> Arc<ServingCert> {
        Arc::clone(&self.serving)
    }

    /// Looks at the files every ten seconds until `shutdown`.
    pub async fn run(mut self, shutdown: CancellationToken) {
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(POLL) => {}
            }
            match self.look() {
                Ok(false) => {}
                Ok(true) => tracing::info!(cert = %self.cert.display(), "serving certificate replaced"),
                Err(error) => tracing::warn!(%error, "serving certificate not replaced, the old one stays"),
            }
        }
    }

    /// Reads the files once; answers whether they had changed.
    fn look(&mut self) -> Result<bool, TlsError> {
        let loaded = load(&self.cert, &self.key);
        self.reads.read(loaded.is_ok());
        let (digest, certified) = loaded?;
        let changed = digest != self.digest;
        if changed {
            self.digest = digest;
            self.serving.replace(certified);
        }
        Ok(changed)
    }
}

fn load(cert: &Path, key: &Path) -> Result<([u8; 32], CertifiedKey), TlsError> {
    let (cert_pem, key_pem) = (read(cert)?, read(key)?);
    let mut hash = Sha256::new();
    hash.update((cert_pem.len() as u64).to_le_bytes());
    hash.update(&cert_pem);
    hash.update(&key_pem);
    let certified = certified_key(&cert_pem, &key_pem).map_err(|error| {
        TlsError(format!("certificate {} and key {}: {error}", cert.display(), key.display()))
    })?;
    Ok((hash.finalize().into(), certified))
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(PEM_BYTES_MAX).read_to_end(&mut bytes))
        .map_err(|error| TlsError(format!("open {}: {error}", path.display())))?;
    Ok(bytes)
}

/// A certificate made here, and what clients have to trust.
pub struct SelfSigned {
    /// What connections are answered with.
    pub serving: Arc<ServingCert>,
    /// The certificate's authority as PEM.
    pub ca_pem: String,
}

/// Makes an ECDSA certificate for `names` (host names and IP addresses), held in memory only.
///
/// # Errors
/// A name is none.
pub fn self_signed(names: &[String]) -> Result<SelfSigned, TlsError> {
    let common_name = common_name(names);
    let wanted = Wanted { common_name, names, lifetime: SELF_SIGNED_LIFE, settle_max: Duration::ZERO };
    let Issued { pair, authority } = issue(&wanted, Timestamp::now())?;
    let certified = certified_key(pair.certificate.as_bytes(), pair.key.as_bytes())?;
    Ok(SelfSigned { serving: Arc::new(ServingCert(ArcSwap::from_pointee(certified))), ca_pem: authority })
}

fn common_name(names: &[String]) -> &str {
    names.first().map_or("server", String::as_str)
}

/// The configuration of a server: HTTP/1.1 only, versions and algorithms of `profile`.
///
/// # Errors
/// The profile leaves no version or algorithm.
pub fn server_config(serving: Arc<ServingCert>, profile: &TlsProfile) -> Result<Arc<ServerConfig>, TlsError> {
    server_config_for(serving, profile, WebPkiClientVerifier::no_client_auth())
}

/// As [`server_config`], for clients whose certificates `clients` verifies.
///
/// # Errors
/// The profile leaves no version or algorithm.
pub fn server_config_for(
    serving: Arc<ServingCert>,
    profile: &TlsProfile,
    clients: Arc<dyn ClientCertVerifier>,
) -> Result<Arc<ServerConfig>, TlsError> {
    let provider = Arc::new(profile.provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(profile.versions())
        .map_err(|error| TlsError(format!("TLS configuration: {error}")))?
        .with_client_cert_verifier(clients)
        .with_cert_resolver(serving);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests;
