//! Certificates of a throw-away cluster: an authority, and what it signs.
//!
//! Keys are P-256 and live as long as the test's directory.

use crate::prelude::*;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, KeyPair, KeyUsagePurpose,
};

/// An authority.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate and its key, as PEM.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The certificate.
    pub certificate: String,
    /// The private key (PKCS #8).
    pub key: String,
}

/// The files of an identity.
#[derive(Clone, Debug)]
pub struct IdentityFiles {
    /// The certificate.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

impl Authority {
    /// A new authority.
    pub fn new(name: &str) -> Result<Self> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        Ok(Self { issuer: CertifiedIssuer::self_signed(params, KeyPair::generate()?)? })
    }

    /// The authority's certificate and key.
    pub fn identity(&self) -> Identity {
        Identity { certificate: self.issuer.pem(), key: self.issuer.key().serialize_pem() }
    }

    /// Signs a certificate for a server that answers to these names and addresses.
    pub fn server(&self, name: &str, answers_to: &[&str]) -> Result<Identity> {
        let names: Vec<String> = answers_to.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names)?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        self.sign(params)
    }

    /// Signs a certificate for a user, in at most two groups (rcgen keeps one value for each attribute, and
    /// the attribute can be spelled in two ways) beside `system:authenticated`, which the API server adds.
    pub fn client(&self, user: &str, groups: &[&str]) -> Result<Identity> {
        self.sign(client_params(user, groups)?)
    }

    /// The same, for a user that is a server as well and answers to these names and addresses.
    pub fn both(&self, user: &str, groups: &[&str], answers_to: &[&str]) -> Result<Identity> {
        let mut params = client_params(user, groups)?;
        let names: Vec<String> = answers_to.iter().map(|&name| name.to_owned()).collect();
        params.subject_alt_names = CertificateParams::new(names)?.subject_alt_names;
        params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
        self.sign(params)
    }

    fn sign(&self, mut params: CertificateParams) -> Result<Identity> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(Identity { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

/// What a user's certificate says.
fn client_params(user: &str, groups: &[&str]) -> Result<CertificateParams> {
    let groups: Vec<_> = groups.iter().copied().filter(|group| *group != "system:authenticated").collect();
    let organization = [DnType::OrganizationName, DnType::CustomDnType(vec![2, 5, 4, 10])];
    if groups.len() > organization.len() {
        bail!("a certificate carries at most two groups, not {groups:?}: impersonate instead");
    }
    let mut params = CertificateParams::default();
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, user);
    for (attribute, group) in organization.into_iter().zip(groups) {
        params.distinguished_name.push(attribute, group);
    }
    Ok(params)
}

impl Identity {
    /// Writes the two files `<name>.crt` and `<name>.key`.
    pub fn write(&self, directory: &Path, name: &str) -> Result<IdentityFiles> {
        let files = IdentityFiles {
            certificate: directory.join(format!("{name}.crt")),
            key: directory.join(format!("{name}.key")),
        };
        fs::write(&files.certificate, &self.certificate)
            .with_context(|| format!("writing {}", files.certificate.display()))?;
        fs::write(&files.key, &self.key).with_context(|| format!("writing {}", files.key.display()))?;
        Ok(files)
    }
}

/// Writes the key pair service account tokens are signed with: `sa.key` and `sa.pub`.
pub fn write_service_account_keys(directory: &Path) -> Result<()> {
    let key = KeyPair::generate()?;
    fs::write(directory.join("sa.key"), key.serialize_pem())?;
    fs::write(directory.join("sa.pub"), key.public_key_pem())?;
    Ok(())
}
