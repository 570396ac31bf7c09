//! Which server certificates are accepted: those that Go's clients accept.
//!
//! rustls rejects a server certificate that says `CA:TRUE`, which `openssl req -x509` writes by default and many
//! private registries use. Here such a certificate is verified as if it said `CA:FALSE`, while its signature is
//! verified over the bytes that were signed. On the other hand rustls lets any trusted certificate sign others,
//! which would give the key of every self-signed registry in the trust folder power over all names: issuers have
//! to be allowed to sign, trusted ones included.

use std::sync::Arc;

use rustls::{
    CertificateError, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_cert_signed_by_trust_anchor, verify_server_name,
    },
    crypto::CryptoProvider,
    pki_types::{
        AlgorithmIdentifier, CertificateDer, InvalidSignature, ServerName, SignatureVerificationAlgorithm,
        UnixTime,
    },
    server::ParsedCertificate,
};
use webpki::{EndEntityCert, KeyUsage, VerifiedPath};
use x509_parser::{
    certificate::X509Certificate, extensions::ExtendedKeyUsage, oid_registry::OID_X509_EXT_BASIC_CONSTRAINTS,
    prelude::FromDer as _, x509::X509Version,
};

/// Verifies server certificates against trusted ones.
#[derive(Debug)]
pub(super) struct Verifier {
    roots: Arc<RootCertStore>,
    /// The certificates that `roots` was made of, in the same order.
    trusted: Vec<CertificateDer<'static>>,
    algorithms: &'static [&'static dyn SignatureVerificationAlgorithm],
    /// For the signatures of handshakes.
    webpki: Arc<WebPkiServerVerifier>,
}

impl Verifier {
    /// Trusts the system's certificates, those that cannot be read left out, and all of `own`.
    pub(super) fn new(
        own: Vec<CertificateDer<'static>>,
        system: Vec<CertificateDer<'static>>,
        provider: Arc<CryptoProvider>,
    ) -> Result<Self, String> {
        let (mut roots, mut trusted) = (RootCertStore::empty(), Vec::new());
        for certificate in own {
            roots.add(certificate.clone()).map_err(|error| error.to_string())?;
            trusted.push(certificate);
        }
        for certificate in system {
            if roots.add(certificate.clone()).is_ok() {
                trusted.push(certificate);
            }
        }
        let (roots, algorithms) = (Arc::new(roots), provider.signature_verification_algorithms.all);
        let webpki = WebPkiServerVerifier::builder_with_provider(Arc::clone(&roots), provider)
            .build()
            .map_err(|_| "there is no certificate of an authority on this machine".to_owned())?;
        Ok(Self { roots, trusted, algorithms, webpki })
    }

    /// Checks the chain from a server's certificate to a trusted one, and all that rustls leaves open in it.
    fn verify_chain(
        &self,
        server: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        now: UnixTime,
        algorithms: &[&dyn SignatureVerificationAlgorithm],
        is_trusted: bool,
    ) -> Result<(), Error> {
        // First as rustls does it, which has the texts for what is wrong.
        let parsed = ParsedCertificate::try_from(server)?;
        verify_server_cert_signed_by_trust_anchor(&parsed, &self.roots, intermediates, now, algorithms)?;
        verify_server_name(&parsed, name)?;
        // Then with the path in sight: another one may be found when the first has an issuer that may not sign.
        let may_sign = |path: &VerifiedPath<'_>| {
            self.may_sign(path, is_trusted, now).then_some(()).ok_or(webpki::Error::UnknownIssuer)
        };
        let server = EndEntityCert::try_from(server).map_err(|_| CertificateError::BadEncoding)?;
        let usage = KeyUsage::server_auth();
        server
            .verify_for_usage(algorithms, &self.roots.roots, intermediates, now, usage, None, Some(&may_sign))
            .map_err(|_| Error::Other(OtherError(Arc::new(NoIssuer))))?;
        Ok(())
    }

    /// Whether every issuer in a path may sign what is below it. webpki looks at neither key usages nor at
    /// anything of a trusted certificate but its name, key and name constraints.
    fn may_sign(&self, path: &VerifiedPath<'_>, is_trusted: bool, now: UnixTime) -> bool {
        let mut count = 0;
        for intermediate in path.intermediate_certificates() {
            let der = intermediate.der();
            if !parse(&der).is_some_and(|issuer| has_signing_usage(&issuer)) {
                return false;
            }
            count += 1;
        }
        // The server's certificate is trusted itself and signs no other.
        if is_trusted && count == 0 {
            return true;
        }
        let anchor = self.roots.roots.iter().position(|anchor| std::ptr::eq(anchor, path.anchor()));
        let issuer = anchor.and_then(|at| self.trusted.get(at)).and_then(|der| parse(der));
        issuer.is_some_and(|issuer| may_sign_as_root(&issuer, count, now))
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let is_trusted = self.trusted.iter().any(|trusted| trusted == end_entity);
        if let Some(altered) = Altered::new(end_entity) {
            let algorithms: Vec<_> =
                self.algorithms.iter().map(|algorithm| altered.algorithm(*algorithm)).collect();
            let algorithms: Vec<&dyn SignatureVerificationAlgorithm> =
                algorithms.iter().map(|algorithm| algorithm as _).collect();
            let server = CertificateDer::from(altered.certificate.as_slice());
            self.verify_chain(&server, intermediates, server_name, now, &algorithms, is_trusted)?;
        } else {
            self.verify_chain(end_entity, intermediates, server_name, now, self.algorithms, is_trusted)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.webpki.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.webpki.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.webpki.supported_verify_schemes()
    }
}

