//! Handshakes with just one version, one cipher suite or one group on offer.

use std::net::TcpStream;

use olm_test::prelude::*;
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, ProtocolVersion, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, aws_lc_rs},
    pki_types::{CertificateDer, ServerName, UnixTime},
};

const PATIENCE: Duration = Duration::from_secs(30);

/// What a client offers; what is not named is offered whole.
#[derive(Debug, Default)]
pub(crate) struct Offer {
    version: Option<ProtocolVersion>,
    cipher: Option<String>,
    group: Option<String>,
}

impl Offer {
    /// Reads `TLSv1.2 TLS_ECDHE_… X25519`, each part at most once.
    pub(crate) fn parse(text: &str) -> Self {
        let mut offer = Self::default();
        for part in text.split_whitespace() {
            match part {
                "TLSv1.2" => offer.version = Some(ProtocolVersion::TLSv1_2),
                "TLSv1.3" => offer.version = Some(ProtocolVersion::TLSv1_3),
                cipher if cipher.starts_with("TLS_") => offer.cipher = Some(cipher.to_owned()),
                group => offer.group = Some(group.to_owned()),
            }
        }
        offer
    }

    fn config(&self) -> Result<ClientConfig> {
        let mut provider = aws_lc_rs::default_provider();
        if let Some(cipher) = &self.cipher {
            // TLS 1.3's suites are always there, as they are for the server.
            provider.cipher_suites.retain(|suite| format!("{:?}", suite.suite()) == *cipher);
        }
        if let Some(group) = &self.group {
            let all = aws_lc_rs::ALL_KX_GROUPS.iter();
            provider.kx_groups = all.copied().filter(|one| format!("{:?}", one.name()) == *group).collect();
        }
        if provider.cipher_suites.is_empty() || provider.kx_groups.is_empty() {
            bail!("this client cannot offer {self:?}");
        }
        let provider = Arc::new(provider);
        let versions: &[_] = match self.version {
            Some(ProtocolVersion::TLSv1_2) => &[&rustls::version::TLS12],
            Some(ProtocolVersion::TLSv1_3) => &[&rustls::version::TLS13],
            _ => rustls::ALL_VERSIONS,
        };
        Ok(ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anyone(provider)))
            .with_no_client_auth())
    }
}

/// What was agreed on with the server at an address. Blocks.
pub(crate) fn handshake(address: &str, offer: &Offer) -> Result<String> {
    let name = ServerName::try_from("localhost")?;
    let mut connection = ClientConnection::new(Arc::new(offer.config()?), name)?;
    let mut socket = TcpStream::connect(address).with_context(|| format!("connecting to {address}"))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    while connection.is_handshaking() {
        connection.complete_io(&mut socket).context("handshake")?;
    }
    Ok(format!(
        "{:?} {:?} {:?}",
        connection.protocol_version(),
        connection.negotiated_cipher_suite().map(|suite| suite.suite()),
        connection.negotiated_key_exchange_group().map(rustls::crypto::SupportedKxGroup::name),
    ))
}

/// Believes every certificate: who the server is, is asked elsewhere.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
