//! Which authorities the server of catalogs is trusted by: those in a folder, or the one that catalogd publishes.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use olm_runtime::{api_text, bounded};
use reqwest::Certificate;
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::SERVING_SECRET;

/// Key of the authority in the published ConfigMap.
const AUTHORITY: &str = "ca.crt";
/// Most bytes of one file of certificates.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Most files of a folder that are read.
const FILES_MAX: usize = 256;

/// Why there is no client for the server of catalogs: a sentence.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct TrustError(String);

impl TrustError {
    fn certificate(error: &reqwest::Error) -> Self {
        Self(format!("certificates of catalogd: {error}"))
    }
}

/// Where the authorities are found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// In the files of a folder.
    Folder(PathBuf),
    /// In the ConfigMap that catalogd publishes in this namespace.
    Published(String),
}

impl Trust {
    /// Reads the authorities: a client that trusts them, and a digest that changes with them.
    pub async fn load(&self, cluster: &Client) -> Result<(reqwest::Client, [u8; 32]), TrustError> {
        let texts = match self {
            Self::Folder(folder) => read_folder(folder)?,
            Self::Published(namespace) => vec![published(cluster, namespace).await?],
        };
        let mut hash = Sha256::new();
        let mut builder = reqwest::Client::builder();
        for text in &texts {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
            for certificate in Certificate::from_pem_bundle(text).map_err(|e| TrustError::certificate(&e))? {
                builder = builder.add_root_certificate(certificate);
            }
        }
        Ok((builder.build().map_err(|e| TrustError::certificate(&e))?, hash.finalize().into()))
    }
}

/// The texts with certificates in the folder's files, in order of name. Folders in it are left alone, and with
/// them the versions that Kubernetes keeps of a mounted Secret.
fn read_folder(folder: &Path) -> Result<Vec<Vec<u8>>, TrustError> {
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |error: io::Error| TrustError(format!("reading certificates of catalogd in {path:?}: {error}"))
    };
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed(folder))? {
        let path = entry.map_err(failed(folder))?.path();
        if path.is_file() {
            paths.push(path);
        }
    }
    paths.sort_unstable();
    let mut texts = Vec::new();
    for path in paths.into_iter().take(FILES_MAX) {
        let length = fs::metadata(&path).map_err(failed(&path))?.len();
        if length > FILE_BYTES_MAX {
            let excess = format!("has {length} bytes, at most {FILE_BYTES_MAX} are read");
            return Err(failed(&path)(io::Error::other(excess)));
        }
        let text = fs::read(&path).map_err(failed(&path))?;
        if text.windows(10).any(|part| part == b"-----BEGIN") {
            texts.push(text);
        }
    }
    if texts.is_empty() {
        return Err(TrustError(format!("no certificates found in {:?}", folder.display().to_string())));
    }
    Ok(texts)
}

async fn published(cluster: &Client, namespace: &str) -> Result<Vec<u8>, TrustError> {
    let failed = |problem: &str| {
        TrustError(format!(
            "ConfigMap {SERVING_SECRET:?} in namespace {namespace:?}, by which catalogd publishes its authority: {problem}; or give its certificates with --catalogd-cas-dir"
        ))
    };
    let maps: Api<ConfigMap> = Api::namespaced(cluster.clone(), namespace);
    let map = bounded(maps.get_opt(SERVING_SECRET)).await.map_err(|error| failed(&api_text(&error)))?;
    let map = map.ok_or_else(|| failed("is not there"))?;
    let text = map.data.and_then(|mut data| data.remove(AUTHORITY));
    text.map(String::into_bytes).ok_or_else(|| failed(&format!("has no key {AUTHORITY}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nobody() -> Client {
        let service = tower::service_fn(|_: http::Request<kube::client::Body>| async {
            let answer = http::Response::builder().status(404);
            answer.body(kube::client::Body::empty())
        });
        Client::new(service, "default")
    }

    #[tokio::test]
    async fn a_folder_is_read_anew_and_must_hold_certificates() {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let folder = tempfile::tempdir().unwrap();
        let trust = Trust::Folder(folder.path().to_owned());
        fs::create_dir(folder.path().join("..data")).unwrap();
        fs::write(folder.path().join("readme"), "no certificate").unwrap();
        let error = trust.load(&nobody()).await.unwrap_err().to_string();
        assert_eq!(error, format!("no certificates found in {:?}", folder.path().display().to_string()));
        let pem = || olm_runtime::self_signed(&["catalogd".to_owned()]).unwrap().ca_pem;
        fs::write(folder.path().join("ca.crt"), pem()).unwrap();
        let first = trust.load(&nobody()).await.unwrap().1;
        assert_eq!(trust.load(&nobody()).await.unwrap().1, first);
        fs::write(folder.path().join("ca.crt"), pem()).unwrap();
        assert_ne!(trust.load(&nobody()).await.unwrap().1, first);
        let error = Trust::Folder("/nowhere".into()).load(&nobody()).await.unwrap_err().to_string();
        assert!(error.starts_with("reading certificates of catalogd in \"/nowhere\": "), "{error}");
    }

    #[tokio::test]
    async fn a_missing_authority_is_told_with_the_remedy() {
        let error = Trust::Published("olmv1-system".into()).load(&nobody()).await.unwrap_err().to_string();
        assert!(
            error.contains("\"catalogd-serving-cert\"") && error.ends_with("--catalogd-cas-dir"),
            "{error}"
        );
    }
}
