//! One metadata watch per kind for the whole process.
//!
//! Revisions say which kinds they need; a kind is watched while somebody needs it. Of each object only UID and
//! resource version are kept: enough to know that it has not changed since it was last looked at. A change
//! wakes the object's controller owner, which an annotation names where a deletion policy keeps the object.
//!
//! A watch that the API server keeps refusing is known as such: nothing is claimed of its objects any more, who needs
//! the kind is woken, and again when the watch works.

mod trouble;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures::{Stream, StreamExt};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, PartialObjectMeta},
    runtime::{
        WatchStreamExt,
        watcher::{self, Event},
    },
};
use olm_api::names::OWNER_UID_ANNOTATION;
use tokio::{sync::mpsc, task::JoinHandle};

use self::trouble::Trouble;
use crate::{chance::Chance, discovery::Kind};

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
    /// The object is kept without a reference: the UID in its annotation. Also whoever needs a kind whose watch began
    /// to fail, or works again.
    Kept {
        /// UID of the owner.
        uid: String,
    },
}

/// What the watch of a kind knows of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// The kind is not watched, its first list has not arrived, or its watch keeps failing.
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

struct KindWatch {
    known: Arc<Mutex<Known>>,
    task: JoinHandle<()>,
}

impl Drop for KindWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Starts and stops watches as they are needed.
#[derive(Clone)]
pub struct WatchManager {
    client: Client,
    label_selector: String,
    changed: mpsc::Sender<OwnerChanged>,
    chance: Chance,
    kinds: Arc<Mutex<BTreeMap<GroupVersionKind, KindWatch>>>,
}

impl WatchManager {
    /// Watches objects with the given label selector; owners of changed objects are sent to `changed`.
    pub fn new(
        client: Client,
        label_selector: &str,
        changed: mpsc::Sender<OwnerChanged>,
        chance: Chance,
    ) -> Self {
        Self { client, label_selector: label_selector.to_owned(), changed, chance, kinds: Arc::default() }
    }

    /// Says that `holder` needs exactly `kinds`; watches that nobody needs any more end.
    pub fn hold(&self, holder: &str, kinds: &[Kind]) {
        let mut watches = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted: BTreeSet<_> = kinds.iter().map(|k| key(&k.resource)).collect();
        watches.retain(|key, watch| {
            let mut known = watch.known();
            if !wanted.contains(key) {
                known.holders.remove(holder);
            }
            !known.holders.is_empty()
        });
        for kind in kinds {
            let watch = watches.entry(key(&kind.resource)).or_insert_with(|| self.start(&kind.resource));
            watch.known().holders.insert(holder.to_owned());
        }
    }

    /// Says that `holder` needs nothing any more.
    pub fn release(&self, holder: &str) {
        self.hold(holder, &[]);
    }

    /// What is known of an object.
    pub fn seen(&self, resource: &ApiResource, namespace: &str, name: &str) -> Seen {
        let watches = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(watch) = watches.get(&key(resource)) else { return Seen::Unknown };
        let known = watch.known();
        if !known.synced || known.failing.is_some() {
            return Seen::Unknown;
        }
        match known.objects.get(&(namespace.to_owned(), name.to_owned())) {
            Some(entry) => {
                Seen::Present { uid: entry.uid.clone(), resource_version: entry.resource_version.clone() }
            }
            None => Seen::Absent,
        }
    }

    /// The kinds that `holder` needs whose watch keeps failing, as `<Kind>.<group/version>`, each with what the API
    /// server says. Until it works again, changes of their objects wake nobody.
    pub fn failing(&self, holder: &str) -> BTreeMap<String, String> {
        let watches = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        let failing = watches.iter().filter_map(|((group, version, kind), watch)| {
            let known = watch.known();
            let text = known.failing.clone().filter(|_| known.holders.contains(holder))?;
            let separator = if group.is_empty() { "" } else { "/" };
            Some((format!("{kind}.{group}{separator}{version}"), text))
        });
        failing.collect()
    }

