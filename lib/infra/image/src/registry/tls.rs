//! HTTP clients: trust, timeouts, no redirects of their own.
//!
//! Certificates of the `--pull-cas-dir` kind are read from a folder: `*.crt` are added to the system's
//! authorities, `*.cert` with `*.key` are client certificates. The folder is looked at for every
//! request, and so are the files that `SSL_CERT_FILE` and `SSL_CERT_DIR` name; new clients are made when something
//! changed there. An unusable certificate, or a folder without any, is an error, never ignored.

use std::{
    env, fs,
    io::{self, Read as _},
    os::unix::fs::MetadataExt as _,
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
    /// Files and folders that the environment names as the system's authorities.
    system: Vec<PathBuf>,
    timeouts: Timeouts,
    made: Mutex<Made>,
}

#[derive(Default)]
struct Made {
    /// Digest of what the clients were made with: the folder's content, and how the system's files looked.
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
        Self { folder, system: system(), timeouts, made: Mutex::default() }
    }

    /// A client; an insecure one does not check certificates.
    pub(super) fn get(&self, insecure: bool) -> Result<Client, RegistryError> {
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            return Err(RegistryError::Certificates(
                "no TLS provider is installed in this process".to_owned(),
            ));
        }
        let mut hasher = Hasher::new(Algorithm::Sha256);
        let material = match &self.folder {
            Some(folder) => read(folder, &mut hasher).map_err(RegistryError::Certificates)?,
            None => Material::default(),
        };
        look(&self.system, &mut hasher);
        let generation = Some(hasher.finish());
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
    let authorities = material.authorities()?;
    if !authorities.is_empty() {
        builder = builder.tls_certs_merge(authorities);
    }
    if let Some(pem) = &material.identity {
        let identity = Identity::from_pem(pem).map_err(|error| format!("client certificate: {error}"))?;
        builder = builder.identity(identity);
    }
    builder.build().map_err(|error| super::http::chain(&error))
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
    fn authorities(&self) -> Result<Vec<Certificate>, String> {
        let mut authorities = Vec::new();
        for (name, pem) in &self.authorities {
            let certificates =
                Certificate::from_pem_bundle(pem).map_err(|error| format!("{name}: {error}"))?;
            if certificates.is_empty() {
                return Err(format!("{name}: no certificate in PEM form"));
            }
            authorities.extend(certificates);
        }
        Ok(authorities)
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
