//! Metadata watches of the objects of revisions.
//!
//! A kind that the process itself may list is watched once for the whole process. Objects of every other kind, Secrets
//! above all, are watched one by one with the permissions of the ServiceAccount that manages them, so that the process
//! needs no permission to read them.
//!
//! A watch runs while a holder needs it. Of each object only UID and resource version are kept: enough to know that it
//! has not changed since it was last checked. A change wakes the object's controller owner, which an annotation of
//! the caller's choice names where the object has no reference to it.
//!
//! A watch that the API server keeps refusing is known as such: nothing is claimed of its objects any more, who needs
//! the kind is woken, and again when the watch works.

mod trouble;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use futures::{Stream, StreamExt};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ApiResource, DynamicObject, PartialObjectMeta},
    runtime::watcher::{self, Event},
};
use parking_lot::Mutex;
use tokio::task::JoinHandle;

use self::trouble::Trouble;
use crate::{chance::Chance, client::AccountRef, discovery::Kind};

/// The controller owner of an object that changed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum OwnerChanged {
    /// The object has a controller reference.
    Named {
        /// Kind of the owner.
        kind: String,
        /// Name of the owner.
        name: String,
    },
    /// The object has no reference: the UID in its annotation. Also a holder of a kind whose watch began to fail, or
    /// works again.
    Uid {
        /// UID of the owner.
        uid: String,
    },
}

/// Takes the owner of an object that changed.
pub type Changed = Arc<dyn Fn(OwnerChanged) + Send + Sync>;

/// What a holder needs to be watched.
#[derive(Clone)]
pub enum Watched {
    /// All objects of a kind, with the permissions of the process.
    Kind(Kind),
    /// One object, with the permissions of a ServiceAccount.
    Object {
        /// Its kind.
        kind: Kind,
        /// Its namespace; empty for cluster-scoped kinds.
        namespace: String,
        /// Its name.
        name: String,
        /// The ServiceAccount.
        account: AccountRef,
        /// A client that acts as the ServiceAccount.
        client: Client,
    },
}

/// What the watches know of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// The object is not watched, its first list has not arrived, or its watch keeps failing.
    Unknown,
    /// The object does not exist, or does not carry the watched label.
    Absent,
    /// It exists in this state.
    Present {
        /// UID.
        uid: String,
        /// Resource version.
        resource_version: String,
    },
}

type GroupVersionKind = (String, String, String);

/// Namespace and name.
type Place = (String, String);

/// A kind, and for watches of one object its place and the ServiceAccount.
type Key = (GroupVersionKind, Option<(Place, AccountRef)>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    uid: String,
    resource_version: String,
    owner: Option<OwnerChanged>,
}

#[derive(Debug, Default)]
struct Known {
    synced: bool,
    /// What the API server says against the watch, when it has done so for a while.
    failing: Option<String>,
    objects: HashMap<Place, Entry>,
    /// UIDs of those who need the kind.
    holders: BTreeSet<String>,
}

struct Watch {
    known: Arc<Mutex<Known>>,
    task: JoinHandle<()>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Starts and stops watches as they are needed.
#[derive(Clone)]
pub struct WatchManager {
    client: Client,
    label_selector: String,
    owner_annotation: &'static str,
    changed: Changed,
    chance: Chance,
    watches: Arc<Mutex<BTreeMap<Key, Watch>>>,
}

impl WatchManager {
    /// Watches objects with the given label selector; `changed` is called with the owners of changed objects. The
    /// annotation has the UID of the owner of an object that does not refer to it.
    pub fn new(
        client: Client,
        label_selector: &str,
        owner_annotation: &'static str,
        changed: Changed,
        chance: Chance,
    ) -> Self {
        let label_selector = label_selector.to_owned();
        Self { client, label_selector, owner_annotation, changed, chance, watches: Arc::default() }
    }

    /// Says that `holder` needs exactly `wanted`; watches without a holder end.
    pub fn hold(&self, holder: &str, wanted: &[Watched]) {
        let mut watches = self.watches.lock();
        let keys: BTreeSet<Key> = wanted.iter().map(Watched::key).collect();
        watches.retain(|key, watch| {
            let mut known = watch.known.lock();
            if !keys.contains(key) {
                known.holders.remove(holder);
            }
            !known.holders.is_empty()
        });
        for one in wanted {
            let watch = watches.entry(one.key()).or_insert_with(|| self.start(one));
            watch.known.lock().holders.insert(holder.to_owned());
        }
    }