/// Every path to a trusted certificate has an issuer that may not sign.
#[derive(Debug, thiserror::Error)]
#[error(
    "the server's certificate was signed with a certificate that may not sign it: one that has expired, is not of an authority, or is for other uses"
)]
struct NoIssuer;

fn parse(der: &[u8]) -> Option<X509Certificate<'_>> {
    X509Certificate::from_der(der)
        .ok()
        .filter(|(rest, _)| rest.is_empty())
        .map(|(_, certificate)| certificate)
}

/// Whether the key usage, where there is one, includes signing certificates.
fn has_signing_usage(issuer: &X509Certificate<'_>) -> bool {
    issuer.key_usage().is_ok_and(|usage| usage.is_none_or(|usage| usage.value.key_cert_sign()))
}

/// Whether a trusted certificate may sign a server's certificate with `intermediates` others between.
fn may_sign_as_root(issuer: &X509Certificate<'_>, intermediates: u32, now: UnixTime) -> bool {
    let Ok(constraints) = issuer.basic_constraints() else { return false };
    let is_authority = match &constraints {
        Some(constraints) => {
            constraints.value.ca
                && constraints.value.path_len_constraint.is_none_or(|most| intermediates <= most)
        }
        // Older versions have no extensions to say it.
        None => issuer.version() != X509Version::V3,
    };
    let serves = |usage: &ExtendedKeyUsage<'_>| usage.any || usage.server_auth;
    let validity = issuer.validity();
    let is_now = i64::try_from(now.as_secs())
        .is_ok_and(|now| (validity.not_before.timestamp()..=validity.not_after.timestamp()).contains(&now));
    is_authority
        && is_now
        && has_signing_usage(issuer)
        && issuer.extended_key_usage().is_ok_and(|usage| usage.is_none_or(|usage| serves(usage.value)))
}

/// A server's certificate with its `CA:TRUE` turned into `CA:FALSE`.
struct Altered {
    certificate: Vec<u8>,
    /// The part of it that a signature is over, as it is now.
    unsigned: Vec<u8>,
    /// The same as it was signed.
    signed: Vec<u8>,
}

impl Altered {
    /// `None` for certificates that do not say `CA:TRUE`.
    fn new(certificate: &CertificateDer<'_>) -> Option<Self> {
        let parsed = parse(certificate)?;
        let constraints = parsed.get_extension_unique(&OID_X509_EXT_BASIC_CONSTRAINTS).ok()??.value;
        // SEQUENCE { BOOLEAN TRUE, .. }
        let [0x30, _, 0x01, 0x01, 0xff, ..] = constraints else { return None };
        // The extension is a part of the certificate's bytes, not a copy.
        let at = constraints.as_ptr().addr().checked_sub(certificate.as_ptr().addr())?.checked_add(4)?;
        let mut bytes = certificate.to_vec();
        *bytes.get_mut(at)? = 0;
        let unsigned = parse(&bytes)?.tbs_certificate.as_ref().to_vec();
        Some(Self { signed: parsed.tbs_certificate.as_ref().to_vec(), unsigned, certificate: bytes })
    }

    fn algorithm<'a>(&'a self, algorithm: &'a dyn SignatureVerificationAlgorithm) -> OverSigned<'a> {
        OverSigned { algorithm, unsigned: &self.unsigned, signed: &self.signed }
    }
}

/// Verifies the signature of an altered certificate over what was signed. Those of all others are as they are.
#[derive(Debug)]
struct OverSigned<'a> {
    algorithm: &'a dyn SignatureVerificationAlgorithm,
    unsigned: &'a [u8],
    signed: &'a [u8],
}

impl SignatureVerificationAlgorithm for OverSigned<'_> {
    fn verify_signature(
        &self,
        public_key: &[u8],
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), InvalidSignature> {
        let message = if message == self.unsigned { self.signed } else { message };
        self.algorithm.verify_signature(public_key, message, signature)
    }

    fn public_key_alg_id(&self) -> AlgorithmIdentifier {
        self.algorithm.public_key_alg_id()
    }

    fn signature_alg_id(&self) -> AlgorithmIdentifier {
        self.algorithm.signature_alg_id()
    }

    fn fips(&self) -> bool {
        self.algorithm.fips()
    }
}

#[cfg(test)]
mod tests;
