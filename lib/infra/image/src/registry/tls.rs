//! HTTP clients: trust, timeouts, no redirects of their own. Each registry has its own, as each may be at addresses
//! where no other host may be.
//!
//! Certificates of the `--pull-cas-dir` kind are read from a folder: `*.crt` are added to the system's
//! authorities, `*.cert` with `*.key` are client certificates. The folder is looked at for every
//! request, and once a second so are the files that `SSL_CERT_FILE` and `SSL_CERT_DIR` name, which may be hundreds; new
//! clients are made when something changed there. An unusable certificate, or a folder without any, is an error, never
//! ignored.

use std::{
    collections::HashMap,
    env, fs,
    io::{self, Read as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use reqwest::{Client, Identity, Url, redirect};
use rustls::{
    ClientConfig,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};

use super::{
    RegistryError,
    dial::{Dialling, proxies},
};
use crate::{
    digest::{Algorithm, Digest, Hasher},
    limits::{CERTIFICATE_BYTES_MAX, CLIENTS_MAX, Timeouts},
};

mod verifier;

use verifier::Verifier;

/// How long it is known how the system's files look.
const LOOK_SPACING: Duration = Duration::from_secs(1);

/// Makes and keeps the clients.
pub(super) struct Clients {
    folder: Option<PathBuf>,
    /// Files and folders that the environment names as the system's authorities.
    system: Vec<PathBuf>,
    /// How they looked, and when.
    looks: Mutex<Option<(Instant, String)>>,
    proxies: Arc<[String]>,
    timeouts: Timeouts,
    made: Mutex<Made>,
}

#[derive(Default)]
struct Made {
    /// Digest of what the clients were made with: the folder's content, and how the system's files looked.
    generation: Option<Digest>,
    /// The settings of secure clients; reading the system's certificates takes time.
    tls: Option<ClientConfig>,
    /// By the host of the registry, and whether it is insecure.
    clients: HashMap<(String, bool), Client>,
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
        let (looks, made) = (Mutex::default(), Mutex::default());
        Self { folder, system: system(), looks, proxies: proxies(), timeouts, made }
    }

    /// What may be dialled for the registry at a host, which may have a port.
    pub(super) fn dialling(&self, host: &str, is_insecure: bool) -> Dialling {
        let url = Url::parse(&format!("https://{host}/")).ok();
        let own = url.as_ref().and_then(Url::host_str).unwrap_or(host);
        Dialling::new(own.to_owned(), is_insecure, Arc::clone(&self.proxies))
    }

    /// The client for a registry; one for an insecure registry does not check certificates.
    pub(super) fn get(&self, dialling: &Dialling) -> Result<Client, RegistryError> {
        let provider = CryptoProvider::get_default().ok_or_else(|| {
            RegistryError::Certificates("no TLS provider is installed in this process".to_owned())
        })?;
        let mut hasher = Hasher::new(Algorithm::Sha256);
        let material = match &self.folder {
            Some(folder) => read(folder, &mut hasher).map_err(RegistryError::Certificates)?,
            None => Material::default(),
        };
        hasher.update(self.looks().as_bytes());
        let generation = Some(hasher.finish());
        let mut made = self.made.lock();
        if made.generation != generation {
            *made = Made { generation, ..Made::default() };
        }
        let key = (dialling.own.clone(), dialling.is_insecure);
        if let Some(client) = made.clients.get(&key) {
            return Ok(client.clone());
        }
        let tls = match &made.tls {
            _ if dialling.is_insecure => None,
            Some(tls) => Some(tls.clone()),
            None => {
                let tls = material.tls(provider).map_err(RegistryError::Certificates)?;
                made.tls = Some(tls.clone());
                Some(tls)
            }
        };
        let client = self.build(&material, tls, dialling).map_err(RegistryError::Certificates)?;
        if made.clients.len() >= CLIENTS_MAX {
            made.clients.clear();
        }
        made.clients.insert(key, client.clone());
        Ok(client)
    }

    /// How the system's files look, or looked a moment ago.
    fn looks(&self) -> String {
        let mut looks = self.looks.lock();
        if let Some((_, known)) = looks.as_ref().filter(|(at, _)| at.elapsed() < LOOK_SPACING) {
            return known.clone();
        }
        let mut hasher = Hasher::new(Algorithm::Sha256);
        look(&self.system, &mut hasher);
        looks.insert((Instant::now(), hasher.finish().to_string())).1.clone()
    }

    fn build(
        &self,
        material: &Material,
        tls: Option<ClientConfig>,
        dialling: &Dialling,
    ) -> Result<Client, String> {
        let mut builder = Client::builder()
            .user_agent(concat!("olm/", env!("CARGO_PKG_VERSION")))
            // Redirects are followed by hand: each target is checked, and credentials stay behind.
            .redirect(redirect::Policy::none())
            .referer(false)
            .dns_resolver(dialling.clone())
            .connect_timeout(self.timeouts.connect)
            .read_timeout(self.timeouts.read);
        builder = match (tls, &material.identity) {
            (Some(tls), _) => builder.tls_backend_preconfigured(tls),
            (None, None) => builder.tls_danger_accept_invalid_certs(true),
            (None, Some(pem)) => {
                let identity =
                    Identity::from_pem(pem).map_err(|error| format!("client certificate: {error}"))?;
                builder.tls_danger_accept_invalid_certs(true).identity(identity)
            }
        };
        builder.build().map_err(|error| olm_text::causes(&error))
    }
}

/// Whether a folder of certificates can be used as it is now.
pub(crate) fn check(folder: &Path) -> Result<(), RegistryError> {
    let material = read(folder, &mut Hasher::new(Algorithm::Sha256));
    material.and_then(|material| material.authorities()).map(drop).map_err(RegistryError::Certificates)
}

/// The paths that stand for the system's authorities, where the environment names some.
fn system() -> Vec<PathBuf> {
    let file = env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let folders = env::var_os("SSL_CERT_DIR");
    let folders = folders.iter().flat_map(|folders| env::split_paths(folders));
    file.into_iter().chain(folders).filter(|path| !path.as_os_str().is_empty()).collect()
}

/// Takes in how files, and those in folders, look: which they are, how long and of when. Kubernetes replaces mounted
/// files by others behind the same links.
fn look(paths: &[PathBuf], hasher: &mut Hasher) {
    for path in paths {
        let mut files = vec![path.clone()];
        if let Ok(entries) = fs::read_dir(path) {
            files.extend(entries.flatten().map(|entry| entry.path()));
            files.sort();
        }
        for file in files {
            hasher.update(file.as_os_str().as_encoded_bytes());
            let Ok(found) = fs::metadata(&file) else { continue };
            let of_when = [found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec()];
            for number in of_when {
                hasher.update(&number.to_le_bytes());
            }
            for number in [found.dev(), found.ino(), found.len()] {
                hasher.update(&number.to_le_bytes());
            }
        }
    }
}

impl Material {
    /// The authorities, each file with at least one.
    fn authorities(&self) -> Result<Vec<CertificateDer<'static>>, String> {
        let mut authorities = Vec::new();
        for (name, pem) in &self.authorities {
            let certificates: Vec<_> = CertificateDer::pem_slice_iter(pem)
                .collect::<Result<_, _>>()
                .map_err(|error| format!("{name}: {error}"))?;
            if certificates.is_empty() {
                return Err(format!("{name}: no certificate in PEM form"));
            }
            authorities.extend(certificates);
        }
        Ok(authorities)
    }

    /// TLS that trusts the folder's authorities and the system's.
    fn tls(&self, provider: &Arc<CryptoProvider>) -> Result<ClientConfig, String> {
        let system = rustls_native_certs::load_native_certs();
        for error in &system.errors {
            tracing::warn!(%error, "reading the system's certificates");
        }
        let verifier = Verifier::new(self.authorities()?, system.certs, Arc::clone(provider))?;
        let builder = ClientConfig::builder_with_provider(Arc::clone(provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let mut tls = match &self.identity {
            None => builder.with_no_client_auth(),
            Some(pem) => {
                let failed = |error: &dyn std::fmt::Display| format!("client certificate: {error}");
                let chain = CertificateDer::pem_slice_iter(pem)
                    .collect::<Result<_, _>>()
                    .map_err(|error| failed(&error))?;
                let key = PrivateKeyDer::from_pem_slice(pem).map_err(|error| failed(&error))?;
                builder.with_client_auth_cert(chain, key).map_err(|error| failed(&error))?
            }
        };
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(tls)
    }
}

fn read(folder: &Path, hasher: &mut Hasher) -> Result<Material, String> {
    let failed = |path: &Path, error: io::Error| format!("{}: {error}", path.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| failed(folder, error))? {
        names.push(entry.map_err(|error| failed(folder, error))?.path());
    }
    names.sort();
    let mut material = Material::default();
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
    if material.authorities.is_empty() && material.identity.is_none() {
        return Err(format!(
            "no certificates found in \"{}\": files of authorities end in .crt",
            folder.display()
        ));
    }
    Ok(material)
}

fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(CERTIFICATE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > CERTIFICATE_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "file too large for a certificate"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder as the kubelet fills it: files are links into a folder behind a link, which is replaced.
    fn mounted(folder: &Path, version: &str, content: &str) {
        let data = folder.join(version);
        fs::create_dir(&data).unwrap();
        fs::write(data.join("ca.crt"), content).unwrap();
        let next = folder.join("..next");
        std::os::unix::fs::symlink(version, &next).unwrap();
        fs::rename(next, folder.join("..data")).unwrap();
        if !folder.join("ca.crt").exists() {
            std::os::unix::fs::symlink("..data/ca.crt", folder.join("ca.crt")).unwrap();
        }
    }

    fn seen(paths: &[&Path]) -> Digest {
        let mut hasher = Hasher::new(Algorithm::Sha256);
        look(&paths.iter().map(|path| path.to_path_buf()).collect::<Vec<_>>(), &mut hasher);
        hasher.finish()
    }

    #[test]
    fn what_the_environment_names_is_seen_to_change() {
        let folder = tempfile::tempdir().unwrap();
        let (mount, file) = (folder.path().join("mount"), folder.path().join("bundle.pem"));
        fs::create_dir(&mount).unwrap();
        mounted(&mount, "..one", "a");
        for watched in [&[mount.as_path(), &file][..], &[&mount.join("ca.crt"), &file]] {
            let _ = fs::remove_file(&file);
            let absent = seen(watched);
            fs::write(&file, "a").unwrap();
            let first = seen(watched);
            assert_ne!(first, absent, "a file that appears");
            assert_eq!(first, seen(watched), "nothing changed");
            fs::write(&file, "longer").unwrap();
            assert_ne!(first, seen(watched), "a file that is written");
            let before = seen(watched);
            let _ = fs::remove_dir_all(mount.join("..two"));
            mounted(&mount, "..two", "a");
            assert_ne!(before, seen(watched), "a mount that is replaced");
        }
    }

    #[test]
    fn a_folder_without_certificates_is_refused_in_upstreams_words() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |wanted: &str| {
            let text = check(folder.path()).unwrap_err().to_string();
            assert!(text.contains(wanted), "{text}");
        };
        let nothing = format!("no certificates found in \"{}\"", folder.path().display());
        refused(&nothing);
        // Upstream reads no other names either, for it takes the folder for one of docker's.
        fs::write(folder.path().join("ca.pem"), "x").unwrap();
        refused(&nothing);
        fs::write(folder.path().join("ca.crt"), "x").unwrap();
        refused("no certificate in PEM form");
        let gone = folder.path().join("gone");
        assert!(check(&gone).unwrap_err().to_string().contains("gone"));
    }
}