    /// Number of kinds watched now.
    pub fn kinds(&self) -> usize {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn start(&self, resource: &ApiResource) -> KindWatch {
        let known = Arc::new(Mutex::new(Known::default()));
        let config = watcher::Config::default().labels(&self.label_selector);
        let events = kube::runtime::watcher(Api::all_with(self.client.clone(), resource), config);
        let task = tokio::spawn(follow(
            events.backoff(self.chance.watch_backoff()),
            known.clone(),
            self.changed.clone(),
            resource.kind.clone(),
        ));
        KindWatch { known, task }
    }
}

impl KindWatch {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(resource: &ApiResource) -> GroupVersionKind {
    (resource.group.clone(), resource.version.clone(), resource.kind.clone())
}

type Metadata = PartialObjectMeta<DynamicObject>;

async fn follow(
    events: impl Stream<Item = watcher::Result<Event<Metadata>>>,
    known: Arc<Mutex<Known>>,
    changed: mpsc::Sender<OwnerChanged>,
    kind: String,
) {
    let mut events = std::pin::pin!(events);
    let mut listed: HashMap<Place, Entry> = HashMap::new();
    let mut trouble = Trouble::default();
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            () = trouble.is_over() => {
                wake_all(set_failing(&known, None), &changed).await;
                trouble = Trouble::default();
                continue;
            }
        };
        let Some(event) = event else { return };
        if trouble.ends_with(&event) {
            trouble = Trouble::default();
            wake_all(set_failing(&known, None), &changed).await;
        }
        let woken = match event {
            Ok(Event::Init) => {
                listed.clear();
                Vec::new()
            }
            Ok(Event::InitApply(object)) => {
                let (place, entry) = record(&object);
                listed.insert(place, entry);
                Vec::new()
            }
            Ok(Event::InitDone) => replace(&known, std::mem::take(&mut listed)),
            Ok(Event::Apply(object)) => {
                let (place, entry) = record(&object);
                note(&known, place, Some(entry))
            }
            Ok(Event::Delete(object)) => {
                let (place, entry) = record(&object);
                let mut woken = note(&known, place, None);
                woken.extend(entry.owner.filter(|owner| !woken.contains(owner)));
                woken
            }
            Err(error) => {
                tracing::debug!(kind, %error, "watch interrupted");
                match trouble.told(&error) {
                    Some(text) => set_failing(&known, Some(text)),
                    None => Vec::new(),
                }
            }
        };
        wake_all(woken, &changed).await;
    }
}

async fn wake_all(owners: Vec<OwnerChanged>, changed: &mpsc::Sender<OwnerChanged>) {
    for owner in owners {
        // A closed channel means that the process is ending.
        let _ = changed.send(owner).await;
    }
}

/// Notes that the watch keeps failing, or works again; returns whom to wake, which is everybody if that is news.
fn set_failing(known: &Mutex<Known>, text: Option<String>) -> Vec<OwnerChanged> {
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    let is_news = known.failing.is_some() != text.is_some();
    known.failing = text;
    let holders = known.holders.iter().filter(|_| is_news);
    holders.map(|uid| OwnerChanged::Kept { uid: uid.clone() }).collect()
}

