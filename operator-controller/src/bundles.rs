//! Bundles: pulled once by digest, kept on disk, read as a tree of files.

use std::{collections::BTreeMap, io, path::PathBuf};

use base64::{Engine, engine::general_purpose::STANDARD};
use olm_image::{PullError, Puller, Reference, Select};
use olm_render::BundleFiles;

/// Largest file of a bundle. The largest CRD of a public bundle has 4 MB.
const FILE_BYTES_MAX: u64 = 32 << 20;
/// Bundles kept on disk; the least recently used go first.
const CACHED_BUNDLES_MAX: usize = 200;
/// The folders of a registry+v1 bundle.
const WANTED: [&str; 2] = ["manifests", "metadata"];

/// Fetches bundles.
#[derive(Clone)]
pub(crate) struct Bundles {
    puller: Puller,
    folder: PathBuf,
}

impl Bundles {
    /// `folder` holds what was pulled; it may be emptied at any time.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub(crate) fn new(puller: Puller, folder: PathBuf) -> io::Result<Self> {
        std::fs::create_dir_all(&folder)?;
        Ok(Self { puller, folder })
    }

    /// The files of the bundle that `reference` names.
    ///
    /// # Errors
    /// The image cannot be pulled.
    pub(crate) async fn load(&self, reference: &str) -> Result<BundleFiles, PullError> {
        let parsed = Reference::parse(reference)?;
        let canonical = self.puller.resolve(&parsed).await?;
        let cached = self.folder.join(format!("{}.json", canonical.digest().to_string().replace(':', "-")));
        if let Some(files) = read_cached(&cached).await {
            return Ok(files.into_iter().collect());
        }
        let pulled = self.puller.pull(&canonical, |_| Select::paths(WANTED)).await?;
        let mut files = BTreeMap::new();
        for path in pulled.files.paths() {
            files.insert(path.to_owned(), pulled.files.read(path, FILE_BYTES_MAX)?);
        }
        if let Err(error) = self.store(cached, &files).await {
            // The bundle is at hand; only the next process has to pull it again.
            tracing::warn!(%error, bundle = %canonical, "bundle could not be kept on disk");
        }
        Ok(files.into_iter().collect())
    }

    async fn store(&self, path: PathBuf, files: &BTreeMap<String, Vec<u8>>) -> io::Result<()> {
        let encoded: BTreeMap<&str, String> =
            files.iter().map(|(name, bytes)| (name.as_str(), STANDARD.encode(bytes))).collect();
        let text = serde_json::to_vec(&encoded)?;
        let aside = path.with_extension(format!("{:016x}.tmp", fastrand::u64(..)));
        tokio::fs::write(&aside, text).await?;
        if let Err(error) = tokio::fs::rename(&aside, &path).await {
            let _ = tokio::fs::remove_file(&aside).await;
            return Err(error);
        }
        self.trim().await
    }

    /// Removes the least recently used bundles beyond the limit.
    async fn trim(&self) -> io::Result<()> {
        let mut entries = tokio::fs::read_dir(&self.folder).await?;
        let mut files = Vec::new();
        while let Some(entry) = entries.next_entry().await? {
            if let Ok(modified) = entry.metadata().await.and_then(|m| m.modified()) {
                files.push((modified, entry.path()));
            }
        }
        files.sort_unstable();
        let surplus = files.len().saturating_sub(CACHED_BUNDLES_MAX);
        for (_, path) in files.into_iter().take(surplus) {
            tokio::fs::remove_file(path).await?;
        }
        Ok(())
    }
}

/// A cached bundle; anything that cannot be read counts as absent and is pulled again.
async fn read_cached(path: &std::path::Path) -> Option<BTreeMap<String, Vec<u8>>> {
    let text = tokio::fs::read(path).await.ok()?;
    let encoded: BTreeMap<String, String> = serde_json::from_slice(&text).ok()?;
    encoded.into_iter().map(|(name, text)| Some((name, STANDARD.decode(text).ok()?))).collect()
}
