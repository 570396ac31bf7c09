//! The certificate of a Secret, shown by a server of a test in the place of a Pod that mounts it.

use std::sync::Mutex;

use rustls::{
    ServerConfig,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use tokio_util::sync::CancellationToken;

use crate::prelude::*;

/// How often the Secret is looked at, as a kubelet does for the files of a Pod.
const REREAD: Duration = Duration::from_millis(500);

/// The certificate that is shown: whatever the Secret holds.
#[derive(Debug, Default)]
pub struct SecretCertificate(Mutex<Option<(String, Arc<CertifiedKey>)>>);

impl ResolvesServerCert for SecretCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.lock().unwrap().as_ref().map(|(_, certified)| Arc::clone(certified))
    }
}

impl SecretCertificate {
    /// Follows a Secret until `stop`.
    pub fn follow(secrets: Api<Secret>, name: String, stop: CancellationToken) -> Arc<Self> {
        let this = Arc::new(Self::default());
        let shown = Arc::clone(&this);
        tokio::spawn(async move {
            while !stop.is_cancelled() {
                if let Ok(Some(secret)) = secrets.get_opt(&name).await
                    && let Some(pair) = pair(&secret)
                {
                    *shown.0.lock().unwrap() = Some(pair);
                }
                tokio::time::sleep(REREAD).await;
            }
        });
        this
    }

    /// The configuration of a server that shows it.
    pub fn config(self: &Arc<Self>) -> Arc<ServerConfig> {
        let config = ServerConfig::builder().with_no_client_auth();
        Arc::new(config.with_cert_resolver(Arc::clone(self) as _))
    }

    /// Whether the certificate that is shown is another one.
    pub fn is_another_than(&self, certificate: &str) -> bool {
        self.0.lock().unwrap().as_ref().is_some_and(|(shown, _)| shown != certificate)
    }
}

fn pair(secret: &Secret) -> Option<(String, Arc<CertifiedKey>)> {
    let data = secret.data.as_ref()?;
    let (certificate, key) = (&data.get("tls.crt")?.0, &data.get("tls.key")?.0);
    let chain: Vec<_> = CertificateDer::pem_slice_iter(certificate).collect::<Result<_, _>>().ok()?;
    let key = PrivateKeyDer::from_pem_slice(key).ok()?;
    let certified = CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider()).ok()?;
    Some((String::from_utf8_lossy(certificate).into_owned(), Arc::new(certified)))
}
