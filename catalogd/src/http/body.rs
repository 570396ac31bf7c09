//! Answers as streams of pieces of a generation's lines, read as the client takes them.

use std::{collections::VecDeque, io, ops::Range, sync::Arc};

use axum::body::{Body, Bytes};
use futures::stream;

use crate::{limits::CHUNK_BYTES, store::Generation};

/// A piece of an answer.
pub(super) enum Part {
    /// Text of our own, as between the parts of a multi-part answer.
    Text(Bytes),
    /// A range of the lines.
    Lines(Range<u64>),
}

/// Length of all parts together in bytes.
pub(super) fn length(parts: &[Part]) -> u64 {
    parts
        .iter()
        .map(|part| match part {
            Part::Text(text) => text.len() as u64,
            Part::Lines(range) => range.end - range.start,
        })
        .sum()
}

/// Streams the parts. Files are read on blocking threads, a bounded piece at a time.
pub(super) fn stream(generation: Arc<Generation>, parts: Vec<Part>) -> Body {
    if length(&parts) == 0 {
        return Body::empty();
    }
    let pieces = stream::try_unfold((generation, VecDeque::from(parts)), |(generation, mut parts)| async {
        if parts.is_empty() {
            return Ok::<_, io::Error>(None);
        }
        let read = move || -> io::Result<_> {
            let piece = fill(&generation, &mut parts)?;
            Ok(Some((piece, (generation, parts))))
        };
        tokio::task::spawn_blocking(read).await.map_err(io::Error::other)?
    });
    Body::from_stream(pieces)
}

/// Reads the next piece and takes it off the parts.
fn fill(generation: &Generation, parts: &mut VecDeque<Part>) -> io::Result<Bytes> {
    let mut piece = Vec::new();
    while piece.len() < CHUNK_BYTES {
        match parts.pop_front() {
            None => break,
            Some(Part::Text(text)) => piece.extend_from_slice(&text),
            Some(Part::Lines(range)) => {
                let room = (CHUNK_BYTES - piece.len()) as u64;
                let end = range.end.min(range.start + room);
                let at = piece.len();
                piece.resize(at + usize::try_from(end - range.start).map_err(io::Error::other)?, 0);
                generation.read_lines(&mut piece[at..], range.start)?;
                if end < range.end {
                    parts.push_front(Part::Lines(end..range.end));
                }
            }
        }
    }
    Ok(piece.into())
}
