//! Objects as the text of answers, in the form that the client accepts; long answers in pieces.

use std::{io, sync::Arc};

use axum::body::{Body, Bytes};
use futures::stream;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::json;

use crate::{Names, Object, accept::Form, table};

/// Bytes of an answer that are made at once.
const PIECE_BYTES: usize = 256 << 10;

/// How objects are written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Writer {
    pub(crate) names: &'static Names,
    pub(crate) form: Form,
    /// Of tables: `None`, `Metadata` or `Object`, for each row.
    pub(crate) include: Include,
    pub(crate) now: Timestamp,
}

/// The part of an object that a row of a table holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Include {
    Nothing,
    Metadata,
    Object,
}

impl Writer {
    /// An object that is an answer of its own, or part of an event.
    pub(crate) fn single<O: Object>(&self, object: &O, version: u64, out: &mut Vec<u8>) -> io::Result<()> {
        if let Form::Table(_) = self.form {
            self.head(version, out)?;
            self.item(object, None, out)?;
            out.extend_from_slice(b"]}");
            return Ok(());
        }
        self.object(object, true, None, out)
    }

    /// The same with a resource version, as events have it.
    pub(crate) fn event<O: Object>(
        &self,
        kind: &str,
        object: &O,
        version: u64,
        out: &mut Vec<u8>,
    ) -> io::Result<()> {
        out.extend_from_slice(format!("{{\"type\":\"{kind}\",\"object\":").as_bytes());
        if let Form::Table(_) = self.form {
            self.head(version, out)?;
            self.item(object, Some(version), out)?;
            out.extend_from_slice(b"]}");
        } else {
            self.object(object, true, Some(version), out)?;
        }
        out.extend_from_slice(b"}\n");
        Ok(())
    }

    /// A list.
    pub(crate) fn list<O: Object>(&self, version: u64, objects: Vec<O>) -> io::Result<Body> {
        let mut head = Vec::new();
        self.head(version, &mut head)?;
        let writer = *self;
        let mut first = true;
        Ok(pieces(head, objects.into_iter(), b"]}\n", move |object, out| {
            if !std::mem::take(&mut first) {
                out.push(b',');
            }
            writer.item(&object, None, out)
        }))
    }

    fn head(&self, version: u64, out: &mut Vec<u8>) -> io::Result<()> {
        let version = version.to_string();
        let (kind, api_version, items) = match self.form {
            Form::Object => (format!("{}List", self.names.kind), self.names.api_version(), "items"),
            Form::Metadata => ("PartialObjectMetadataList".to_owned(), "meta.k8s.io/v1".to_owned(), "items"),
            Form::Table(version) => ("Table".to_owned(), format!("meta.k8s.io/{version}"), "rows"),
        };
        let text = format!(
            "{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",\"metadata\":{{\"resourceVersion\":\"{version}\"}},"
        );
        out.extend_from_slice(text.as_bytes());
        if let Form::Table(_) = self.form {
            out.extend_from_slice(b"\"columnDefinitions\":");
            append(&table::columns(self.names.columns), out)?;
            out.push(b',');
        }
        out.extend_from_slice(format!("\"{items}\":[").as_bytes());
        Ok(())
    }

    /// A member of a list, or a row.
    fn item<O: Object>(&self, object: &O, version: Option<u64>, out: &mut Vec<u8>) -> io::Result<()> {
        if !matches!(self.form, Form::Table(_)) {
            return self.object(object, self.form == Form::Metadata, version, out);
        }
        out.extend_from_slice(b"{\"cells\":");
        append(&object.cells(self.now), out)?;
        out.extend_from_slice(b",\"object\":");
        let form = match self.include {
            Include::Nothing => {
                out.extend_from_slice(b"null}");
                return Ok(());
            }
            Include::Metadata => Form::Metadata,
            Include::Object => Form::Object,
        };
        Self { form, ..*self }.object(object, true, version, out)?;
        out.push(b'}');
        Ok(())
    }