    /// Says that `holder` needs nothing any more.
    pub fn release(&self, holder: &str) {
        self.hold(holder, &[]);
    }

    /// What is known of an object.
    pub fn seen(&self, resource: &ApiResource, namespace: &str, name: &str) -> Seen {
        let watches = self.watches.lock();
        let (kind, place) = (kind_of(resource), (namespace.to_owned(), name.to_owned()));
        // Of several watches of one object each may fail for itself.
        let first = (kind.clone(), Some((place.clone(), AccountRef::default())));
        let of_object = watches.range(first..).map_while(|((k, object), watch)| {
            let (p, _) = object.as_ref()?;
            (*k == kind && *p == place).then_some(watch)
        });
        let of_kind = watches.get(&(kind.clone(), None));
        let usable = |watch: &&Watch| {
            let known = watch.known.lock();
            known.synced && known.failing.is_none()
        };
        let Some(watch) = of_kind.into_iter().chain(of_object).find(usable) else { return Seen::Unknown };
        match watch.known.lock().objects.get(&place) {
            Some(entry) => {
                Seen::Present { uid: entry.uid.clone(), resource_version: entry.resource_version.clone() }
            }
            None => Seen::Absent,
        }
    }

    /// The kinds that `holder` needs and that cannot be watched, as `<Kind>.<group/version>`, each with what the API
    /// server says. Until the watch works again, changes of their objects wake no reconcile.
    pub fn failing(&self, holder: &str) -> BTreeMap<String, String> {
        let watches = self.watches.lock();
        let failing = watches.iter().filter_map(|(((group, version, kind), _), watch)| {
            let known = watch.known.lock();
            let text = known.failing.clone().filter(|_| known.holders.contains(holder))?;
            let separator = if group.is_empty() { "" } else { "/" };
            Some((format!("{kind}.{group}{separator}{version}"), text))
        });
        failing.collect()
    }

    /// Number of watches that run now.
    pub fn count(&self) -> usize {
        self.watches.lock().len()
    }

    fn start(&self, watched: &Watched) -> Watch {
        let known = Arc::new(Mutex::new(Known::default()));
        let config = watcher::Config::default().labels(&self.label_selector);
        let (kind, api, config): (_, Api<Metadata>, _) = match watched {
            Watched::Kind(kind) => (kind, Api::all_with(self.client.clone(), &kind.resource), config),
            Watched::Object { kind, namespace, name, client, .. } => {
                let (client, resource) = (client.clone(), &kind.resource);
                let api = match namespace.as_str() {
                    "" => Api::all_with(client, resource),
                    namespace => Api::namespaced_with(client, namespace, resource),
                };
                // A rule with `resourceNames` allows a list or watch of just this name.
                (kind, api, config.fields(&format!("metadata.name={name}")))
            }
        };
        let task = tokio::spawn(follow(
            self.chance.watch(api, config),
            known.clone(),
            self.changed.clone(),
            (kind.resource.kind.clone(), self.owner_annotation),
        ));
        Watch { known, task }
    }
}

impl Watched {
    fn key(&self) -> Key {
        match self {
            Self::Kind(kind) => (kind_of(&kind.resource), None),
            Self::Object { kind, namespace, name, account, .. } => {
                (kind_of(&kind.resource), Some(((namespace.clone(), name.clone()), account.clone())))
            }
        }
    }
}

fn kind_of(resource: &ApiResource) -> GroupVersionKind {
    (resource.group.clone(), resource.version.clone(), resource.kind.clone())
}

/// Metadata of an object of any kind. One type for all kinds: with one for each there would be as many copies of the code of
/// a watch.
pub type Metadata = PartialObjectMeta<DynamicObject>;

/// The metadata of the objects of a kind, in one namespace or in all.
pub fn metadata_of<K>(client: Client, namespace: Option<&str>) -> Api<Metadata>
where
    K: Resource<DynamicType = ()>,
{
    let resource = ApiResource::erase::<K>(&());
    match namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &resource),
        None => Api::all_with(client, &resource),
    }
}

