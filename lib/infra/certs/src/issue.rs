//! Making and reading certificates.

use std::{collections::BTreeSet, fmt, net::IpAddr, time::Duration};

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
use thiserror::Error;
use x509_parser::{
    extensions::GeneralName,
    prelude::{FromDer, X509Certificate},
};

/// How far back the life of a certificate begins, for clocks that run behind, in seconds.
const SKEW_SECONDS: i64 = 3600;

/// The certificate that a server needs.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// Its common name, which the name of its authority begins with.
    pub common_name: &'a str,
    /// The host names and IP addresses that clients use.
    pub names: &'a [String],
    /// Its life; the next one is made when a third is left.
    pub lifetime: Duration,
    /// Longest time that clients get to hear of a new authority before its certificate is served.
    pub settle_max: Duration,
}

/// A certificate could not be made.
#[derive(Debug, Error)]
#[error("making a certificate: {0}")]
pub struct IssueError(#[from] rcgen::Error);

/// A certificate, its chain included, with its key, as PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Pair {
    /// The certificate.
    pub certificate: String,
    /// Its private key.
    pub key: String,
}

/// Without the key.
impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pair").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

/// A pair, and the authority that was made for it alone.
#[derive(Debug, Clone)]
pub struct Issued {
    /// The pair.
    pub pair: Pair,
    /// The authority's certificate, PEM. Its key is thrown away.
    pub authority: String,
}

/// Makes an authority and a pair, both valid from `now` on.
pub fn issue(wanted: &Wanted<'_>, now: Timestamp) -> Result<Issued, IssueError> {
    let life = |params: &mut CertificateParams| {
        let at = |seconds: i64| {
            // A time before the epoch is no time for a certificate.
            rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
        };
        let lifetime = i64::try_from(wanted.lifetime.as_secs()).unwrap_or(i64::MAX / 2);
        params.not_before = at(now.as_second() - SKEW_SECONDS);
        params.not_after = at(now.as_second().saturating_add(lifetime));
    };
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    authority.distinguished_name = DistinguishedName::new();
    // Each authority has a name of its own, that of its key, so that verifiers tell the old from the new.
    let key = KeyPair::generate()?;
    let digest = Sha256::digest(key.public_key_raw());
    let name = digest
        .iter()
        .take(8)
        .fold(format!("{}-ca-", wanted.common_name), |name, byte| format!("{name}{byte:02x}"));
    authority.distinguished_name.push(DnType::CommonName, name);
    life(&mut authority);
    let authority = CertifiedIssuer::self_signed(authority, key)?;

    let mut serving = CertificateParams::new(wanted.names)?;
    serving.distinguished_name = DistinguishedName::new();
    serving.distinguished_name.push(DnType::CommonName, wanted.common_name);
    serving.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    serving.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    serving.use_authority_key_identifier_extension = true;
    life(&mut serving);
    let key = KeyPair::generate()?;
    let certificate = serving.signed_by(&key, &authority)?;
    let pair = Pair { certificate: certificate.pem(), key: key.serialize_pem() };
    Ok(Issued { pair, authority: authority.as_ref().pem() })
}

/// Why a certificate and a key cannot serve: a sentence, with nothing of the key.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct Unusable(String);

/// A certificate with its chain, and its key, ready to serve.
pub fn certified_key(certificate: &[u8], key: &[u8]) -> Result<CertifiedKey, Unusable> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(certificate)
        .collect::<Result<_, _>>()
        .map_err(|error| Unusable(format!("certificate: {error}")))?;
    if chain.is_empty() {
        return Err(Unusable("certificate: holds no certificate".to_owned()));
    }
    let private = PrivateKeyDer::from_pem_slice(key).map_err(|error| Unusable(format!("key: {error}")))?;
    CertifiedKey::from_der(chain, private, &aws_lc_rs::default_provider())
        .map_err(|error| Unusable(error.to_string()))
}

/// The content of a certificate. Times are seconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Details {
    pub(crate) not_before: i64,
    pub(crate) not_after: i64,
    pub(crate) subject: Vec<u8>,
    pub(crate) issuer: Vec<u8>,
    pub(crate) names: BTreeSet<String>,
}

impl Details {
    /// When it was made.
    pub(crate) fn begun(&self) -> i64 {
        self.not_before + SKEW_SECONDS
    }

    pub(crate) fn life(&self) -> i64 {
        (self.not_after - self.begun()).max(0)
    }
}

/// Reads the first certificate of a PEM text; `None` if there is none.
pub(crate) fn read(pem: &str) -> Option<Details> {
    let der = CertificateDer::from_pem_slice(pem.as_bytes()).ok()?;
    let (_, certificate) = X509Certificate::from_der(&der).ok()?;
    let names = certificate.subject_alternative_name().ok().flatten();
    let names = names.into_iter().flat_map(|extension| &extension.value.general_names);
    Some(Details {
        not_before: certificate.validity().not_before.timestamp(),
        not_after: certificate.validity().not_after.timestamp(),
        subject: certificate.subject().as_raw().to_vec(),
        issuer: certificate.issuer().as_raw().to_vec(),
        names: names.filter_map(name).collect(),
    })
}

fn name(name: &GeneralName<'_>) -> Option<String> {
    let address = |bytes: &[u8]| match <[u8; 4]>::try_from(bytes) {
        Ok(bytes) => Some(IpAddr::from(bytes)),
        Err(_) => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
    };
    match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => address(bytes).map(|address| address.to_string()),
        _ => None,
    }
}

/// The certificates of a bundle, one text each.
pub(crate) fn blocks(bundle: &str) -> impl Iterator<Item = &str> {
    const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
    const END: &str = "-----END CERTIFICATE-----";
    bundle.split_inclusive(END).filter_map(|part| {
        let block = part.get(part.find(BEGIN)?..)?;
        block.ends_with(END).then_some(block)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_for_its_names_and_its_time() {
        let names = ["catalogs.example.svc".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
        let wanted = Wanted {
            common_name: "catalogs",
            names: &names,
            lifetime: Duration::from_hours(24),
            settle_max: Duration::from_mins(1),
        };
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let issued = issue(&wanted, now).unwrap();
        let found = read(&issued.pair.certificate).unwrap();
        assert_eq!(found.names, BTreeSet::from(names.clone()));
        assert_eq!((found.begun(), found.life()), (now.as_second(), 24 * 3600));
        assert_eq!(found.issuer, read(&issued.authority).unwrap().subject);
        assert!(!format!("{issued:?}").contains("PRIVATE"), "a key is never printed");
        let invalid = ["\u{e9}".to_owned()];
        assert!(issue(&Wanted { names: &invalid, ..wanted }, now).is_err());
    }
}
