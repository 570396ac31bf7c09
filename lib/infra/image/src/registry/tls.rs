//! HTTP clients: trust, timeouts, no redirects of their own.
//!
//! Certificates of the `--pull-cas-dir` kind are read from a folder: `*.crt` are added to the system's
//! authorities, `*.cert` with `*.key` are client certificates. The folder is looked at for every
//! request, and new clients are made when its content changed. An unusable certificate is an error, never ignored.

use std::{
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use reqwest::{Certificate, Client, Identity, redirect};

use super::RegistryError;
use crate::{
    digest::{Algorithm, Digest, Hasher},
    limits::{CERTIFICATE_BYTES_MAX, Timeouts},
};

/// Makes and keeps the clients.
pub(super) struct Clients {
    folder: Option<PathBuf>,
    timeouts: Timeouts,
    made: Mutex<Made>,
}

#[derive(Default)]
struct Made {
    /// Digest of the folder's content that the clients were made with.
    generation: Option<Digest>,
    secure: Option<Client>,
    insecure: Option<Client>,
}

#[derive(Default)]
struct Material {
    /// Authorities in PEM, by file name.
    authorities: Vec<(String, Vec<u8>)>,
    /// Certificates and keys of clients in one PEM.
    identity: Option<Vec<u8>>,
}

impl Clients {
    pub(super) fn new(folder: Option<PathBuf>, timeouts: Timeouts) -> Self {
        Self { folder, timeouts, made: Mutex::default() }
    }

    /// A client; an insecure one does not check certificates.
    pub(super) fn get(&self, insecure: bool) -> Result<Client, RegistryError> {
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            return Err(RegistryError::Certificates(
                "no TLS provider is installed in this process".to_owned(),
            ));
        }
        let (material, generation) = match &self.folder {
            Some(folder) => read(folder).map_err(RegistryError::Certificates)?,
            None => (Material::default(), None),
        };
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if made.generation != generation {
            *made = Made { generation, ..Made::default() };
        }
        let slot = if insecure { &mut made.insecure } else { &mut made.secure };
        if let Some(client) = slot {
            return Ok(client.clone());
        }
        let client = build(&material, self.timeouts, insecure).map_err(RegistryError::Certificates)?;
        *slot = Some(client.clone());
        Ok(client)
    }
}

fn build(material: &Material, timeouts: Timeouts, insecure: bool) -> Result<Client, String> {
    let mut builder = Client::builder()
        .user_agent(concat!("olm/", env!("CARGO_PKG_VERSION")))
        // Redirects are followed by hand: each target is checked, and credentials stay behind.
        .redirect(redirect::Policy::none())
        .referer(false)
        .connect_timeout(timeouts.connect)
        .read_timeout(timeouts.read)
        .tls_danger_accept_invalid_certs(insecure);
    let mut authorities = Vec::new();
    for (name, pem) in &material.authorities {
        let certificates = Certificate::from_pem_bundle(pem).map_err(|error| format!("{name}: {error}"))?;
        if certificates.is_empty() {
            return Err(format!("{name}: no certificate in PEM form"));
        }
        authorities.extend(certificates);
    }
    if !authorities.is_empty() {
        builder = builder.tls_certs_merge(authorities);
    }
    if let Some(pem) = &material.identity {
        let identity = Identity::from_pem(pem).map_err(|error| format!("client certificate: {error}"))?;
        builder = builder.identity(identity);
    }
    builder.build().map_err(|error| super::http::chain(&error))
}

fn read(folder: &Path) -> Result<(Material, Option<Digest>), String> {
    let failed = |path: &Path, error: io::Error| format!("{}: {error}", path.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| failed(folder, error))? {
        names.push(entry.map_err(|error| failed(folder, error))?.path());
    }
    names.sort();
    let mut material = Material::default();
    let mut hasher = Hasher::new(Algorithm::Sha256);
    for path in &names {
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        let (other, remedy) = match extension {
            "crt" => {
                let pem = read_file(path).map_err(|error| failed(path, error))?;
                hasher.update(&pem);
                material.authorities.push((path.display().to_string(), pem));
                continue;
            }
            "cert" => ("key", "certificates of authorities end in .crt"),
            "key" => ("cert", "a key needs the client certificate it belongs to"),
            _ => continue,
        };
        let partner = path.with_extension(other);
        if !names.contains(&partner) {
            return Err(format!("missing {} for {}: {remedy}", partner.display(), path.display()));
        }
        let pem = read_file(path).map_err(|error| failed(path, error))?;
        hasher.update(&pem);
        let identity = material.identity.get_or_insert_with(Vec::new);
        identity.extend_from_slice(&pem);
        identity.push(b'\n');
    }
    Ok((material, Some(hasher.finish())))
}

fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(CERTIFICATE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > CERTIFICATE_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "file too large for a certificate"));
    }
    Ok(bytes)
}