    /// An object or its metadata.
    fn object<O: Object>(
        &self,
        object: &O,
        typed: bool,
        version: Option<u64>,
        out: &mut Vec<u8>,
    ) -> io::Result<()> {
        out.push(b'{');
        if typed {
            let (kind, api_version) = match self.form {
                Form::Metadata => ("PartialObjectMetadata", "meta.k8s.io/v1".to_owned()),
                _ => (self.names.kind, self.names.api_version()),
            };
            let text = format!("\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",");
            out.extend_from_slice(text.as_bytes());
        }
        out.extend_from_slice(b"\"metadata\":");
        match version {
            None => append(object.metadata(), out)?,
            Some(version) => {
                let mut metadata = object.metadata().clone();
                metadata.resource_version = Some(version.to_string());
                append(&metadata, out)?;
            }
        }
        if self.form != Form::Metadata {
            out.push(b',');
            object.write_members(out)?;
        }
        out.push(b'}');
        Ok(())
    }

    /// The event that says up to which version a watch is.
    pub(crate) fn bookmark(&self, version: u64, initial_end: bool) -> Bytes {
        let mut metadata = json!({ "resourceVersion": version.to_string() });
        if initial_end {
            metadata["annotations"] = json!({ "k8s.io/initial-events-end": "true" });
        }
        let object = match self.form {
            Form::Object => {
                json!({ "kind": self.names.kind, "apiVersion": self.names.api_version(), "metadata": metadata })
            }
            Form::Metadata => {
                json!({ "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata })
            }
            Form::Table(group_version) => {
                let cells: Vec<_> = self.names.columns.iter().map(|_| "").collect();
                let partial = json!({
                    "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
                });
                json!({
                    "kind": "Table", "apiVersion": format!("meta.k8s.io/{group_version}"),
                    "metadata": { "resourceVersion": version.to_string() },
                    "columnDefinitions": table::columns(self.names.columns),
                    "rows": [{ "cells": cells, "object": partial }],
                })
            }
        };
        Bytes::from(format!("{}\n", json!({ "type": "BOOKMARK", "object": object })))
    }
}

fn append(value: &impl Serialize, out: &mut Vec<u8>) -> io::Result<()> {
    serde_json::to_writer(out, value).map_err(io::Error::from)
}

/// A body of pieces, each written on a blocking thread when the client has taken the one before. An answer that fails
/// half-way breaks off.
fn pieces<T: Send + 'static>(
    head: Vec<u8>,
    items: impl Iterator<Item = T> + Send + 'static,
    tail: &'static [u8],
    write: impl FnMut(T, &mut Vec<u8>) -> io::Result<()> + Send + 'static,
) -> Body {
    let state = Some((head, items, write));
    Body::from_stream(stream::try_unfold(state, move |state| async move {
        let Some((mut buffer, mut items, mut write)) = state else { return Ok(None) };
        let work = tokio::task::spawn_blocking(move || {
            while buffer.len() < PIECE_BYTES {
                let Some(item) = items.next() else {
                    buffer.extend_from_slice(tail);
                    return Ok((Bytes::from(buffer), None));
                };
                write(item, &mut buffer)?;
            }
            let piece = Bytes::from(std::mem::take(&mut buffer));
            Ok::<_, io::Error>((piece, Some((buffer, items, write))))
        });
        let made = work.await.map_err(io::Error::other)?;
        made.inspect_err(|error| tracing::warn!(%error, "an answer breaks off")).map(Some)
    }))
}

/// Text that is the same for everybody, with its entity tag.
#[derive(Debug, Clone)]
pub(crate) struct Document {
    pub(crate) text: Bytes,
    pub(crate) etag: Arc<str>,
}

impl Document {
    pub(crate) fn new(value: &serde_json::Value) -> Self {
        use sha2::{Digest, Sha256};
        let text = value.to_string();
        let etag = Sha256::digest(&text).iter().fold(String::new(), |text, byte| format!("{text}{byte:02X}"));
        Self { text: Bytes::from(text), etag: etag.into() }
    }
}