async fn follow(
    events: impl Stream<Item = watcher::Result<Event<Metadata>>>,
    known: Arc<Mutex<Known>>,
    changed: Changed,
    (kind, owner_annotation): (String, &'static str),
) {
    let mut events = std::pin::pin!(events);
    let mut listed: HashMap<Place, Entry> = HashMap::new();
    let mut trouble = Trouble::default();
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            () = trouble.is_over() => {
                set_failing(&known, None).into_iter().for_each(&*changed);
                trouble = Trouble::default();
                continue;
            }
        };
        let Some(event) = event else { return };
        if trouble.ends_with(&event) {
            trouble = Trouble::default();
            set_failing(&known, None).into_iter().for_each(&*changed);
        }
        let woken = match event {
            Ok(Event::Init) => {
                listed.clear();
                Vec::new()
            }
            Ok(Event::InitApply(object)) => {
                let (place, entry) = record(&object, owner_annotation);
                listed.insert(place, entry);
                Vec::new()
            }
            Ok(Event::InitDone) => replace(&known, std::mem::take(&mut listed)),
            Ok(Event::Apply(object)) => {
                let (place, entry) = record(&object, owner_annotation);
                note(&known, place, Some(entry))
            }
            Ok(Event::Delete(object)) => {
                let (place, entry) = record(&object, owner_annotation);
                let mut woken = note(&known, place, None);
                woken.extend(entry.owner.filter(|owner| !woken.contains(owner)));
                woken
            }
            Err(error) => {
                tracing::debug!(kind, %error, "watch interrupted");
                match trouble.report(&error) {
                    Some(text) => set_failing(&known, Some(text)),
                    None => Vec::new(),
                }
            }
        };
        woken.into_iter().for_each(&*changed);
    }
}

/// Notes that the watch keeps failing, or works again; returns whom to wake, which is everybody if that is news.
fn set_failing(known: &Mutex<Known>, text: Option<String>) -> Vec<OwnerChanged> {
    let mut known = known.lock();
    let is_news = known.failing.is_some() != text.is_some();
    known.failing = text;
    let holders = known.holders.iter().filter(|_| is_news);
    holders.map(|uid| OwnerChanged::Uid { uid: uid.clone() }).collect()
}

/// Notes an object as it is now and returns its controller owners, the one before and the one now: who loses an
/// object to another one is to know.
fn note(known: &Mutex<Known>, place: Place, now: Option<Entry>) -> Vec<OwnerChanged> {
    let mut known = known.lock();
    let mut owners: Vec<OwnerChanged> = now.iter().filter_map(|entry| entry.owner.clone()).collect();
    let before = match now {
        Some(entry) => known.objects.insert(place, entry),
        None => known.objects.remove(&place),
    };
    let before = before.and_then(|entry| entry.owner).filter(|owner| !owners.contains(owner));
    owners.extend(before);
    owners
}

/// Takes a new list for the truth and returns the owners of everything that differs from the old one.
fn replace(known: &Mutex<Known>, listed: HashMap<Place, Entry>) -> Vec<OwnerChanged> {
    let mut known = known.lock();
    let before = std::mem::replace(&mut known.objects, listed);
    known.synced = true;
    let appeared = known.objects.iter().filter(|(place, entry)| before.get(*place) != Some(entry));
    let vanished = before.iter().filter(|(place, entry)| known.objects.get(*place) != Some(entry));
    let mut owners: Vec<OwnerChanged> =
        appeared.chain(vanished).filter_map(|(_, entry)| entry.owner.clone()).collect();
    owners.sort_unstable();
    owners.dedup();
    owners
}

fn record(object: &Metadata, owner_annotation: &str) -> (Place, Entry) {
    let place = (object.namespace().unwrap_or_default(), object.name_any());
    let controller = object.owner_references().iter().find(|r| r.controller == Some(true));
    let annotated =
        || object.annotations().get(owner_annotation).map(|uid| OwnerChanged::Uid { uid: uid.clone() });
    let owner = controller
        .map(|r| OwnerChanged::Named { kind: r.kind.clone(), name: r.name.clone() })
        .or_else(annotated);
    let entry = Entry {
        uid: object.uid().unwrap_or_default(),
        resource_version: object.resource_version().unwrap_or_default(),
        owner,
    };
    (place, entry)
}

#[cfg(test)]
mod tests;
