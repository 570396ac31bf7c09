//! Who sends a request: what the front proxy says, whose certificate is verified, or what a client certificate or a
//! token proves.
//!
//! The authorities and headers are those that kube-apiserver publishes in the ConfigMap
//! `kube-system/extension-apiserver-authentication`. Headers of any other client are never read.

use std::{collections::BTreeMap, fmt, sync::Arc};

use http::{HeaderMap, request::Parts};
use k8s_openapi::api::authentication::v1::UserInfo;
use olm_runtime::{PeerCertificates, Reviews, bearer};
use rustls::{
    DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    crypto::{
        CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs, verify_tls12_signature, verify_tls13_signature,
    },
    pki_types::{CertificateDer, UnixTime, pem::PemObject},
    server::{
        WebPkiClientVerifier,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::Failure;

const AUTHENTICATED: &str = "system:authenticated";
/// Most groups, and most values of extra keys, of one request.
const VALUES_MAX: usize = 1000;

/// The settings of kube-apiserver for those whom it forwards requests to.
#[derive(Clone, Default)]
pub(crate) struct Settings {
    proxies: Option<Arc<dyn ClientCertVerifier>>,
    /// Common names of front proxies; empty for any that the authority signed.
    proxy_names: Vec<String>,
    user_headers: Vec<String>,
    uid_headers: Vec<String>,
    group_headers: Vec<String>,
    extra_prefixes: Vec<String>,
    clients: Option<Arc<dyn ClientCertVerifier>>,
}

impl Settings {
    /// Reads the ConfigMap. Without an authority of front proxies, no headers are trusted.
    pub(crate) fn read(data: &BTreeMap<String, String>) -> Result<Self, String> {
        let list = |key: &str| -> Result<Vec<String>, String> {
            let text = data.get(key).map(String::as_str).filter(|text| !text.is_empty());
            text.map_or(Ok(Vec::new()), |text| {
                serde_json::from_str(text).map_err(|error| format!("{key}: {error}"))
            })
        };
        let authorities =
            |key: &str| data.get(key).map(|pem| verifier(pem)).transpose().map_err(|e| format!("{key}: {e}"));
        Ok(Self {
            proxies: authorities("requestheader-client-ca-file")?,
            proxy_names: list("requestheader-allowed-names")?,
            user_headers: list("requestheader-username-headers")?,
            uid_headers: list("requestheader-uid-headers")?,
            group_headers: list("requestheader-group-headers")?,
            extra_prefixes: list("requestheader-extra-headers-prefix")?,
            clients: authorities("client-ca-file")?,
        })
    }

    /// The user of a request; `None` when it carries no credentials.
    ///
    /// # Errors
    /// It carries a certificate or token that proves nothing.
    pub(crate) async fn user(&self, request: &Parts, reviews: &Reviews) -> Result<Option<UserInfo>, Failure> {
        let shown = request.extensions.get::<PeerCertificates>().map(|shown| &*shown.0).unwrap_or_default();
        if let [own, others @ ..] = shown {
            let user = self.of_proxy(own, others, &request.headers).or_else(|| self.of_client(own, others));
            return user.map(|user| Some(authenticated(user))).ok_or_else(Failure::unauthorized);
        }
        let Some(token) = bearer(&request.headers) else { return Ok(None) };
        match reviews.user(token).await {
            Ok(Some(user)) => Ok(Some(authenticated(user))),
            Ok(None) => Err(Failure::unauthorized()),
            Err(error) => {
                tracing::warn!(%error, "reviewing a token");
                Err(Failure::internal("the token could not be reviewed"))
            }
        }
    }

    /// The user that a front proxy names.
    fn of_proxy(
        &self,
        own: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        headers: &HeaderMap,
    ) -> Option<UserInfo> {
        is_trusted(self.proxies.as_ref()?, own, others).then_some(())?;
        let subject = Subject::of(own)?;
        if !self.proxy_names.is_empty() && !self.proxy_names.contains(&subject.name) {
            return None;
        }
        let username = first(headers, &self.user_headers)?;
        let groups = self.group_headers.iter().flat_map(|name| headers.get_all(name.as_str()));
        let groups: Vec<_> = groups.filter_map(text).take(VALUES_MAX).collect();
        let mut extra = BTreeMap::<_, Vec<_>>::new();
        for (name, value) in headers.iter().take(VALUES_MAX) {
            let key = self.extra_prefixes.iter().find_map(|prefix| {
                let name = name.as_str();
                name.starts_with(&prefix.to_ascii_lowercase()).then(|| &name[prefix.len()..])
            });
            if let (Some(key), Some(value)) = (key, text(value)) {
                let key = percent_encoding::percent_decode_str(key).decode_utf8_lossy().into_owned();
                extra.entry(key).or_default().push(value);
            }
        }
        let uid = first(headers, &self.uid_headers);
        Some(UserInfo { username: Some(username), uid, groups: Some(groups), extra: Some(extra) })
    }

    /// The user that a client certificate names.
    fn of_client(&self, own: &CertificateDer<'_>, others: &[CertificateDer<'_>]) -> Option<UserInfo> {
        is_trusted(self.clients.as_ref()?, own, others).then_some(())?;
        let Subject { name, organizations } = Subject::of(own)?;
        Some(UserInfo { username: Some(name), groups: Some(organizations), ..UserInfo::default() })
    }
}

/// The user of a request that says nothing about its sender.
pub(crate) fn anonymous() -> UserInfo {
    let groups = Some(vec!["system:unauthenticated".to_owned()]);
    UserInfo { username: Some("system:anonymous".to_owned()), groups, ..UserInfo::default() }
}

fn authenticated(mut user: UserInfo) -> UserInfo {
    let groups = user.groups.get_or_insert_default();
    if !groups.iter().any(|group| group == AUTHENTICATED) {
        groups.push(AUTHENTICATED.to_owned());
    }
    user
}

fn first(headers: &HeaderMap, names: &[String]) -> Option<String> {
    names.iter().filter_map(|name| headers.get(name.as_str())).find_map(text)
}

fn text(value: &http::HeaderValue) -> Option<String> {
    value.to_str().ok().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// The names in a certificate.
struct Subject {
    name: String,
    organizations: Vec<String>,
}

impl Subject {
    fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
        let subject = certificate.subject();
        let name = subject.iter_common_name().next()?.as_str().ok()?.to_owned();
        let organizations =
            subject.iter_organization().filter_map(|one| one.as_str().ok().map(str::to_owned));
        Some(Self { organizations: organizations.collect(), name }).filter(|subject| !subject.name.is_empty())
    }
}

fn provider() -> Arc<CryptoProvider> {
    CryptoProvider::get_default().cloned().unwrap_or_else(|| Arc::new(aws_lc_rs::default_provider()))
}

fn verifier(authorities: &str) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(authorities.as_bytes()) {
        roots.add(certificate.map_err(|error| error.to_string())?).map_err(|error| error.to_string())?;
    }
    let built = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider()).build();
    built.map_err(|error| error.to_string())
}

fn is_trusted(
    verifier: &Arc<dyn ClientCertVerifier>,
    own: &CertificateDer<'_>,
    others: &[CertificateDer<'_>],
) -> bool {
    verifier.verify_client_cert(own, others, UnixTime::now()).is_ok()
}

/// Asks clients for a certificate and lets them prove that they have its key. Whether it is trusted is decided at
/// each request, by the authorities of that moment: as kube-apiserver does, so that a certificate of a stranger is
/// answered with a status and not with a broken connection.
pub(crate) struct KeyOwner(WebPkiSupportedAlgorithms);

impl KeyOwner {
    pub(crate) fn new() -> Self {
        Self(provider().signature_verification_algorithms)
    }
}

impl fmt::Debug for KeyOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyOwner")
    }
}

impl ClientCertVerifier for KeyOwner {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}

#[cfg(test)]
mod tests;
