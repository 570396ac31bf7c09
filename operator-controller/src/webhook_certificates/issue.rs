//! Making and reading certificates.

use std::{collections::BTreeSet, time::Duration};

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, KeyPair, KeyUsagePurpose,
};
use rustls::{
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    sign::CertifiedKey,
};
use sha2::{Digest, Sha256};
use x509_parser::{
    extensions::GeneralName,
    prelude::{FromDer, X509Certificate},
};

/// How far back the life of a certificate begins, for clocks that run behind, in seconds.
pub(super) const SKEW_SECONDS: i64 = 300;

/// A serving certificate made here, and the authority that was made for it alone.
#[derive(Debug, Clone)]
pub(super) struct Issued {
    /// The serving certificate, PEM.
    pub(super) certificate: String,
    /// Its key, PEM.
    pub(super) key: String,
    /// The authority's certificate, PEM. Nobody has its key any more.
    pub(super) authority: String,
}

/// Makes an authority and a serving certificate for `names`, both valid for `lifetime` from `now` on.
pub(super) fn issue(names: &[String], now: Timestamp, lifetime: Duration) -> Result<Issued, rcgen::Error> {
    let life = |params: &mut CertificateParams| {
        let at = |seconds: i64| {
            rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
        };
        params.not_before = at(now.as_second() - SKEW_SECONDS);
        params.not_after = at(now.as_second() + i64::try_from(lifetime.as_secs()).unwrap_or(i64::MAX / 2));
    };
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    authority.distinguished_name = DistinguishedName::new();
    // Each authority has a name of its own, that of its key, so that verifiers tell the old from the new.
    let key = KeyPair::generate()?;
    let digest = Sha256::digest(key.public_key_raw());
    let name =
        digest.iter().take(8).fold("olm-webhook-ca-".to_owned(), |name, byte| format!("{name}{byte:02x}"));
    authority.distinguished_name.push(DnType::CommonName, name);
    life(&mut authority);
    let authority = CertifiedIssuer::self_signed(authority, key)?;

    let mut serving = CertificateParams::new(names)?;
    serving.distinguished_name = DistinguishedName::new();
    serving.distinguished_name.push(DnType::CommonName, "olm-webhook");
    serving.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    serving.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    serving.use_authority_key_identifier_extension = true;
    life(&mut serving);
    let key = KeyPair::generate()?;
    let certificate = serving.signed_by(&key, &authority)?;
    Ok(Issued {
        certificate: certificate.pem(),
        key: key.serialize_pem(),
        authority: authority.as_ref().pem(),
    })
}

/// What a certificate says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Read {
    /// Seconds since 1970.
    pub(super) not_before: i64,
    /// Seconds since 1970.
    pub(super) not_after: i64,
    pub(super) subject: Vec<u8>,
    pub(super) issuer: Vec<u8>,
    pub(super) names: BTreeSet<String>,
}

/// Reads the first certificate of a PEM text; `None` if there is none.
pub(super) fn read(pem: &str) -> Option<Read> {
    let der = CertificateDer::from_pem_slice(pem.as_bytes()).ok()?;
    let (_, certificate) = X509Certificate::from_der(&der).ok()?;
    let names = certificate.subject_alternative_name().ok().flatten();
    let names = names.into_iter().flat_map(|extension| &extension.value.general_names);
    Some(Read {
        not_before: certificate.validity().not_before.timestamp(),
        not_after: certificate.validity().not_after.timestamp(),
        subject: certificate.subject().as_raw().to_vec(),
        issuer: certificate.issuer().as_raw().to_vec(),
        names: names
            .filter_map(|name| match name {
                GeneralName::DNSName(name) => Some((*name).to_owned()),
                _ => None,
            })
            .collect(),
    })
}

/// Whether a certificate and a key belong together.
pub(super) fn is_pair(certificate: &str, key: &str) -> bool {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate.as_bytes()).collect();
    match (chain, PrivateKeyDer::from_pem_slice(key.as_bytes())) {
        (Ok(chain), Ok(key)) if !chain.is_empty() => {
            CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider()).is_ok()
        }
        _ => false,
    }
}

/// The certificates of a bundle, one text each.
pub(super) fn blocks(bundle: &str) -> impl Iterator<Item = &str> {
    const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
    const END: &str = "-----END CERTIFICATE-----";
    bundle.split_inclusive(END).filter_map(|part| {
        let block = part.get(part.find(BEGIN)?..)?;
        block.ends_with(END).then_some(block)
    })
}
