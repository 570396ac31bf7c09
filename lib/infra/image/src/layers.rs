//! One layer after the other: from the registry through digest check, decompression and tar loop.
//!
//! The network side runs on the async runtime, the CPU side in a blocking thread; a bounded channel between them
//! is all that is held in memory. A layer whose transfer broke is tried again from a checkpoint.

use std::io::{self, Read as _};

use bytes::Bytes;
use futures::stream::BoxStream;
use thiserror::Error;
use tokio::sync::mpsc;

use crate::{
    archive::{ArchiveError, Unpacker},
    blob::{BlobError, BlobReader, LayerReader, Piece},
    digest::Digest,
    limits::{BLOB_CHUNKS_IN_FLIGHT, Limits},
    registry::RegistryError,
    speed::Meter,
    unpacking::{Rooms, room},
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
    /// The thread that unpacked it panicked.
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

/// The state of an image that is being read.
pub(crate) struct Assembly {
    pub(crate) unpacker: Unpacker,
    pub(crate) uncompressed: u64,
}

/// A blob's bytes as they arrive.
pub type BlobStream = BoxStream<'static, Result<Bytes, RegistryError>>;

/// Applies one layer, once there is room for it. The assembly comes back in any case, as it was if the layer failed.
pub(crate) async fn apply(
    assembly: Assembly,
    layer: Layer,
    mut blob: BlobStream,
    limits: Limits,
    (meter, rooms): (&mut Meter, &Rooms),
    mut arrived: impl FnMut(u64),
) -> Result<(Assembly, Result<(), LayerError>), LayerError> {
    // A registry that sends nothing takes no room.
    let first = meter.next(&mut blob).await;
    let room =
        rooms.take(first.as_ref().and_then(|piece| piece.as_ref().ok()).map_or(1, |piece| room(piece)));
    let room = room.await;
    let (sender, pieces) = mpsc::channel::<Piece>(BLOB_CHUNKS_IN_FLIGHT);
    let unpack = tokio::task::spawn_blocking(move || unpack(assembly, &layer, pieces, limits));
    let feed = async {
        // The thread waits for the end of the channel.
        let sender = sender;
        let mut next = first;
        while let Some(piece) = next {
            let failed = piece.is_err();
            arrived(piece.as_ref().map_or(0, |bytes| bytes.len() as u64));
            // A closed channel means that unpacking ended early; it says why.
            if sender.send(piece).await.is_err() || failed {
                break;
            }
            // Unpacking that ended early must not wait for a registry that has stopped sending.
            next = tokio::select! {
                piece = meter.next_in(&room, &mut blob) => piece,
                () = sender.closed() => None,
            };
        }
    };
    let ((), unpacked) = tokio::join!(feed, unpack);
    unpacked.map_err(|_| LayerError::Interrupted)
}

fn unpack(
    mut assembly: Assembly,
    layer: &Layer,
    pieces: mpsc::Receiver<Piece>,
    limits: Limits,
) -> (Assembly, Result<(), LayerError>) {
    let checkpoint = assembly.unpacker.checkpoint();
    let blob = BlobReader::new(pieces, layer.digest.clone(), layer.size);
    let state = blob.state();
    let before = assembly.uncompressed;
    let result = LayerReader::new(blob, limits, before)
        .map_err(|error| LayerError::Archive(error.into()))
        .and_then(|reader| {
            let mut archive = tar::Archive::new(reader);
            let applied = assembly.unpacker.apply(layer.index, &mut archive);
            let mut reader = archive.into_inner();
            // What follows the archive's end is padding, but the digest covers it.
            let drained =
                applied.and_then(|()| Ok(io::copy(&mut reader.by_ref(), &mut io::sink()).map(drop)?));
            if let Err(error) = drained {
                if !matches!(error, ArchiveError::Spool(_)) {
                    reader.doubt();
                }
                return Err(error.into());
            }
            assembly.uncompressed = before.saturating_add(reader.produced());
            if state.is_verified() {
                Ok(())
            } else {
                Err(BlobError::Content(format!(
                    "data after the end of the compressed stream of {}",
                    layer.digest
                ))
                .into())
            }
        })
        // What ended the blob's bytes is the cause of whatever the decoder or the archive said then.
        .map_err(|error| state.take_failure().map_or(error, LayerError::Blob));
    let result = match result {
        Ok(()) => Ok(()),
        Err(error) => {
            assembly.uncompressed = before;
            match assembly.unpacker.roll_back(checkpoint) {
                Ok(()) => Err(error),
                Err(spool) => Err(LayerError::Archive(spool)),
            }
        }
    };
    (assembly, result)
}
