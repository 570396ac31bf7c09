//! One layer after the other: from the registry through the check of its digest into the spool.
//!
//! The network side runs on the async runtime, hashing and writing in a blocking thread; a bounded channel between them
//! is all that is held in memory.

use bytes::Bytes;
use futures::stream::BoxStream;
use thiserror::Error;
use tokio::sync::mpsc;

use crate::{
    archive::ArchiveError,
    blob::BlobError,
    digest::{Digest, Hasher},
    limits::BLOB_CHUNKS_IN_FLIGHT,
    registry::RegistryError,
    rooms::Rooms,
    speed::Meter,
    spool::Spool,
};

/// Why a layer could not be applied.
#[derive(Debug, Error)]
pub enum LayerError {
    /// Its bytes.
    #[error(transparent)]
    Blob(#[from] BlobError),
    /// Its archive.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The thread that received or unpacked it panicked.
    #[error("unpacking was interrupted")]
    Interrupted,
}

/// A layer to be read.
#[derive(Debug, Clone)]
pub(crate) struct Layer {
    pub(crate) index: usize,
    pub(crate) digest: Digest,
    pub(crate) size: u64,
}

/// A blob's bytes as they arrive.
pub type BlobStream = BoxStream<'static, Result<Bytes, RegistryError>>;

/// A piece of a blob, or why there is none.
pub(crate) type Piece = Result<Bytes, RegistryError>;

/// Adds a layer to the spool, once there is room for it. The spool comes back in any case, as it was if the layer failed.
pub(crate) async fn receive(
    spool: Spool,
    layer: Layer,
    mut blob: BlobStream,
    (meter, rooms): (&mut Meter, &Rooms),
    mut arrived: impl FnMut(u64),
) -> Result<(Spool, Result<(), LayerError>), LayerError> {
    // A registry that sends nothing takes no room.
    let first = meter.next(&mut blob).await;
    let room = rooms.take(1).await;
    let (sender, pieces) = mpsc::channel::<Piece>(BLOB_CHUNKS_IN_FLIGHT);
    let store = tokio::task::spawn_blocking(move || store(spool, &layer, pieces));
    let feed = async {
        // The thread waits for the end of the channel.
        let sender = sender;
        let mut next = first;
        while let Some(piece) = next {
            let failed = piece.is_err();
            arrived(piece.as_ref().map_or(0, |bytes| bytes.len() as u64));
            // A closed channel means that storing ended early; it says why.
            if sender.send(piece).await.is_err() || failed {
                break;
            }
            // Storing that ended early must not wait for a registry that has stopped sending.
            next = tokio::select! {
                piece = meter.next_in(&room, &mut blob) => piece,
                () = sender.closed() => None,
            };
        }
    };
    let ((), stored) = tokio::join!(feed, store);
    stored.map_err(|_| LayerError::Interrupted)
}

fn store(mut spool: Spool, layer: &Layer, pieces: mpsc::Receiver<Piece>) -> (Spool, Result<(), LayerError>) {
    let before = spool.len();
    let mut result = append(&mut spool, layer, pieces);
    if result.is_err()
        && let Err(error) = spool.truncate(before)
    {
        result = Err(ArchiveError::Spool(error).into());
    }
    (spool, result)
}

fn append(
    spool: &mut Spool,
    Layer { digest, size, .. }: &Layer,
    mut pieces: mpsc::Receiver<Piece>,
) -> Result<(), LayerError> {
    let (mut hasher, mut read) = (Hasher::new(digest.algorithm()), 0);
    let size_error = |actual| BlobError::Size { digest: digest.clone(), expected: *size, actual };
    while let Some(piece) = pieces.blocking_recv() {
        let bytes = piece.map_err(BlobError::Transport)?;
        read += bytes.len() as u64;
        if read > *size {
            return Err(size_error(read).into());
        }
        hasher.update(&bytes);
        spool.append(&bytes).map_err(ArchiveError::Spool)?;
    }
    if read != *size {
        return Err(size_error(read).into());
    }
    let actual = hasher.finish();
    if actual != *digest {
        return Err(BlobError::Digest { expected: digest.clone(), actual }.into());
    }
    Ok(())
}
