//! Content: blobs, manifests and tags of each repository, and uploads that are not complete.

use std::collections::BTreeMap;

use axum::body::Bytes;
use sha2::{Digest as _, Sha256};

/// Everything a registry holds.
#[derive(Default)]
pub(crate) struct Store {
    repositories: BTreeMap<String, Repository>,
    /// Uploads by number: the bytes that arrived.
    pub(crate) uploads: BTreeMap<u64, Vec<u8>>,
    next_upload: u64,
}

/// A repository.
#[derive(Default)]
pub(crate) struct Repository {
    pub(crate) blobs: BTreeMap<String, Bytes>,
    pub(crate) manifests: BTreeMap<String, Manifest>,
    /// Digests by tag.
    pub(crate) tags: BTreeMap<String, String>,
}

/// A manifest or an index.
#[derive(Clone)]
pub(crate) struct Manifest {
    pub(crate) media_type: String,
    pub(crate) bytes: Bytes,
}

impl Store {
    /// The repository of this name, made when it is asked for.
    pub(crate) fn repository(&mut self, name: &str) -> &mut Repository {
        self.repositories.entry(name.to_owned()).or_default()
    }

    /// Begins an upload and answers its number.
    pub(crate) fn upload(&mut self) -> u64 {
        self.next_upload += 1;
        self.uploads.insert(self.next_upload, Vec::new());
        self.next_upload
    }
}

impl Repository {
    /// Stores a manifest under its digest, which is the answer, and under `reference` if that is a tag.
    pub(crate) fn put(&mut self, reference: &str, manifest: Manifest) -> String {
        let digest = digest(&manifest.bytes);
        self.manifests.insert(digest.clone(), manifest);
        if reference != digest {
            self.tags.insert(reference.to_owned(), digest.clone());
        }
        digest
    }

    /// The digest that a tag or a digest names.
    pub(crate) fn resolve<'a>(&'a self, reference: &'a str) -> &'a str {
        self.tags.get(reference).map_or(reference, String::as_str)
    }
}

/// The digest of bytes, as references write it.
pub(crate) fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold("sha256:".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}
