//! A watch: the events that make one listing the next.

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    sync::Arc,
    time::Duration,
};

use axum::body::{Body, Bytes};
use futures::stream;
use tokio::{
    sync::{OwnedSemaphorePermit, watch},
    time::{Instant, sleep_until},
};

use crate::{Listing, Object, Resource, selector::Filter, written::Writer};

/// Bytes of events that are made at once.
const PIECE_BYTES: usize = 256 << 10;
/// How often a client is sent the version, if it asked for that.
const BOOKMARK_INTERVAL: Duration = Duration::from_mins(1);
/// How long a watch lasts at most; a server's limit for one answer is longer.
const WATCH_MAX: Duration = Duration::from_secs(270);

/// How a watch begins, and what it shows.
pub(crate) struct Terms {
    pub(crate) namespace: Option<String>,
    pub(crate) filter: Filter,
    pub(crate) writer: Writer,
    /// Whether the objects that exist are sent as events first.
    pub(crate) initial: bool,
    pub(crate) bookmarks: bool,
    /// Whether the end of the first events is marked.
    pub(crate) initial_end: bool,
    pub(crate) lasts: Option<Duration>,
}

type Known<O> = BTreeMap<(String, String), O>;

struct Watch<R: Resource> {
    resource: Arc<R>,
    terms: Terms,
    versions: watch::Receiver<u64>,
    known: Known<R::Object>,
    version: u64,
    due: VecDeque<Due<R::Object>>,
    ends: Instant,
    bookmark: Instant,
    _place: OwnedSemaphorePermit,
}

enum Due<O> {
    Event(&'static str, O, u64),
    Bookmark { initial_end: bool },
}

/// The body of a watch from `listing` on, which is what the resource lists now or listed before.
pub(crate) fn body<R: Resource>(
    resource: Arc<R>,
    terms: Terms,
    versions: watch::Receiver<u64>,
    listing: Listing<R::Object>,
    place: OwnedSemaphorePermit,
) -> Body {
    let now = Instant::now();
    let ends = now + terms.lasts.unwrap_or(WATCH_MAX).min(WATCH_MAX);
    let (known, version) = (selected(&terms.filter, listing.objects), listing.version);
    let mut due = VecDeque::new();
    if terms.initial {
        due.extend(known.values().map(|object| Due::Event("ADDED", object.clone(), version)));
    }
    if terms.initial_end {
        due.push_back(Due::Bookmark { initial_end: true });
    }
    let bookmark = now + BOOKMARK_INTERVAL;
    let mut watch = Watch { resource, terms, versions, known, version, due, ends, bookmark, _place: place };
    watch.changed();
    Body::from_stream(stream::try_unfold(watch, Watch::next))
}

fn selected<O: Object>(filter: &Filter, objects: Vec<O>) -> Known<O> {
    let mut known = BTreeMap::new();
    for object in objects {
        let metadata = object.metadata();
        if filter.matches(metadata) {
            let key =
                (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default());
            known.entry(key).or_insert(object);
        }
    }
    known
}

impl<R: Resource> Watch<R> {
    /// The next bytes, when there are some; `None` at the end of the watch.
    async fn next(mut self) -> io::Result<Option<(Bytes, Self)>> {
        while self.due.is_empty() {
            tokio::select! {
                biased;
                () = sleep_until(self.ends) => return Ok(None),
                changed = self.versions.changed() => {
                    if changed.is_err() {
                        return Ok(None);
                    }
                    self.changed();
                }
                () = sleep_until(self.bookmark), if self.terms.bookmarks => {
                    self.bookmark = Instant::now() + BOOKMARK_INTERVAL;
                    self.due.push_back(Due::Bookmark { initial_end: false });
                }
            }
        }
        let work = tokio::task::spawn_blocking(move || {
            let mut out = Vec::new();
            while out.len() < PIECE_BYTES
                && let Some(due) = self.due.pop_front()
            {
                match due {
                    Due::Event(kind, object, version) => {
                        self.terms.writer.event(kind, &object, version, &mut out)?;
                    }
                    Due::Bookmark { initial_end } => {
                        out.extend_from_slice(&self.terms.writer.bookmark(self.version, initial_end));
                    }
                }
            }
            Ok(Some((Bytes::from(out), self)))
        });
        work.await.map_err(io::Error::other)?
    }

    /// Compares what is listed now with what the client knows.
    fn changed(&mut self) {
        let listing = self.resource.list(self.terms.namespace.as_deref());
        if listing.version == self.version {
            return;
        }
        self.version = listing.version;
        let now = selected(&self.terms.filter, listing.objects);
        let mut before = std::mem::take(&mut self.known);
        for (key, object) in &now {
            let kind = match before.remove(key) {
                None => "ADDED",
                Some(old) if old.fingerprint() != object.fingerprint() => "MODIFIED",
                Some(_) => continue,
            };
            self.due.push_back(Due::Event(kind, object.clone(), listing.version));
        }
        let gone = before.into_values().map(|object| Due::Event("DELETED", object, listing.version));
        self.due.extend(gone);
        self.known = now;
    }
}
