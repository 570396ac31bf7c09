//! Uploads of blobs.

use ::http::Method;
use bytes::Bytes;
use tokio::io::AsyncReadExt as _;

use super::{Exchange, OciRegistry, PUSH, location};
use crate::{
    digest::Digest,
    limits::{UPLOAD_BYTES, UPLOAD_BYTES_MAX},
    registries::Endpoint,
    registry::{BlobContent, RegistryError},
};

/// The least bytes of a part of an upload that a registry takes.
const CHUNK_HEADER: &str = "oci-chunk-min-length";

impl OciRegistry {
    /// Uploads a blob: from memory in one request, from a file in as many as it takes, because an answer must come
    /// within the time of a read.
    pub(super) async fn upload(
        &self,
        at: &Endpoint,
        action: String,
        digest: &Digest,
        content: &BlobContent,
    ) -> Result<(), RegistryError> {
        let home = self.url(at, "blobs/uploads/").await?;
        let content_type = Some("application/octet-stream");
        let exchange = |method, url, bytes| Exchange {
            home: home.clone(),
            content_type,
            body: Some(bytes),
            ..Exchange::new(at, action.clone(), method, url, PUSH)
        };
        let start = Exchange { content_type: None, ..exchange(Method::POST, home.clone(), Bytes::new()) };
        let begun = self.accepted(&start).await?;
        let least = begun.headers().get(CHUNK_HEADER).and_then(|value| value.to_str().ok()?.parse().ok());
        let mut url = location(&begun, &action)?;
        let rest = match content {
            BlobContent::Memory(bytes) => bytes.clone(),
            BlobContent::File(path) => {
                let unreadable = |error: std::io::Error| RegistryError::Unusable {
                    action: action.clone(),
                    cause: format!("reading {}: {error}", path.display()),
                };
                let mut file = tokio::fs::File::open(path).await.map_err(unreadable)?;
                let bytes_max = least.unwrap_or(0).clamp(UPLOAD_BYTES, UPLOAD_BYTES_MAX);
                let mut sent = 0;
                loop {
                    let mut chunk = Vec::new();
                    (&mut file).take(bytes_max).read_to_end(&mut chunk).await.map_err(unreadable)?;
                    let Some(end) = (sent + chunk.len() as u64).checked_sub(1).filter(|_| !chunk.is_empty())
                    else {
                        break;
                    };
                    let content_range = Some(format!("{sent}-{end}"));
                    let chunk = Exchange { content_range, ..exchange(Method::PATCH, url, chunk.into()) };
                    url = location(&self.accepted(&chunk).await?, &action)?;
                    sent = end + 1;
                }
                Bytes::new()
            }
        };
        url.query_pairs_mut().append_pair("digest", &digest.to_string());
        self.accepted(&exchange(Method::PUT, url, rest)).await.map(drop)
    }
}
