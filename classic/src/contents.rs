//! The content of every CatalogSource that this process has read: what the registry API, the PackageManifests and the
//! resolution read.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use catalogd::Generation;
use olm_api_classic::CatalogSource;
use olm_image::image_syntax;
use parking_lot::{Mutex, RwLock};
use tokio::sync::{broadcast, watch};

use crate::sources::is_of_image;

/// Changes that a slow listener may be behind before it misses some.
const CHANGES_BUFFERED: usize = 256;

/// Namespace and name of a CatalogSource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceKey {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl fmt::Display for SourceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The content of a CatalogSource.
#[derive(Debug, Clone)]
pub struct Content {
    /// The object as it was read last: its labels, names for people, priority and age.
    pub source: Arc<CatalogSource>,
    /// The catalog, whatever type of source it came from: file-based catalog documents, with an index.
    pub generation: Arc<Generation>,
}

/// Whether a text is the reference of an image.
pub(crate) type ImageSyntax = fn(&str) -> Result<(), String>;

impl Content {
    /// How references of images are checked. The rules of opm are those of images; a ConfigMap may have two bundles of one
    /// version, for instance, and what a registry server serves has been checked by it.
    pub(crate) fn image_syntax(&self) -> Option<ImageSyntax> {
        image_syntax_of(&self.generation)
    }
}

pub(crate) fn image_syntax_of(generation: &Generation) -> Option<ImageSyntax> {
    is_of_image(generation).then_some(image_syntax as ImageSyntax)
}

/// The contents of all CatalogSources. Clones are the same.
#[derive(Debug, Clone)]
pub struct Contents(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    contents: RwLock<BTreeMap<SourceKey, Content>>,
    changes: broadcast::Sender<SourceKey>,
    first: Mutex<First>,
    /// Whether the first reading is over.
    read: watch::Sender<bool>,
}

/// The first reading of the CatalogSources that there were when the process started.
#[derive(Debug, Default)]
struct First {
    /// Those that have been tried before all were listed.
    tried: BTreeSet<SourceKey>,
    /// Those that have not been tried, once all were listed.
    left: Option<BTreeSet<SourceKey>>,
}

impl Default for Contents {
    fn default() -> Self {
        let (changes, _) = broadcast::channel(CHANGES_BUFFERED);
        let (first, read) = (Mutex::default(), watch::Sender::new(false));
        Self(Arc::new(Shared { contents: RwLock::default(), changes, first, read }))
    }
}

impl Contents {
    /// The content of a CatalogSource, if there is any.
    pub fn get(&self, key: &SourceKey) -> Option<Content> {
        self.0.contents.read().get(key).cloned()
    }

    /// The contents of all CatalogSources, by namespace and name.
    pub fn all(&self) -> Vec<(SourceKey, Content)> {
        self.0.contents.read().iter().map(|(key, content)| (key.clone(), content.clone())).collect()
    }

    /// The contents of the CatalogSources of a namespace, by name.
    pub fn of_namespace(&self, namespace: &str) -> Vec<(SourceKey, Content)> {
        let contents = self.0.contents.read();
        let of = contents.iter().filter(|(key, _)| key.namespace == namespace);
        of.map(|(key, content)| (key.clone(), content.clone())).collect()
    }

    /// Reports every CatalogSource whose content, names or labels become others, from now on.
    pub fn changes(&self) -> broadcast::Receiver<SourceKey> {
        self.0.changes.subscribe()
    }

    /// Takes note of the CatalogSources that there are. Until each of them has been tried, the contents are not all that
    /// this process should have.
    pub fn listed(&self, keys: impl IntoIterator<Item = SourceKey>) {
        let mut first = self.0.first.lock();
        let tried = std::mem::take(&mut first.tried);
        let left: BTreeSet<_> = keys.into_iter().filter(|key| !tried.contains(key)).collect();
        if left.is_empty() {
            self.0.read.send_replace(true);
        }
        first.left = Some(left);
    }

    /// Takes note that the content of a CatalogSource is offered, or that it cannot be now.
    pub(crate) fn tried(&self, key: &SourceKey) {
        if *self.0.read.borrow() {
            return;
        }
        let mut first = self.0.first.lock();
        match &mut first.left {
            None => drop(first.tried.insert(key.clone())),
            Some(left) => {
                left.remove(key);
                if left.is_empty() {
                    self.0.read.send_replace(true);
                }
            }
        }
    }

    /// Ends the first reading: who waited for it has what there is.
    pub(crate) fn give_up(&self) {
        if let Err(missing) = self.ready() {
            tracing::warn!("starting without all catalogs: {missing}");
            self.0.read.send_replace(true);
        }
    }

    /// Whether the first reading is over.
    pub(crate) fn read(&self) -> watch::Receiver<bool> {
        self.0.read.subscribe()
    }

    /// Why the first reading is not over.
    pub(crate) fn ready(&self) -> Result<(), String> {
        if *self.0.read.borrow() {
            return Ok(());
        }
        match &self.0.first.lock().left {
            None => Err("CatalogSources not listed yet".to_owned()),
            Some(left) => {
                let first = left.first().map(SourceKey::to_string).unwrap_or_default();
                let others = left.len().saturating_sub(1);
                let more = if others == 0 { String::new() } else { format!(" and {others} more") };
                Err(format!("CatalogSource {first}{more} not read yet"))
            }
        }
    }

    /// Offers the content of a CatalogSource, or none any more.
    pub fn set(&self, key: &SourceKey, content: Option<Content>) {
        let mut contents = self.0.contents.write();
        let is_same = match (contents.get(key), &content) {
            (None, None) => true,
            (Some(before), Some(after)) => {
                Arc::ptr_eq(&before.generation, &after.generation)
                    && shows_same(&before.source, &after.source)
            }
            _ => false,
        };
        match content {
            Some(content) => contents.insert(key.clone(), content),
            None => contents.remove(key),
        };
        drop(contents);
        if !is_same {
            // Without listeners there is no error.
            let _ = self.0.changes.send(key.clone());
        }
    }
}

/// Whether two states of a CatalogSource show the same to readers of its content.
fn shows_same(one: &CatalogSource, other: &CatalogSource) -> bool {
    one.spec == other.spec
        && one.metadata.labels == other.metadata.labels
        && one.metadata.uid == other.metadata.uid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reading_is_over_when_every_source_was_tried() {
        let key = |name: &str| SourceKey { namespace: "n".to_owned(), name: name.to_owned() };
        let contents = Contents::default();
        assert_eq!(contents.ready().unwrap_err(), "CatalogSources not listed yet");
        contents.tried(&key("early"));
        contents.listed(["early", "late", "later"].map(key));
        assert_eq!(contents.ready().unwrap_err(), "CatalogSource n/late and 1 more not read yet");
        contents.tried(&key("later"));
        contents.tried(&key("new"));
        assert_eq!(contents.ready().unwrap_err(), "CatalogSource n/late not read yet");
        assert!(!*contents.read().borrow());
        contents.tried(&key("late"));
        assert!(contents.ready().is_ok() && *contents.read().borrow());
        let empty = Contents::default();
        empty.listed([]);
        assert!(empty.ready().is_ok());
        let slow = Contents::default();
        slow.listed([key("slow")]);
        slow.give_up();
        assert!(slow.ready().is_ok());
    }
}