/// Notes an object as it is now and returns its controller owners, the one before and the one now: who loses an
/// object to another one is to know.
fn note(known: &Mutex<Known>, place: Place, now: Option<Entry>) -> Vec<OwnerChanged> {
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
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
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
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

fn record(object: &Metadata) -> (Place, Entry) {
    let place = (object.namespace().unwrap_or_default(), object.name_any());
    let controller = object.owner_references().iter().find(|r| r.controller == Some(true));
    let kept =
        || object.annotations().get(OWNER_UID_ANNOTATION).map(|uid| OwnerChanged::Kept { uid: uid.clone() });
    let owner =
        controller.map(|r| OwnerChanged::Named { kind: r.kind.clone(), name: r.name.clone() }).or_else(kept);
    let entry = Entry {
        uid: object.uid().unwrap_or_default(),
        resource_version: object.resource_version().unwrap_or_default(),
        owner,
    };
    (place, entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(version: &str, owner: &str) -> Entry {
        let owner = OwnerChanged::Named { kind: "ClusterObjectSet".into(), name: owner.into() };
        Entry { uid: "u".into(), resource_version: version.into(), owner: Some(owner) }
    }

    fn place(name: &str) -> Place {
        ("n".into(), name.into())
    }

    #[test]
    fn whoever_loses_an_object_is_woken_with_the_new_owner() {
        let known = Mutex::new(Known::default());
        let name = |owner: OwnerChanged| match owner {
            OwnerChanged::Named { name, .. } => name,
            OwnerChanged::Kept { uid } => panic!("kept for {uid}"),
        };
        let names = |owners: Vec<OwnerChanged>| owners.into_iter().map(name).collect::<Vec<_>>();
        assert_eq!(names(note(&known, place("a"), Some(entry("1", "x-1")))), ["x-1"]);
        assert_eq!(names(note(&known, place("a"), Some(entry("2", "x-1")))), ["x-1"]);
        assert_eq!(names(note(&known, place("a"), Some(entry("3", "thief")))), ["thief", "x-1"]);
        assert_eq!(names(note(&known, place("a"), None)), ["thief"]);
        replace(&known, [(place("b"), entry("1", "x-1"))].into());
        let listed = replace(&known, [(place("b"), entry("2", "thief"))].into());
        assert_eq!(names(listed), ["thief", "x-1"]);
    }

    #[test]
    fn a_new_list_wakes_the_owners_of_what_differs() {
        let known = Mutex::new(Known::default());
        let first = [(place("a"), entry("1", "x-1")), (place("b"), entry("1", "y-1"))];
        assert_eq!(replace(&known, first.into()).len(), 2);
        let second = [(place("a"), entry("1", "x-1"))];
        let gone = OwnerChanged::Named { kind: "ClusterObjectSet".into(), name: "y-1".into() };
        assert_eq!(
            replace(&known, second.into()),
            [gone],
            "the object of y-1 vanished while the watch was away"
        );
    }

    #[test]
    fn what_is_kept_names_its_owner_by_annotation() {
        let mut object: Metadata =
            serde_json::from_value(serde_json::json!({"metadata": {"name": "o"}})).unwrap();
        object.metadata.annotations = Some([(OWNER_UID_ANNOTATION.to_owned(), "u".to_owned())].into());
        assert_eq!(record(&object).1.owner, Some(OwnerChanged::Kept { uid: "u".into() }));
        let reference = k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference {
            kind: "ReplicaSet".into(),
            name: "r".into(),
            controller: Some(true),
            ..Default::default()
        };
        object.metadata.owner_references = Some(vec![reference]);
        let named = OwnerChanged::Named { kind: "ReplicaSet".into(), name: "r".into() };
        assert_eq!(record(&object).1.owner, Some(named), "a controller reference counts first");
    }

    /// An API server without objects that counts how often each kind is listed.
    fn counting(lists: Arc<Mutex<BTreeMap<String, usize>>>) -> Client {
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let lists = lists.clone();
            async move {
                if request.uri().query().is_some_and(|query| query.contains("watch=true")) {
                    std::future::pending::<()>().await;
                }
                *lists.lock().unwrap().entry(request.uri().path().to_owned()).or_default() += 1;
                let list = serde_json::json!({
                    "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList",
                    "metadata": {"resourceVersion": "1"}, "items": [],
                });
                let body = kube::client::Body::from(list.to_string().into_bytes());
                Ok::<_, std::convert::Infallible>(http::Response::new(body))
            }
        });
        Client::new(service, "default")
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_is_refused_is_told_to_who_needs_the_kind_and_so_is_its_end() {
        let holders = BTreeSet::from(["uid-1".to_owned(), "uid-2".to_owned()]);
        let known = Arc::new(Mutex::new(Known { holders, ..Known::default() }));
        let (events, stream) = mpsc::unbounded_channel();
        let (changed, mut woken) = mpsc::channel(8);
        let stream =
            futures::stream::unfold(stream, |mut stream| async { Some((stream.recv().await?, stream)) });
        let following = tokio::spawn(follow(stream, known.clone(), changed, "Beacon".to_owned()));
        let both = ["uid-1", "uid-2"].map(|uid| OwnerChanged::Kept { uid: uid.to_owned() });
        let failing = || known.lock().unwrap().failing.clone();
        let refuse = || {
            let status = kube::core::Status::failure("no beacons for you", "Forbidden").with_code(403);
            events.send(Err(watcher::Error::WatchStartFailed(kube::Error::Api(status.boxed())))).unwrap();
        };
        events.send(Ok(Event::InitDone)).unwrap();
        for _ in 0..4 {
            refuse();
            tokio::time::sleep(std::time::Duration::from_secs(6)).await;
        }
        assert_eq!([woken.recv().await.unwrap(), woken.recv().await.unwrap()], both);
        assert_eq!(failing().as_deref(), Some("no beacons for you"));
        refuse();
        // Nothing more comes: the watch works, and has nothing to tell.
        let since = tokio::time::Instant::now();
        assert_eq!([woken.recv().await.unwrap(), woken.recv().await.unwrap()], both);
        assert!(failing().is_none() && since.elapsed() > std::time::Duration::from_mins(1));
        assert!(woken.try_recv().is_err(), "each was woken once");
        drop(events);
        following.await.unwrap();
    }

    fn kind(name: &str) -> Kind {
        let gvk = kube::core::GroupVersionKind::gvk("", "v1", name);
        Kind { resource: ApiResource::from_gvk(&gvk), namespaced: true }
    }

    #[tokio::test]
    async fn a_kind_is_watched_once_and_only_while_somebody_needs_it() {
        let lists = Arc::new(Mutex::new(BTreeMap::new()));
        let (changed, _changes) = mpsc::channel(8);
        let watches = WatchManager::new(counting(lists.clone()), "a=b", changed, Chance::seeded(1));
        let (maps, secrets) = (kind("ConfigMap"), kind("Secret"));
        let absent = async |kind: &Kind| {
            let listed = async {
                while watches.seen(&kind.resource, "n", "a") != Seen::Absent {
                    tokio::task::yield_now().await;
                }
            };
            tokio::time::timeout(std::time::Duration::from_mins(1), listed).await.expect("never listed");
        };
        watches.hold("one", &[maps.clone(), secrets.clone()]);
        watches.hold("two", std::slice::from_ref(&maps));
        absent(&maps).await;
        absent(&secrets).await;
        assert_eq!(watches.kinds(), 2);
        watches.hold("one", &[]);
        assert_eq!(watches.kinds(), 1, "only one needed Secrets");
        assert_eq!(watches.seen(&secrets.resource, "n", "a"), Seen::Unknown);
        absent(&maps).await;
        watches.release("two");
        assert_eq!(watches.kinds(), 0);
        watches.hold("three", std::slice::from_ref(&maps));
        absent(&maps).await;
        let lists = lists.lock().unwrap().clone();
        assert_eq!(lists.get("/api/v1/configmaps"), Some(&2), "once for both, and once again");
        assert_eq!(lists.get("/api/v1/secrets"), Some(&1));
    }
}
