//! Answers as streams of chunks of a generation's files, read as the client takes them.

use std::{collections::VecDeque, io, ops::Range, sync::Arc};

use axum::{
    body::{Body, Bytes},
    http::{HeaderValue, Response, StatusCode, header},
};
use futures::{StreamExt, stream};

use super::{all::JSON_LINES, set, status_text};
use crate::{compressed::GzipMember, limits::CHUNK_BYTES, store::Generation};

/// A part of an answer.
pub(super) enum Part {
    /// Text of our own, as between the parts of a multi-part answer.
    Text(Bytes),
    /// A range of the lines.
    Lines(Range<u64>),
    /// A range of the compressed lines.
    Compressed(Range<u64>),
}

/// An answer whose body may have to be read yet.
pub(super) enum Answer {
    Whole(Response<Body>),
    Parts(Response<Vec<Part>>, Arc<Generation>),
}

/// The head and the parts of an answer with the lines of these ranges, in a compressed form if there is one.
pub(super) fn lines(lines: Vec<Range<u64>>, member: Option<GzipMember>) -> Response<Vec<Part>> {
    let mut response = match member {
        None => Response::new(lines.into_iter().map(Part::Lines).collect()),
        Some(member) => {
            let mut response = Response::new(compressed(member));
            response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            response
        }
    };
    let bytes = length(response.body());
    set(&mut response, header::CONTENT_LENGTH, &bytes.to_string());
    response.headers_mut().insert(header::CONTENT_TYPE, JSON_LINES);
    response
}

impl Answer {
    /// The response with its head; what can be read at once is read before it is sent, so that a file that
    /// cannot be read is an error and not an answer that breaks off.
    pub(super) async fn into_response(self, without_body: bool) -> Response<Body> {
        let (response, generation) = match self {
            Self::Whole(response) => return response,
            Self::Parts(response, generation) => (response, generation),
        };
        let (head, parts) = response.into_parts();
        if without_body {
            return Response::from_parts(head, Body::empty());
        }
        match open(generation, parts).await {
            Ok(body) => Response::from_parts(head, body),
            Err(error) => {
                tracing::error!(%error, "reading catalog content");
                status_text(match error.kind() {
                    io::ErrorKind::PermissionDenied => StatusCode::FORBIDDEN,
                    _ => StatusCode::INTERNAL_SERVER_ERROR,
                })
            }
        }
    }
}

fn compressed(member: GzipMember) -> Vec<Part> {
    let mut parts = vec![Part::Text(Bytes::from_static(GzipMember::HEAD))];
    let tail = Bytes::copy_from_slice(&member.tail);
    parts.extend(member.ranges.into_iter().map(Part::Compressed));
    parts.push(Part::Text(tail));
    parts
}

/// Length of all parts together in bytes.
pub(super) fn length(parts: &[Part]) -> u64 {
    parts.iter().map(Part::length).sum()
}

impl Part {
    fn length(&self) -> u64 {
        match self {
            Self::Text(text) => text.len() as u64,
            Self::Lines(range) | Self::Compressed(range) => range.end - range.start,
        }
    }
}

/// Reads the first chunk; the others follow as the client takes them, on blocking threads.
async fn open(generation: Arc<Generation>, parts: Vec<Part>) -> io::Result<Body> {
    if length(&parts) == 0 {
        return Ok(Body::empty());
    }
    let (first, rest) = next(generation, parts.into()).await?;
    if rest.1.is_empty() {
        return Ok(Body::from(first));
    }
    let others = stream::try_unfold(rest, |(generation, parts)| async {
        if parts.is_empty() {
            return Ok::<_, io::Error>(None);
        }
        next(generation, parts).await.map(Some)
    });
    Ok(Body::from_stream(stream::once(std::future::ready(Ok(first))).chain(others)))
}

type Rest = (Arc<Generation>, VecDeque<Part>);

async fn next(generation: Arc<Generation>, mut parts: VecDeque<Part>) -> io::Result<(Bytes, Rest)> {
    // Allocated here: of the threads that read there are dozens, and each that allocates keeps memory of its own.
    let mut chunk = Vec::with_capacity(chunk_length(&parts));
    let read = move || {
        fill(&mut chunk, &generation, &mut parts)?;
        Ok((chunk.into(), (generation, parts)))
    };
    tokio::task::spawn_blocking(read).await.map_err(io::Error::other)?
}

/// Length of the next chunk in bytes.
fn chunk_length(parts: &VecDeque<Part>) -> usize {
    let mut length = 0;
    for part in parts {
        length += part.length();
        if length >= CHUNK_BYTES as u64 {
            return CHUNK_BYTES;
        }
    }
    usize::try_from(length).unwrap_or(CHUNK_BYTES)
}

/// Reads the next chunk and removes it from the parts.
fn fill(chunk: &mut Vec<u8>, generation: &Generation, parts: &mut VecDeque<Part>) -> io::Result<()> {
    while chunk.len() < CHUNK_BYTES {
        let (range, is_compressed) = match parts.pop_front() {
            None => break,
            Some(Part::Text(text)) => {
                chunk.extend_from_slice(&text);
                continue;
            }
            Some(Part::Lines(range)) => (range, false),
            Some(Part::Compressed(range)) => (range, true),
        };
        let room = (CHUNK_BYTES - chunk.len()) as u64;
        let end = range.end.min(range.start + room);
        let at = chunk.len();
        chunk.resize(at + usize::try_from(end - range.start).map_err(io::Error::other)?, 0);
        if is_compressed {
            generation.read_compressed(&mut chunk[at..], range.start)?;
        } else {
            generation.read_lines(&mut chunk[at..], range.start)?;
        }
        if end < range.end {
            let rest = end..range.end;
            parts.push_front(if is_compressed { Part::Compressed(rest) } else { Part::Lines(rest) });
        }
    }
    Ok(())
}
